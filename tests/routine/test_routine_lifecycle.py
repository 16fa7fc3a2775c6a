"""The lifecycle of a routine (R3, R4, R23, R32, R48)."""

import pytest

from routine_world import NS, SESSION, START_NS, World
from wakebridge.routine import occurrence, routine
from wakebridge.routine.change import Append, Change, Changed, Code, EntryType, Refusal, StopRun
from wakebridge.routine.limits import RESULT_MAX_CHARS, ROUTINES_LIVE_MAX, ROUTINES_STOPPED_MAX
from wakebridge.routine.occurrence import Completed, Failed, Interrupted, Outcome, Stopped
from wakebridge.routine.routine import Definition
from wakebridge.routine.state import Cancellation, Phase, RunOutcome, Status, next_due
from wakebridge.routine.view import view_of, views_of


def statuses(world: World) -> list[Status]:
    return [effect.routine.status for effect in world.effects if isinstance(effect, Changed)]


def refused(change: Change | Refusal) -> Refusal:
    assert isinstance(change, Refusal)
    return change


def test_r32_a_one_off_goes_from_scheduled_over_queued_and_running_to_completed() -> None:
    world = World()
    assert world.create(delay_s=600).status is Status.SCHEDULED
    assert world.next_s() == 600
    world.at(600).wake()
    assert world.routine().status is Status.QUEUED
    [start] = world.dispatch()
    assert (start.task, start.session_id, start.due_ns) == (
        "task of r1",
        SESSION,
        START_NS + 600 * NS,
    )
    assert world.routine().status is Status.RUNNING
    world.at(605).end(start.run_id, Completed("delivered at noon"))
    assert world.routine().status is Status.COMPLETED
    assert next_due(world.state) is None
    view = view_of(world.state, world.routine())
    assert (view.latest_result, view.latest_error, view.next_run) == (
        "delivered at noon",
        None,
        None,
    )


def test_r32_r47_a_repeating_one_goes_back_to_scheduled_on_its_own_grid() -> None:
    world = World()
    world.create(delay_s=10, interval_s=60)
    run_id = world.at(200).start()
    world.at(205).end(run_id)
    assert world.routine().status is Status.SCHEDULED
    assert world.next_s() == 10 + 4 * 60
    assert world.routine().run_count == 1


def test_r47_a_run_longer_than_its_interval_skips_what_passed_meanwhile() -> None:
    world = World()
    world.create(delay_s=10, interval_s=60)
    run_id = world.start()
    world.at(10 + 3 * 60).end(run_id)
    assert world.next_s() == 10 + 4 * 60, "an occurrence at the very instant of the end is past"


def test_r48_a_failed_run_stops_the_routine_until_it_is_updated() -> None:
    world = World()
    world.create(delay_s=10, interval_s=60)
    run_id = world.start()
    world.end(run_id, Failed("no network"))
    assert world.routine().status is Status.FAILED
    assert view_of(world.state, world.routine()).latest_error == "no network"
    world.at(500).wake()
    assert world.dispatch() == []
    world.apply(world.update(delay_s=5, interval_s=60))
    assert world.routine().status is Status.SCHEDULED
    assert world.routine().session_id == SESSION
    assert world.next_s() == 505
    assert world.start() == "r1.2"


def test_r3_update_replaces_a_pending_one_completely() -> None:
    world = World()
    world.create(delay_s=10, interval_s=60)
    world.apply(world.update(run_at="2027-01-15T09:00:00+01:00"))
    updated = world.routine()
    assert updated.task == "another task"
    assert view_of(world.state, updated).interval_s == 0
    assert view_of(world.state, updated).next_run == "2027-01-15T08:00:00+00:00"


def test_r3_update_of_a_queued_one_drops_the_queued_occurrence() -> None:
    world = World()
    world.create(delay_s=10)
    world.at(10).wake()
    world.apply(world.update(delay_s=100))
    assert world.state.runs == ()
    assert world.dispatch() == []
    assert world.next_s() == 110


def test_r3_update_of_a_running_one_is_refused() -> None:
    world = World()
    world.create(delay_s=10)
    world.start()
    refusal = refused(world.update(delay_s=100))
    assert (refusal.code, refusal.field) == (Code.WRONG_STATUS, "id")


def test_r23_the_latest_result_outlives_an_update() -> None:
    world = World()
    world.create(delay_s=10)
    world.end(world.start(), Completed("first answer"))
    world.apply(world.update(delay_s=100))
    assert view_of(world.state, world.routine()).latest_result == "first answer"


def test_r4_unknown_ids_are_refused_by_name() -> None:
    world = World()
    for change in (
        world.update("r9", delay_s=1),
        routine.cancel(world.state, "r9", world.now),
    ):
        refusal = refused(change)
        assert refusal.code is Code.UNKNOWN_ID
        assert "'r9'" in refusal.reason


@pytest.mark.parametrize("queued", [False, True])
def test_r4_cancel_of_a_scheduled_or_queued_one_is_final_at_once(queued: bool) -> None:
    world = World()
    world.create(delay_s=10, interval_s=60)
    if queued:
        world.at(10).wake()
    world.cancel()
    assert world.routine().status is Status.CANCELLED
    assert world.state.runs == ()
    world.at(1000).wake()
    assert world.dispatch() == []


