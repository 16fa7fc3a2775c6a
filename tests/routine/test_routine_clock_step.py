"""Steps of the wall clock (R6, R47)."""

import pytest

from routine_world import NS, World
from wakebridge.routine.clock_step import clock_stepped
from wakebridge.routine.limits import INSTANT_MAX_NS
from wakebridge.routine.state import Status

DAY_S = 86_400


def step(world: World, step_s: int) -> None:
    world.at_ns += step_s * NS
    world.apply(clock_stepped(world.state, step_s * NS, world.now))


@pytest.mark.parametrize("step_s", [3600, -3600, 50 * 365 * DAY_S])
def test_r6_a_delay_is_elapsed_time_and_moves_with_the_clock(step_s: int) -> None:
    world = World()
    world.create(delay_s=600)
    step(world, step_s)
    assert world.next_s() == 600 + step_s
    world.wake()
    assert world.dispatch() == [], "ten minutes have not passed"


def test_an_instant_stays_the_instant_it_names() -> None:
    world = World()
    world.create(run_at="2027-01-15T09:00:00Z")
    step(world, 1800)
    assert world.next_s() == 3600
    step(world, 3600)
    world.wake()
    assert len(world.dispatch()) == 1, "skipped over, so it is late and runs once"


def test_r47_a_clock_that_was_far_ahead_does_not_silence_a_routine_for_years() -> None:
    world = World()
    world.create(run_at="2027-01-15T09:00:00Z", interval_s=DAY_S)
    step(world, 3 * 365 * DAY_S)
    world.end(world.start())
    assert world.next_s() == 3600 + 3 * 365 * DAY_S
    step(world, -3 * 365 * DAY_S)
    assert world.next_s() == 3600 + DAY_S, "not 3600: that occurrence has run"


def test_an_overdue_one_stays_overdue() -> None:
    world = World()
    world.create(run_at="2027-01-15T09:00:00Z", interval_s=DAY_S)
    world.end(world.start())
    world.at(3 * DAY_S)
    step(world, 60)
    assert world.next_s() == 3600 + DAY_S


def test_a_run_and_its_occurrence_move_together() -> None:
    world = World()
    world.create(delay_s=10, interval_s=60)
    run_id = world.start()
    step(world, 1000)
    world.end(run_id)
    assert world.next_s() == 10 + 60 + 1000


def test_a_step_that_leaves_the_calendar_is_cut() -> None:
    world = World()
    world.create("r1", delay_s=10, interval_s=60)
    world.create("r2", delay_s=20)
    for step_ns in (-INSTANT_MAX_NS, INSTANT_MAX_NS):
        world.apply(clock_stepped(world.state, step_ns, world.now))
    assert [world.routine(i).status for i in ("r1", "r2")] == [Status.SCHEDULED] * 2


def test_no_routine_no_change() -> None:
    world = World()
    assert clock_stepped(world.state, NS, world.now).state is world.state
