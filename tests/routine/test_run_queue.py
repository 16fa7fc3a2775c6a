"""Whose turn it is in a conversation (R20, R21)."""

import pytest

from routine_world import SESSION, World
from wakebridge.routine import conversation, occurrence, run_queue
from wakebridge.routine.change import Change, Code, Refusal, RunEnded
from wakebridge.routine.limits import RUNS_MAX, TASK_MAX_CHARS
from wakebridge.routine.occurrence import Completed, Interrupted, Stopped
from wakebridge.routine.state import Phase, RunKind, RunOutcome, Status, Stop


def begun(world: World) -> list[str]:
    return [start.run_id for start in world.dispatch()]


def test_r21_one_active_run_per_session_and_the_order_of_kinds() -> None:
    world = World()
    world.submit(RunKind.INTERACTIVE, "i1")
    assert begun(world) == ["i1"]
    world.submit(RunKind.BACKGROUND, "b1")
    world.create(delay_s=1)
    world.at(1).wake()
    world.submit(RunKind.INTERACTIVE, "i2")
    order = []
    while running := [run.id for run in world.state.runs if run.phase is Phase.ACTIVE]:
        assert len(running) == 1
        order += running
        world.end(running[0])
        world.dispatch()
    assert order == ["i1", "i2", "r1.1", "b1"]


def test_r21_background_work_that_came_first_still_does_not_overtake() -> None:
    world = World()
    world.submit(RunKind.BACKGROUND, "b1")
    world.submit(RunKind.BACKGROUND, "b2")
    assert begun(world) == ["b1"]
    world.create(delay_s=1)
    world.at(1).wake()
    assert begun(world) == [], "it waits for the active run, background or not"
    world.end("b1")
    assert begun(world) == ["r1.1"]


def test_r21_a_scheduled_run_waits_for_a_session_that_is_busy_elsewhere() -> None:
    world = World()
    world.create(delay_s=1)
    world.at(1).wake()
    assert world.dispatch(busy=frozenset({SESSION})) == []
    run = world.run_of()
    assert run is not None
    assert run.phase is Phase.WAITING
    assert world.routine().status is Status.RUNNING
    assert begun(world) == ["r1.1"]


def test_r21_only_the_next_scheduled_run_is_claimed_the_rest_stays_queued() -> None:
    world = World()
    world.create("r1", delay_s=1)
    world.create("r2", delay_s=2)
    world.submit(RunKind.INTERACTIVE, "i1")
    world.dispatch()
    world.at(2).wake()
    world.dispatch()
    assert [(run.id, run.phase) for run in world.state.runs] == [
        ("i1", Phase.ACTIVE),
        ("r1.1", Phase.WAITING),
        ("r2.1", Phase.QUEUED),
    ]


def test_r21_an_interactive_request_may_interrupt_a_scheduled_run() -> None:
    world = World()
    world.create(delay_s=1, interval_s=60)
    run_id = world.start()
    world.submit(RunKind.INTERACTIVE, "i1", interrupts=True)
    assert begun(world) == []
    assert [(stop.run_id, stop.reason) for stop in world.stops()] == [(run_id, Stop.PREEMPT)]
    assert begun(world) == []
    assert world.stops() == [], "it is asked once"
    world.end(run_id, Stopped(confirmed=True))
    assert world.routine().status is Status.INTERRUPTED
    assert "interactive request" in (world.routine().error or "")
    assert begun(world) == ["i1"]


def test_r21_an_interrupting_request_behind_a_patient_one_interrupts_as_well() -> None:
    world = World()
    world.submit(RunKind.BACKGROUND, "b1")
    world.dispatch()
    world.submit(RunKind.INTERACTIVE, "i1")
    assert begun(world) == []
    assert world.stops() == []
    world.submit(RunKind.INTERACTIVE, "i2", interrupts=True)
    world.dispatch()
    assert [stop.run_id for stop in world.stops()] == ["b1"]


def test_r21_interactive_never_interrupts_interactive_and_background_interrupts_nothing() -> None:
    world = World()
    world.submit(RunKind.INTERACTIVE, "i1")
    world.dispatch()
    world.submit(RunKind.INTERACTIVE, "i2", interrupts=True)
    world.dispatch()
    assert world.stops() == []
    world.end("i1")
    [second] = begun(world)
    world.end(second)
    world.create(delay_s=1)
    world.start()
    world.submit(RunKind.BACKGROUND, "b1", interrupts=True)
    world.dispatch()
    assert world.stops() == []


def test_a_run_that_finishes_before_it_could_be_interrupted_counts_as_finished() -> None:
    world = World()
    world.create(delay_s=1)
    run_id = world.start()
    world.submit(RunKind.INTERACTIVE, "i1", interrupts=True)
    world.dispatch()
    world.end(run_id, Completed("just made it"))
    assert world.routine().status is Status.COMPLETED


def test_sessions_do_not_wait_for_each_other_beyond_the_limit_of_active_runs() -> None:
    world = World()
    for number in range(4):
        session_id = f"other-{number}"
        world.apply(conversation.open_session(world.state, session_id, world.now))
        world.create(f"r{number}", session_id=session_id, delay_s=1)
    world.at(1).wake()
    change = run_queue.dispatch(world.state, world.now, active_max=2)
    world.apply(change)
    phases = [run.phase for run in world.state.runs]
    assert phases == [Phase.ACTIVE, Phase.ACTIVE, Phase.QUEUED, Phase.QUEUED]
    world.submit(RunKind.INTERACTIVE, "i1", session_id="other-3")
    started = run_queue.dispatch(world.state, world.now, active_max=2)
    world.apply(started)
    assert [run.id for run in world.state.runs if run.phase is Phase.ACTIVE] == [
        "r0.1",
        "r1.1",
        "i1",
    ]


