"""Conversations, their revisions and their end (R10, R20, R22)."""

import pytest

from routine_world import SESSION, World
from wakebridge.routine import conversation, lineage
from wakebridge.routine.change import Append, Change, Code, Refusal, RunEnded
from wakebridge.routine.limits import LINEAGES_MAX, REVISIONS_MAX
from wakebridge.routine.occurrence import Completed, Stopped
from wakebridge.routine.state import LineageStatus, RunKind, Status, Stop


def revise(world: World, session_id: str, new_id: str) -> None:
    world.apply(conversation.revise_session(world.state, session_id, new_id, world.now))


def clear(world: World, session_id: str = SESSION) -> None:
    world.apply(conversation.clear_session(world.state, session_id, "user asked", world.now))


def code_of(change: Change | Refusal) -> Code:
    assert isinstance(change, Refusal)
    return change.code


def test_r22_a_schedule_runs_in_the_newest_revision() -> None:
    world = World()
    world.create(delay_s=10)
    revise(world, SESSION, "session-1b")
    revise(world, "session-1b", "session-1c")
    world.at(10).wake()
    [start] = world.dispatch()
    assert start.session_id == "session-1c"
    [append] = [effect for effect in world.effects if isinstance(effect, Append)]
    assert append.entry.session_id == "session-1c"
    assert world.routine().session_id == SESSION, "R3: the originating session is kept"


def test_r22_a_schedule_created_in_an_old_revision_belongs_to_the_same_conversation() -> None:
    world = World()
    revise(world, SESSION, "session-1b")
    world.create(session_id=SESSION, delay_s=10)
    world.create("r2", session_id="session-1b", delay_s=10)
    assert {world.routine(i).lineage for i in ("r1", "r2")} == {SESSION}


def test_r22_a_revision_during_a_run_leaves_the_run_where_it_is() -> None:
    world = World()
    world.create(delay_s=10)
    run_id = world.start()
    revise(world, SESSION, "session-1b")
    world.end(run_id)
    latest = world.routine().latest
    assert latest is not None
    assert latest.session_id == SESSION


def test_r22_clearing_makes_scheduled_queued_and_waiting_ones_fail_explicitly() -> None:
    world = World()
    world.create("r1", delay_s=10, interval_s=60)
    world.create("r2", delay_s=20)
    world.create("r3", delay_s=1000)
    world.at(20).wake()
    world.dispatch(busy=frozenset({SESSION}))
    clear(world)
    for routine_id in ("r1", "r2", "r3"):
        failed = world.routine(routine_id)
        assert failed.status is Status.FAILED
        assert failed.error == "the conversation of session 'session-1' was cleared (user asked)"
    assert world.state.runs == ()
    world.at(5000).wake()
    assert world.dispatch() == [], "never resurrected"


def test_r22_clearing_during_a_run_stops_it_and_fails_whatever_it_says() -> None:
    world = World()
    world.create(delay_s=10, interval_s=60)
    run_id = world.start()
    clear(world)
    assert [(stop.run_id, stop.reason) for stop in world.stops()] == [(run_id, Stop.SESSION_ENDED)]
    assert world.routine().status is Status.RUNNING
    world.end(run_id, Completed("too late"))
    assert world.routine().status is Status.FAILED
    assert "was cleared" in (world.routine().error or "")
    latest = world.routine().latest
    assert latest is not None
    assert latest.result == "too late"


def test_r22_clearing_after_a_cancel_leaves_it_a_cancel() -> None:
    world = World()
    world.create(delay_s=10)
    run_id = world.start()
    world.cancel()
    clear(world)
    world.end(run_id, Stopped(confirmed=True))
    assert world.routine().status is Status.CANCELLED


def test_r22_a_new_root_by_configuration_makes_old_schedules_fail_and_takes_new_ones() -> None:
    world = World()
    world.create(delay_s=10)
    world.apply(
        conversation.replace_session(world.state, SESSION, "root-2", "model changed", world.now)
    )
    assert world.routine().status is Status.FAILED
    assert "replaced by a new root (model changed)" in (world.routine().error or "")
    world.create("r2", session_id="root-2", delay_s=10)
    current = lineage.current(world.state.lineages)
    assert current is not None
    assert current.root == "root-2"


