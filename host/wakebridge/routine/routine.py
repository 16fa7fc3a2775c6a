"""What an agent does to its routines: create, update, cancel (R1 to R4, R32).

Every function takes the state and returns a `Change` or a `Refusal`; none reads a clock or draws
an id. How an occurrence runs is in `occurrence`, whose turn it is in `run_queue`.
"""

import msgspec

from wakebridge.routine import cadence, lineage
from wakebridge.routine.change import Change, Changed, Code, Refusal, StopRun
from wakebridge.routine.limits import (
    INSTANT_MAX_NS,
    NS_PER_S,
    ROUTINES_LIVE_MAX,
    ROUTINES_STOPPED_MAX,
    RUN_AT_PAST_MAX_S,
)
from wakebridge.routine.state import (
    STOPPED,
    Cancellation,
    Every,
    Once,
    Phase,
    Routine,
    RoutineState,
    Rule,
    Run,
    Status,
    Stop,
    routine_of,
    run_of_routine,
    with_routine,
    with_run,
    without_run,
)
from wakebridge.schedule.instants import Now, format_instant


class Definition(msgspec.Struct, frozen=True):
    """What to do and when, as the agent asked for it (R1).

    Exactly one of `delay_s` and `run_at_ns` is set. `interval_s` 0 means once.
    """

    task: str
    delay_s: int | None = None
    run_at_ns: int | None = None
    interval_s: int = 0


def create(
    state: RoutineState,
    definition: Definition,
    *,
    routine_id: str,
    session_id: str,
    now: Now,
    doubted: bool = False,
) -> Change | Refusal:
    """Add a routine to the conversation of `session_id`, which must exist and be open (R1, R10).

    `routine_id` is a fresh id drawn by the caller. Whether the board can be armed is for the
    caller to know before (R9). `doubted`: the wall clock is known to be wrong.
    """
    conversation = lineage.resolve(state.lineages, session_id)
    if isinstance(conversation, Refusal):
        return conversation
    if routine_of(state, routine_id) is not None:
        return Refusal(Code.INTERNAL, f"the id {routine_id!r} is in use already")
    if sum(1 for r in state.routines if r.status not in STOPPED) >= ROUTINES_LIVE_MAX:
        return _full()
    rule = _rule(definition, now, doubted)
    if isinstance(rule, Refusal):
        return rule
    routine = Routine(
        id=routine_id,
        session_id=session_id,
        lineage=conversation.root,
        task=definition.task,
        rule=rule,
        status=Status.SCHEDULED,
        next_due_ns=cadence.first(rule),
        created_ns=now.wall_ns,
        updated_ns=now.wall_ns,
    )
    routines = (*_without_oldest_stopped(state.routines), routine)
    changed = msgspec.structs.replace(state, routines=routines)
    return Change(changed, (Changed(routine),), routine)


def update(
    state: RoutineState, routine_id: str, definition: Definition, now: Now, *, doubted: bool = False
) -> Change | Refusal:
    """Replace task and time of a stopped or pending routine, which keeps its session (R3).

    The newest result stays for `list`. A queued occurrence is dropped by its replacement; a
    running one is refused, and so is a routine whose conversation has ended (R22).
    """
    routine = routine_of(state, routine_id)
    if routine is None:
        return _unknown(routine_id)
    if routine.status is Status.RUNNING:
        return Refusal(
            Code.WRONG_STATUS, f"routine {routine_id!r} is running: cancel it first, or wait", "id"
        )
    conversation = lineage.resolve(state.lineages, routine.lineage)
    if isinstance(conversation, Refusal):
        return conversation
    live = sum(1 for r in state.routines if r.status not in STOPPED)
    if routine.status in STOPPED and live >= ROUTINES_LIVE_MAX:
        return _full()
    rule = _rule(definition, now, doubted)
    if isinstance(rule, Refusal):
        return rule
    updated = msgspec.structs.replace(
        routine,
        task=definition.task,
        rule=rule,
        status=Status.SCHEDULED,
        next_due_ns=cadence.first(rule),
        last_due_ns=None,
        updated_ns=now.wall_ns,
        error=None,
        cancellation=None,
    )
    run = run_of_routine(state, routine_id)
    if run is not None:
        state = without_run(state, run.id)
    return Change(with_routine(state, updated), (Changed(updated),), updated)