def test_r4_cancel_of_one_that_waits_for_its_session_needs_no_confirmation() -> None:
    world = World()
    world.create(delay_s=10)
    world.at(10).wake()
    world.dispatch(busy=frozenset({SESSION}))
    assert world.routine().status is Status.RUNNING
    world.cancel()
    assert world.routine().status is Status.CANCELLED
    assert world.take(StopRun) == []


@pytest.mark.parametrize(
    ("outcome", "cancellation", "error"),
    [
        (Stopped(confirmed=True), Cancellation.CONFIRMED, None),
        (Stopped(confirmed=False), Cancellation.NOT_CONFIRMED, "did not confirm"),
        (Completed("done all the same"), Cancellation.TOO_LATE, None),
        (Failed("broke"), Cancellation.CONFIRMED, None),
        (Interrupted("agent gone"), Cancellation.NOT_CONFIRMED, "agent gone"),
    ],
)
def test_r4_cancel_of_a_running_one_asks_and_reports_what_came_of_it(
    outcome: Outcome, cancellation: Cancellation, error: str | None
) -> None:
    world = World()
    world.create(delay_s=10, interval_s=60)
    run_id = world.start()
    world.effects.clear()
    world.cancel()
    assert world.routine().status is Status.RUNNING
    assert world.routine().cancellation is Cancellation.REQUESTED
    assert [stop.run_id for stop in world.stops()] == [run_id]
    world.effects.clear()
    world.cancel()
    assert world.effects == [], "asking twice changes nothing"
    world.end(run_id, outcome)
    cancelled = world.routine()
    assert cancelled.status is Status.CANCELLED
    assert cancelled.cancellation is cancellation
    assert cancelled.next_due_ns is None
    if error is None:
        assert cancelled.error is None
    else:
        assert cancelled.error is not None
        assert error in cancelled.error


@pytest.mark.parametrize("outcome", [Completed("x"), Failed("x"), Interrupted("x")])
def test_r4_cancel_of_a_stopped_one_changes_nothing(outcome: Outcome) -> None:
    world = World()
    world.create(delay_s=10)
    world.end(world.start(), outcome)
    before = world.state
    world.cancel()
    assert world.state is before


def test_r23_r48_progress_is_kept_and_survives_an_interruption() -> None:
    world = World()
    world.create(delay_s=10, interval_s=60)
    run_id = world.start()
    world.effects.clear()
    for text in ("looked up the order", "called the carrier"):
        world.apply(occurrence.progress(world.state, run_id, text, world.now))
    entries = [append.entry for append in world.take(Append)]
    assert [(e.type, e.text) for e in entries] == [
        (EntryType.PROGRESS, "looked up the order"),
        (EntryType.PROGRESS, "called the carrier"),
    ]
    both = "looked up the order\ncalled the carrier"
    assert view_of(world.state, world.routine()).partial_result == both
    world.apply(occurrence.interrupt_unfinished(world.state, "the bridge was killed", world.now))
    interrupted = world.routine()
    assert interrupted.status is Status.INTERRUPTED
    view = view_of(world.state, interrupted)
    assert view.partial_result == both
    assert view.latest_error == "the bridge was killed"
    [entry] = [append.entry for append in world.take(Append)]
    assert entry.type is EntryType.INTERRUPTED
    world.at(1000).wake()
    assert world.dispatch() == [], "an interrupted run is not replayed"


def test_r48_recovery_interrupts_running_and_waiting_ones_and_keeps_the_queue() -> None:
    world = World()
    for number in (1, 2, 3):
        world.create(f"r{number}", delay_s=10 * number)
    world.at(30).wake()
    world.dispatch()
    phases = [run.phase for run in world.state.runs]
    assert phases == [Phase.ACTIVE, Phase.WAITING, Phase.QUEUED]
    world.apply(occurrence.interrupt_unfinished(world.state, "restart", world.now))
    assert [world.routine(f"r{n}").status for n in (1, 2, 3)] == [
        Status.INTERRUPTED,
        Status.INTERRUPTED,
        Status.QUEUED,
    ]
    assert [start.routine_id for start in world.dispatch()] == ["r3"]


def test_r31_recovery_with_nothing_to_recover_leaves_the_state_as_it_is() -> None:
    world = World()
    world.create(delay_s=10)
    world.at(10).wake()
    assert occurrence.interrupt_unfinished(world.state, "restart", world.now).state is world.state


def test_r4_a_crash_during_a_requested_cancellation_leaves_it_cancelled_and_unconfirmed() -> None:
    world = World()
    world.create(delay_s=10)
    world.start()
    world.cancel()
    world.apply(occurrence.interrupt_unfinished(world.state, "restart", world.now))
    assert world.routine().status is Status.CANCELLED
    assert world.routine().cancellation is Cancellation.NOT_CONFIRMED


