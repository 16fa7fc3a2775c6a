"""What wakes make eligible (R40 to R43, R47, case A10)."""

import pytest

from routine_world import BOOT, LEASE, World
from wakebridge.routine import wake
from wakebridge.routine.change import StartRun
from wakebridge.routine.state import Cursor, RoutineState, RunKind, Status, next_due
from wakebridge.routine.wake import WakeEvent

OTHER_BOOT = "ffeeddccbbaa9988"
TOKEN = LEASE << 16 | 7


@pytest.mark.parametrize("source", [0, 1, 2, 3, 5, 6, 255])
def test_r40_only_source_four_makes_due_work_eligible(source: int) -> None:
    world = World()
    world.create(delay_s=10)
    world.at(20).wake(source)
    assert world.routine().status is Status.SCHEDULED
    assert world.state.cursor == Cursor(boot_id=BOOT, seq=1), "but the cursor has moved"
    world.wake(4)
    assert world.routine().status is Status.QUEUED


def test_r43_the_host_clock_alone_never_starts_anything() -> None:
    world = World()
    world.create(delay_s=10)
    world.at(1_000_000)
    assert world.dispatch() == []
    assert world.routine().status is Status.SCHEDULED
    assert next_due(world.state) is not None, "overdue, and still what the board is armed for"
    world.wake()
    assert len(world.dispatch()) == 1
    world.wake()
    assert world.dispatch() == []


def test_r45_an_early_wake_is_harmless() -> None:
    world = World()
    world.create("r1", delay_s=10)
    world.create("r2", delay_s=20)
    world.at(9.999).wake()
    assert world.dispatch() == []
    world.at(10).wake()
    assert [start.routine_id for start in world.dispatch()] == ["r1"]
    assert world.routine("r2").status is Status.SCHEDULED


def test_r41_cursor_and_queue_are_one_state() -> None:
    world = World()
    world.create(delay_s=10)
    world.at(10)
    events = [WakeEvent(1, 1), WakeEvent(2, 4, TOKEN), WakeEvent(3, 2)]
    change = world.apply(wake.wake(world.state, BOOT, events, world.now))
    assert change.state.cursor == Cursor(boot_id=BOOT, seq=3, expired_token=TOKEN)
    assert [run.routine_id for run in change.state.runs] == ["r1"]
    assert not any(isinstance(effect, StartRun) for effect in change.effects)


def test_r47_the_same_events_again_do_nothing() -> None:
    world = World()
    world.create(delay_s=10, interval_s=60)
    world.at(10)
    events = [WakeEvent(1, 1), WakeEvent(2, 4, TOKEN)]
    world.apply(wake.wake(world.state, BOOT, events, world.now))
    [start] = world.dispatch()
    world.end(start.run_id)
    world.at(10_000)
    before = world.state
    assert wake.wake(before, BOOT, events, world.now).state is before
    assert wake.wake(before, BOOT, [], world.now).state is before
    assert world.dispatch() == []


def test_r47_a_completed_occurrence_never_reruns_though_a_new_boot_counts_anew() -> None:
    world = World()
    world.create(delay_s=10, interval_s=86_400)
    world.end(world.start())
    ran = world.routine().last_due_ns
    for seq in (1, 2):
        event = WakeEvent(seq, 4, TOKEN)
        world.apply(wake.wake(world.state, OTHER_BOOT, [event], world.now))
        assert world.dispatch() == []
    assert world.routine().last_due_ns == ran
    assert world.state.cursor == Cursor(boot_id=OTHER_BOOT, seq=2, expired_token=TOKEN)


def test_events_out_of_order_are_taken_in_order() -> None:
    world = World()
    events = [WakeEvent(3, 2), WakeEvent(1, 1), WakeEvent(2, 4, TOKEN)]
    world.apply(wake.wake(world.state, BOOT, events, world.now))
    assert world.state.cursor == Cursor(boot_id=BOOT, seq=3, expired_token=TOKEN)


def test_due_routines_are_queued_earliest_first() -> None:
    world = World()
    world.create("late", delay_s=30)
    world.create("early", delay_s=10)
    world.create("middle", delay_s=20)
    world.at(30).wake()
    assert [run.routine_id for run in world.state.runs] == ["early", "middle", "late"]