def cancel(state: RoutineState, routine_id: str, now: Now) -> Change | Refusal:
    """Cancel all future runs and ask a running one to stop (R4).

    A routine whose task is with the agent stays `running` with its cancellation `requested`
    until the end of the run is known. Cancelling a stopped routine changes nothing.
    """
    routine = routine_of(state, routine_id)
    if routine is None:
        return _unknown(routine_id)
    if routine.status in STOPPED:
        return Change(state, (), routine)
    run = run_of_routine(state, routine_id)
    if run is not None and run.phase is Phase.ACTIVE:
        return _request_stop(state, routine, run, now)
    cancelled = msgspec.structs.replace(
        routine, status=Status.CANCELLED, next_due_ns=None, updated_ns=now.wall_ns
    )
    if run is not None:
        state = without_run(state, run.id)
    return Change(with_routine(state, cancelled), (Changed(cancelled),), cancelled)


def _request_stop(state: RoutineState, routine: Routine, run: Run, now: Now) -> Change:
    if routine.cancellation is not None:
        return Change(state, (), routine)
    asked = msgspec.structs.replace(
        routine, cancellation=Cancellation.REQUESTED, updated_ns=now.wall_ns
    )
    state = with_routine(state, asked)
    state = with_run(state, msgspec.structs.replace(run, stop=Stop.CANCEL))
    return Change(state, (StopRun(run.id, Stop.CANCEL), Changed(asked)), asked)


def _rule(definition: Definition, now: Now, doubted: bool) -> Rule | Refusal:
    elapsed = definition.delay_s is not None
    doubtful = elapsed and doubted
    if definition.delay_s is not None:
        first_ns, field = now.wall_ns + definition.delay_s * NS_PER_S, "delay_s"
    elif definition.run_at_ns is not None:
        first_ns, field = definition.run_at_ns, "run_at"
        if first_ns < now.wall_ns - RUN_AT_PAST_MAX_S * NS_PER_S:
            reason = (
                f"run_at {format_instant(first_ns)} is in the past: "
                f"it is {format_instant(now.wall_ns)} now"
            )
            return Refusal(Code.INVALID, reason, field)
    else:
        return Refusal(Code.INVALID, "exactly one of delay_s and run_at is needed", "delay_s")
    if not 0 <= first_ns <= INSTANT_MAX_NS:
        last = format_instant(INSTANT_MAX_NS)
        return Refusal(Code.INVALID, f"{field} lies outside 1970 to {last}", field)
    if definition.interval_s:
        return Every(
            anchor_ns=first_ns,
            interval_s=definition.interval_s,
            elapsed=elapsed,
            doubtful=doubtful,
        )
    return Once(due_ns=first_ns, elapsed=elapsed, doubtful=doubtful)


def _without_oldest_stopped(routines: tuple[Routine, ...]) -> tuple[Routine, ...]:
    stopped = [r for r in routines if r.status in STOPPED]
    if len(stopped) < ROUTINES_STOPPED_MAX:
        return routines
    oldest = min(stopped, key=lambda r: r.updated_ns)
    return tuple(r for r in routines if r is not oldest)


def _unknown(routine_id: str) -> Refusal:
    return Refusal(Code.UNKNOWN_ID, f"there is no routine {routine_id!r}", "id")


def _full() -> Refusal:
    return Refusal(
        Code.FULL, f"there are {ROUTINES_LIVE_MAX} live routines already: cancel some first"
    )
