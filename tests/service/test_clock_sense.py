"""What a write that takes long has to do with steps of the clock (R6)."""

from virtual_time import NS
from wakebridge.routine.state import Once, Routine, RoutineState, Status
from wakebridge.schedule.instants import Now
from wakebridge.service.clock_sense import ClockSense

RIGHT_NS = 1_800_000_000 * NS
WRONG_NS = 0
"""Where the clock of a host without a battery begins."""
DUE_NS = RIGHT_NS + 600 * NS


def asked_for_as_a_delay() -> RoutineState:
    routine = Routine(
        id="r-1",
        session_id="chat",
        lineage="chat",
        task="x",
        rule=Once(due_ns=DUE_NS, elapsed=True),
        status=Status.SCHEDULED,
        next_due_ns=DUE_NS,
        created_ns=RIGHT_NS,
        updated_ns=RIGHT_NS,
    )
    return RoutineState(routines=(routine,))


def test_r6_a_step_that_comes_during_a_write_is_still_the_one_that_puts_the_clock_right() -> None:
    """What was asked for by a clock that was right is not carried decades ahead by it."""
    others_doubt = True
    sense = ClockSense(lambda: others_doubt)
    state = asked_for_as_a_delay()
    sense.begin(state, Now(WRONG_NS, 0))

    before = Now(WRONG_NS + 5 * NS, 5 * NS)
    state = sense.followed(state, before)
    others_doubt = False  # while the state is written, the clock is set and believed
    sense.settle(before)

    after = Now(RIGHT_NS, 7 * NS)
    state = sense.followed(state, after)
    assert state.routines[0].next_due_ns == DUE_NS
    sense.settle(after)

    # From there on it is a clock like any other: a delay is elapsed time.
    stepped = Now(RIGHT_NS + (3600 + 10) * NS, 17 * NS)
    assert sense.followed(state, stepped).routines[0].next_due_ns == DUE_NS + 3600 * NS