def test_r22_nothing_opens_an_ended_conversation_again() -> None:
    world = World()
    revise(world, SESSION, "session-1b")
    world.create(delay_s=10)
    clear(world)
    for session_id in (SESSION, "session-1b"):
        opened = conversation.open_session(world.state, session_id, world.now)
        assert code_of(opened) is Code.SESSION_ENDED
        revised = conversation.revise_session(world.state, session_id, "session-1c", world.now)
        assert code_of(revised) is Code.SESSION_ENDED
    assert code_of(world.update(delay_s=5)) is Code.SESSION_ENDED


def test_r22_clearing_ends_interactive_and_background_work_too() -> None:
    world = World()
    world.submit(RunKind.INTERACTIVE, "i1")
    world.submit(RunKind.BACKGROUND, "b1")
    world.dispatch()
    world.effects.clear()
    clear(world)
    assert [ended.run_id for ended in world.effects if isinstance(ended, RunEnded)] == ["b1"]
    assert [stop.run_id for stop in world.stops()] == ["i1"]


def test_opening_twice_and_reporting_a_compaction_twice_change_nothing() -> None:
    world = World()
    again = conversation.open_session(world.state, SESSION, world.now)
    assert again == Change(world.state)
    revise(world, SESSION, "session-1b")
    again = conversation.revise_session(world.state, SESSION, "session-1b", world.now)
    assert again == Change(world.state)


@pytest.mark.parametrize(
    ("session_id", "new_id", "code"),
    [
        ("nobody", "x", Code.NO_SESSION),
        (SESSION, "x", Code.SESSION_EXISTS),
        ("session-1b", SESSION, Code.SESSION_EXISTS),
        ("session-1b", "other", Code.SESSION_EXISTS),
        ("session-1b", "", Code.INVALID),
        ("session-1b", "a\nb", Code.INVALID),
        ("session-1b", "x" * 201, Code.INVALID),
    ],
)
def test_revisions_that_make_no_sense_are_refused(session_id: str, new_id: str, code: Code) -> None:
    world = World()
    revise(world, SESSION, "session-1b")
    world.apply(conversation.open_session(world.state, "other", world.now))
    change = conversation.revise_session(world.state, session_id, new_id, world.now)
    assert code_of(change) is code


def test_a_conversation_is_not_replaced_by_itself() -> None:
    world = World()
    change = conversation.replace_session(world.state, SESSION, SESSION, None, world.now)
    assert code_of(change) is Code.SESSION_EXISTS


def test_many_compactions_stay_bounded_and_the_root_is_never_forgotten() -> None:
    world = World()
    world.create(delay_s=10)
    newest = SESSION
    for number in range(REVISIONS_MAX * 2):
        revise(world, newest, f"revision-{number}")
        newest = f"revision-{number}"
    [entry] = world.state.lineages
    assert len(entry.revisions) == REVISIONS_MAX
    world.at(10).wake()
    [start] = world.dispatch()
    assert start.session_id == newest
    assert lineage.lineage_of(world.state.lineages, SESSION) is entry


def test_the_ledger_is_bounded_and_forgets_only_ended_conversations_nobody_needs() -> None:
    world = World()
    world.create(delay_s=10)
    clear(world)
    ledger = world.state.lineages
    in_use = frozenset({SESSION})
    for number in range(LINEAGES_MAX - 1):
        opened = lineage.opened(ledger, f"s{number}", number, in_use)
        assert not isinstance(opened, Refusal)
        ledger = opened
    full = lineage.opened(ledger, "one-more", 0, in_use)
    assert isinstance(full, Refusal)
    assert full.code is Code.FULL
    ended = lineage.ended(ledger, "s5", LineageStatus.CLEARED, None, 5)
    assert not isinstance(ended, Refusal)
    opened = lineage.opened(ended, "one-more", 0, in_use)
    assert not isinstance(opened, Refusal)
    assert lineage.lineage_of(opened, "s5") is None
    assert lineage.lineage_of(opened, SESSION) is not None


def test_the_current_conversation_is_the_one_opened_or_spoken_to_last() -> None:
    world = World()
    assert lineage.current(()) is None
    world.apply(conversation.open_session(world.state, "other", world.now))
    current = lineage.current(world.state.lineages)
    assert current is not None
    assert current.root == "other"
    world.submit(RunKind.INTERACTIVE, "i1")
    current = lineage.current(world.state.lineages)
    assert current is not None
    assert current.root == SESSION