def test_r47_a_second_report_about_a_run_is_refused() -> None:
    world = World()
    world.create(delay_s=10)
    run_id = world.start()
    world.end(run_id)
    before = world.state
    for change in (
        occurrence.ended(before, run_id, Completed("again"), world.now),
        occurrence.progress(before, run_id, "late", world.now),
    ):
        assert refused(change).code is Code.WRONG_STATUS


def test_r23_long_texts_are_cut_in_the_list_and_whole_in_the_transcript() -> None:
    world = World()
    world.create(delay_s=10)
    run_id = world.start()
    world.effects.clear()
    long = "x" * (RESULT_MAX_CHARS * 2)
    world.apply(occurrence.progress(world.state, run_id, long, world.now))
    world.end(run_id, Completed(long))
    assert [append.entry.text for append in world.take(Append)] == [long, long]
    latest = world.routine().latest
    assert latest is not None
    assert latest.result is not None
    assert len(latest.result) == RESULT_MAX_CHARS
    assert "transcript has all" in latest.result


def test_r23_a_crash_before_the_transcript_line_is_healed_by_the_last_entries() -> None:
    world = World()
    world.create("r1", delay_s=10)
    world.create("r2", delay_s=20)
    world.create("r3", delay_s=30)
    world.end(world.start("r1"), Completed("good"))
    world.end(world.start("r2"), Failed("bad"))
    entries = occurrence.last_entries(world.state)
    assert all(append.once for append in entries)
    assert [(a.entry.run_id, a.entry.type, a.entry.text) for a in entries] == [
        ("r1.1", EntryType.RESULT, "good"),
        ("r2.1", EntryType.ERROR, "bad"),
    ]


def test_r20_the_task_is_appended_to_its_session_before_it_starts() -> None:
    world = World()
    world.create(delay_s=10)
    world.at(10).wake()
    world.dispatch()
    [append, start] = world.effects[-2:]
    assert isinstance(append, Append)
    assert (append.entry.type, append.entry.text, append.entry.session_id) == (
        EntryType.INPUT,
        "task of r1",
        SESSION,
    )
    assert start == world.effects[-1]


def test_r1_a_run_at_long_past_is_refused_and_one_just_past_is_due_now() -> None:
    world = World()

    def create(seconds: int) -> Change | Refusal:
        definition = Definition(task="x", run_at_ns=START_NS - seconds * NS)
        return routine.create(
            world.state, definition, routine_id="r1", session_id=SESSION, now=world.now
        )

    refusal = refused(create(61))
    assert refusal.field == "run_at"
    assert "in the past" in refusal.reason
    world.apply(create(60))
    world.wake()
    assert len(world.dispatch()) == 1


def test_r10_a_session_must_exist() -> None:
    world = World(session_id=None)
    definition = Definition(task="x", delay_s=1)
    change = routine.create(
        world.state, definition, routine_id="r1", session_id="nobody", now=world.now
    )
    refusal = refused(change)
    assert (refusal.code, refusal.field) == (Code.NO_SESSION, "session_id")


def test_r2_list_shows_every_routine_with_its_status() -> None:
    world = World()
    world.create("r1", delay_s=10)
    world.create("r2", delay_s=20, interval_s=60)
    world.end(world.start("r1"))
    assert [(v.id, v.status, v.interval_s, v.next_run is None) for v in views_of(world.state)] == [
        ("r1", Status.COMPLETED, 0, True),
        ("r2", Status.SCHEDULED, 60, False),
    ]


def test_live_and_stopped_routines_are_bounded() -> None:
    world = World()
    for number in range(ROUTINES_STOPPED_MAX + 3):
        routine_id = f"old-{number}"
        definition = Definition(task="x", delay_s=1)
        created = routine.create(
            world.state, definition, routine_id=routine_id, session_id=SESSION, now=world.now
        )
        assert isinstance(created, Change)
        world.at(number)
        cancelled = routine.cancel(created.state, routine_id, world.now)
        assert isinstance(cancelled, Change)
        world.state = cancelled.state
    assert len(world.state.routines) == ROUTINES_STOPPED_MAX
    assert world.state.routines[0].id == "old-3"
    for number in range(ROUTINES_LIVE_MAX):
        change = routine.create(
            world.state,
            Definition(task="x", delay_s=1),
            routine_id=f"new-{number}",
            session_id=SESSION,
            now=world.now,
        )
        assert isinstance(change, Change)
        world.state = change.state
    one_more = Definition(task="x", delay_s=1)
    change = routine.create(
        world.state, one_more, routine_id="one-more", session_id=SESSION, now=world.now
    )
    assert refused(change).code is Code.FULL
    assert refused(routine.update(world.state, "old-5", one_more, world.now)).code is Code.FULL


def test_the_outcome_of_a_run_is_in_the_latest_report() -> None:
    world = World()
    world.create(delay_s=10)
    world.at(12)
    run_id = world.start()
    world.at(15).end(run_id)
    latest = view_of(world.state, world.routine()).latest_run
    assert latest is not None
    assert latest.outcome is RunOutcome.COMPLETED
    assert (latest.due, latest.started_at, latest.ended_at) == (
        "2027-01-15T08:00:10+00:00",
        "2027-01-15T08:00:12+00:00",
        "2027-01-15T08:00:15+00:00",
    )