def test_r42_an_expired_countdown_of_ours_is_one_wake_and_no_second() -> None:
    world = World()
    world.create("r1", delay_s=10)
    world.create("r2", delay_s=20)
    world.at(15)
    recover = wake.recovered_expiry
    world.apply(recover(world.state, BOOT, TOKEN, world.now, lease=LEASE))
    assert world.routine("r1").status is Status.QUEUED
    # The board could not be armed anew and still reads "expired" when the second one is due.
    world.at(25)
    assert recover(world.state, BOOT, TOKEN, world.now, lease=LEASE).state is world.state
    assert world.routine("r2").status is Status.SCHEDULED


def test_r42_an_expiry_whose_event_was_seen_is_not_recovered_again() -> None:
    world = World()
    world.at(5)
    world.apply(wake.wake(world.state, BOOT, [WakeEvent(2, 4, TOKEN)], world.now))
    world.create(delay_s=1)
    world.at(10)
    change = wake.recovered_expiry(world.state, BOOT, TOKEN, world.now, lease=LEASE)
    assert change.state is world.state


@pytest.mark.parametrize("token", [0, 7, (LEASE ^ 1) << 16 | 7])
def test_r42_an_expired_countdown_that_is_not_ours_recovers_nothing(token: int) -> None:
    world = World()
    world.create(delay_s=10)
    world.at(20)
    change = wake.recovered_expiry(world.state, BOOT, token, world.now, lease=LEASE)
    assert change.state is world.state


def test_r42_after_a_restart_of_the_board_the_same_token_counts_again() -> None:
    world = World()
    world.create(delay_s=10)
    world.apply(wake.wake(world.state, BOOT, [WakeEvent(2, 4, TOKEN)], world.now))
    world.at(10)
    world.apply(wake.recovered_expiry(world.state, OTHER_BOOT, TOKEN, world.now, lease=LEASE))
    assert world.routine().status is Status.QUEUED


def test_a10_r3_a_reboot_before_the_wake_changes_nothing_about_when_it_is_due() -> None:
    """Case A10 r3: rebooted at 10:05, started 10:06, due 10:10."""
    world = World()
    world.create(delay_s=600)
    world.at(360)
    event = WakeEvent(1, 1)
    world.apply(wake.wake(world.state, OTHER_BOOT, [event], world.now))
    assert world.dispatch() == []
    assert world.next_s() == 600
    world.at(600)
    world.apply(wake.wake(world.state, OTHER_BOOT, [WakeEvent(2, 4, TOKEN)], world.now))
    assert len(world.dispatch()) == 1


def test_a10_r1_a_host_that_stays_up_keeps_the_grid() -> None:
    """Case A10 r1: every 600 s; what comes next is never in the past."""
    world = World()
    world.create(delay_s=600, interval_s=600)
    run_id = world.at(600).start()
    world.at(601).end(run_id)
    assert world.next_s() == 1200
    run_id = world.at(1200).start()
    world.at(1201).end(run_id)
    assert world.next_s() == 1800


def test_a_full_queue_leaves_the_rest_due_for_the_next_wake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wake, "RUNS_MAX", 2)
    world = World()
    for number in range(3):
        world.create(f"r{number}", delay_s=10 + number)
    world.at(60).wake()
    assert [world.routine(f"r{n}").status for n in range(3)] == [
        Status.QUEUED,
        Status.QUEUED,
        Status.SCHEDULED,
    ]
    [start] = world.dispatch()
    world.end(start.run_id)
    world.wake()
    assert world.routine("r2").status is Status.QUEUED


def test_next_due_is_the_earliest_scheduled_one_and_none_without_any() -> None:
    assert next_due(RoutineState()) is None
    world = World()
    world.submit(RunKind.BACKGROUND, "b1")
    assert next_due(world.state) is None
    world.create("r1", delay_s=20)
    world.create("r2", delay_s=10)
    assert next_due(world.state) == world.routine("r2").next_due_ns
    world.cancel("r2")
    assert next_due(world.state) == world.routine("r1").next_due_ns
