"""What a step of the wall clock does to due instants."""

import msgspec

from wakebridge.routine import cadence
from wakebridge.routine.change import Change
from wakebridge.routine.limits import INSTANT_MAX_NS
from wakebridge.routine.state import Routine, RoutineState, Run
from wakebridge.schedule.instants import Now


def clock_stepped(state: RoutineState, step_ns: int, now: Now, *, doubted: bool = False) -> Change:
    """Re-evaluate the due instants after the wall clock was stepped by `step_ns` (forward > 0).

    Delays and their intervals are elapsed time (R6), so they move with the clock. A repeating
    routine that skipped ahead under a clock that was wrong comes back to the first occurrence
    that is later than both `now` and its newest run; nothing runs twice. `now` is after the step.

    `doubted`: the clock was known to be wrong before. Then the step puts it right, and only what
    was asked for under the wrong clock moves along: a host without a clock that runs on while it
    is off steps by decades at each start.
    """
    routines, moved_by_ns = [], {}
    for routine in state.routines:
        moves = routine.rule.elapsed and (routine.rule.doubtful or not doubted)
        by_ns = _bounded(routine, step_ns) if moves else 0
        moved_by_ns[routine.id] = by_ns
        routines.append(_nearest(_moved(routine, by_ns), now))
    runs = tuple(_moved_run(run, moved_by_ns.get(run.routine_id or "", 0)) for run in state.runs)
    if (tuple(routines), runs) == (state.routines, state.runs):
        return Change(state)
    return Change(msgspec.structs.replace(state, routines=tuple(routines), runs=runs))


def clock_believed(state: RoutineState) -> Change:
    """Take what was asked for under a wrong clock for settled: the clock is right now."""
    if not any(routine.rule.doubtful for routine in state.routines):
        return Change(state)
    routines = tuple(
        msgspec.structs.replace(routine, rule=msgspec.structs.replace(routine.rule, doubtful=False))
        for routine in state.routines
    )
    return Change(msgspec.structs.replace(state, routines=routines))


def _bounded(routine: Routine, step_ns: int) -> int:
    """Return the step cut so that no instant of the routine leaves the range of the document."""
    instants = [cadence.first(routine.rule), routine.last_due_ns, routine.next_due_ns]
    known = [instant_ns for instant_ns in instants if instant_ns is not None]
    return min(max(step_ns, -min(known)), INSTANT_MAX_NS - max(known))


def _moved(routine: Routine, by_ns: int) -> Routine:
    if not by_ns:
        return routine
    last_due_ns, next_due_ns = routine.last_due_ns, routine.next_due_ns
    return msgspec.structs.replace(
        routine,
        rule=cadence.shifted(routine.rule, by_ns),
        last_due_ns=None if last_due_ns is None else last_due_ns + by_ns,
        next_due_ns=None if next_due_ns is None else next_due_ns + by_ns,
    )


def _nearest(routine: Routine, now: Now) -> Routine:
    """Come back from skipping ahead under a wrong clock."""
    if routine.next_due_ns is None or routine.last_due_ns is None:
        return routine
    nearest = cadence.next_after(routine.rule, max(now.wall_ns, routine.last_due_ns))
    if nearest is None or nearest >= routine.next_due_ns:
        return routine
    return msgspec.structs.replace(routine, next_due_ns=nearest)


def _moved_run(run: Run, by_ns: int) -> Run:
    if run.due_ns is None or not by_ns:
        return run
    return msgspec.structs.replace(run, due_ns=run.due_ns + by_ns)