def test_dispatch_with_nothing_to_do_changes_nothing() -> None:
    world = World()
    world.create(delay_s=1)
    assert run_queue.dispatch(world.state, world.now).state is world.state
    world.start()
    assert run_queue.dispatch(world.state, world.now).state is world.state


def test_the_end_of_other_runs_is_told_to_whoever_waits() -> None:
    world = World()
    world.submit(RunKind.INTERACTIVE, "i1")
    world.dispatch()
    world.effects.clear()
    world.end("i1", Completed("hello"))
    [ended] = world.take(RunEnded)
    assert (ended.run_id, ended.session_id, ended.outcome, ended.text) == (
        "i1",
        SESSION,
        RunOutcome.COMPLETED,
        "hello",
    )
    assert world.state.runs == ()


def test_r48_interactive_and_background_work_in_the_queue_survives_a_restart() -> None:
    world = World()
    world.submit(RunKind.INTERACTIVE, "i1")
    world.submit(RunKind.BACKGROUND, "b1")
    world.dispatch()
    world.apply(occurrence.interrupt_unfinished(world.state, "restart", world.now))
    assert begun(world) == ["b1"]


def test_work_can_be_taken_back() -> None:
    world = World()
    world.submit(RunKind.INTERACTIVE, "i1")
    world.submit(RunKind.BACKGROUND, "b1")
    world.dispatch()
    world.apply(run_queue.withdraw(world.state, "b1", SESSION))
    [ended] = world.take(RunEnded)
    assert (ended.run_id, ended.outcome) == ("b1", RunOutcome.CANCELLED)
    world.apply(run_queue.withdraw(world.state, "i1", SESSION))
    assert [stop.run_id for stop in world.stops()] == ["i1"]
    before = world.state
    assert run_queue.withdraw(before, "i1", SESSION) == Change(before)
    world.effects.clear()
    world.end("i1", Interrupted("gone"))
    [ended] = world.take(RunEnded)
    assert ended.outcome is RunOutcome.INTERRUPTED


@pytest.mark.parametrize(
    ("kind", "task", "session_id", "run_id", "code"),
    [
        (RunKind.SCHEDULED, "x", SESSION, "n1", Code.INVALID),
        (RunKind.INTERACTIVE, " \n", SESSION, "n1", Code.INVALID),
        (RunKind.INTERACTIVE, "x" * (TASK_MAX_CHARS + 1), SESSION, "n1", Code.INVALID),
        (RunKind.INTERACTIVE, "x", "nobody", "n1", Code.NO_SESSION),
        (RunKind.INTERACTIVE, "x", SESSION, "i1", Code.INTERNAL),
    ],
)
def test_what_cannot_be_submitted(
    kind: RunKind, task: str, session_id: str, run_id: str, code: Code
) -> None:
    world = World()
    world.submit(RunKind.INTERACTIVE, "i1")
    refusal = run_queue.submit(
        world.state, kind, task, run_id=run_id, session_id=session_id, now=world.now
    )
    assert isinstance(refusal, Refusal)
    assert refusal.code is code


def test_a_routine_cannot_be_withdrawn_only_cancelled() -> None:
    world = World()
    world.create(delay_s=1)
    run_id = world.start()
    refusal = run_queue.withdraw(world.state, run_id, SESSION)
    assert isinstance(refusal, Refusal)
    assert refusal.code is Code.UNKNOWN_ID


def test_work_is_taken_back_in_its_own_session_only() -> None:
    world = World()
    world.apply(conversation.open_session(world.state, "other", world.now))
    world.submit(RunKind.BACKGROUND, "b1")
    for session_id, code in (("other", Code.UNKNOWN_ID), ("nobody", Code.NO_SESSION)):
        refusal = run_queue.withdraw(world.state, "b1", session_id)
        assert isinstance(refusal, Refusal)
        assert refusal.code is code


def test_r21_a_request_that_the_backend_works_on_itself_may_interrupt_too() -> None:
    world = World()
    world.create(delay_s=1)
    run_id = world.start()
    assert run_queue.active_in(world.state, SESSION) == run_id
    world.apply(run_queue.preempt(world.state, SESSION))
    assert [(stop.run_id, stop.reason) for stop in world.stops()] == [(run_id, Stop.PREEMPT)]
    again = world.state
    assert run_queue.preempt(again, SESSION) == Change(again)
    world.end(run_id, Stopped(confirmed=True))
    assert world.routine().status is Status.INTERRUPTED
    assert run_queue.active_in(world.state, SESSION) is None
    idle = world.state
    assert run_queue.preempt(idle, SESSION) == Change(idle)


def test_r21_an_interactive_run_is_not_interrupted_by_another() -> None:
    world = World()
    world.submit(RunKind.INTERACTIVE, "i1")
    world.dispatch()
    before = world.state
    assert run_queue.preempt(before, SESSION) == Change(before)


def test_the_queue_is_bounded() -> None:
    world = World()
    state = world.state
    for number in range(RUNS_MAX + 1):
        change = run_queue.submit(
            state,
            RunKind.BACKGROUND,
            "x",
            run_id=f"b{number}",
            session_id=SESSION,
            now=world.now,
        )
        if isinstance(change, Refusal):
            break
        state = change.state
    assert isinstance(change, Refusal)
    assert change.code is Code.FULL
    assert len(state.runs) == RUNS_MAX
