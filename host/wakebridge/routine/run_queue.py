"""Whose turn it is: one active run per conversation, and who goes before whom (R20, R21).

Interactive requests go before scheduled runs, those before background work, and within a kind the
one that was queued first. Background work never overtakes a scheduled run; an interactive request
may interrupt either.
"""

from collections.abc import Sequence

import msgspec

from wakebridge.routine import lineage
from wakebridge.routine.change import (
    Append,
    Change,
    Changed,
    Code,
    Effect,
    EntryType,
    Refusal,
    RunEnded,
    StartRun,
    StopRun,
)
from wakebridge.routine.limits import RUNS_ACTIVE_MAX, RUNS_MAX, TASK_MAX_CHARS
from wakebridge.routine.state import (
    Phase,
    RoutineState,
    Run,
    RunKind,
    RunOutcome,
    Status,
    Stop,
    routine_of,
    run_of,
    with_routine,
    with_run,
    without_run,
)
from wakebridge.routine.transcript import entry_of
from wakebridge.schedule.instants import Now

_PRECEDENCE = {RunKind.INTERACTIVE: 0, RunKind.SCHEDULED: 1, RunKind.BACKGROUND: 2}


def submit(
    state: RoutineState,
    kind: RunKind,
    task: str,
    *,
    run_id: str,
    session_id: str,
    now: Now,
    interrupts: bool = False,
) -> Change | Refusal:
    """Queue an interactive request or background work in a conversation.

    `run_id` is a fresh id drawn by the caller. With `interrupts` an interactive request asks the
    scheduled or background run that is active in its conversation to stop, instead of waiting.
    """
    if kind is RunKind.SCHEDULED:
        return Refusal(Code.INVALID, "a scheduled run comes from a routine and a wake", "kind")
    if not task.strip() or len(task) > TASK_MAX_CHARS:
        reason = f"task is 1 to {TASK_MAX_CHARS} characters and not blank"
        return Refusal(Code.INVALID, reason, "task")
    conversation = lineage.resolve(state.lineages, session_id)
    if isinstance(conversation, Refusal):
        return conversation
    if run_of(state, run_id) is not None:
        return Refusal(Code.INTERNAL, f"the id {run_id!r} is in use already")
    if len(state.runs) >= RUNS_MAX:
        return Refusal(Code.FULL, f"there are {RUNS_MAX} runs in the queue: try again later")
    run = Run(
        id=run_id,
        kind=kind,
        lineage=conversation.root,
        phase=Phase.QUEUED,
        queued_ns=now.wall_ns,
        task=task,
        interrupts=interrupts and kind is RunKind.INTERACTIVE,
    )
    ledger = state.lineages
    if kind is RunKind.INTERACTIVE:
        ledger = lineage.used(ledger, conversation.root)
    return Change(msgspec.structs.replace(state, runs=(*state.runs, run), lineages=ledger))


def withdraw(state: RoutineState, run_id: str, session_id: str) -> Change | Refusal:
    """Take back interactive or background work: out of the queue, or a request to stop it."""
    conversation = lineage.lineage_of(state.lineages, session_id)
    if conversation is None:
        return lineage.unknown(session_id)
    run = run_of(state, run_id)
    if run is None or run.routine_id is not None or run.lineage != conversation.root:
        return Refusal(Code.UNKNOWN_ID, f"there is no run {run_id!r} to take back", "run_id")
    if run.phase is Phase.QUEUED:
        gone = RunEnded(
            run_id=run.id, session_id=None, outcome=RunOutcome.CANCELLED, text="cancelled"
        )
        return Change(without_run(state, run.id), (gone,))
    if run.stop is Stop.CANCEL:
        return Change(state)
    stopping = with_run(state, msgspec.structs.replace(run, stop=Stop.CANCEL))
    return Change(stopping, (StopRun(run.id, Stop.CANCEL),))


def active_in(state: RoutineState, root: str) -> str | None:
    """Return the id of the run that works in a conversation now, or None."""
    active = (run.id for run in state.runs if run.lineage == root and run.phase is Phase.ACTIVE)
    return next(active, None)


def preempt(state: RoutineState, root: str) -> Change:
    """Ask what is active in a conversation to stop, for a request the backend works on itself."""
    active = next((r for r in state.runs if r.lineage == root and r.phase is Phase.ACTIVE), None)
    if active is None or active.kind is RunKind.INTERACTIVE or active.stop is not None:
        return Change(state)
    stopping = with_run(state, msgspec.structs.replace(active, stop=Stop.PREEMPT))
    return Change(stopping, (StopRun(active.id, Stop.PREEMPT),))


def dispatch(
    state: RoutineState,
    now: Now,
    busy: frozenset[str] = frozenset(),
    active_max: int = RUNS_ACTIVE_MAX,
) -> Change:
    """Start everything whose turn it is, and claim or preempt where that is due.

    `busy` are the roots of conversations whose backend works on something that did not come
    through this queue. `active_max` bounds scheduled and background runs over all conversations.
    A scheduled run that is next in a conversation that is not idle is claimed: it is `running`
    and waits. To be called after every other transition; nothing to do returns the same state.
    """
    effects: list[Effect] = []
    by_root: dict[str, list[Run]] = {}
    for run in state.runs:
        by_root.setdefault(run.lineage, []).append(run)
    for root, runs in by_root.items():
        change = _dispatch_in(state, runs, now, root in busy, active_max)
        state = change.state
        effects.extend(change.effects)
    return Change(state, tuple(effects))


def _dispatch_in(
    state: RoutineState, runs: Sequence[Run], now: Now, busy: bool, active_max: int
) -> Change:
    """Move one conversation on; `runs` are all of its runs, in order of queueing."""
    active = next((run for run in runs if run.phase is Phase.ACTIVE), None)
    pending = sorted(
        (run for run in runs if run.phase is not Phase.ACTIVE),
        key=lambda run: (_PRECEDENCE[run.kind], run.phase is Phase.QUEUED),
    )
    if not pending:
        return Change(state)
    if active is None and not busy:
        if _has_slot(state, pending[0], active_max):
            started = _start(state, pending[0], now)
            rest = _claim(started.state, pending[1:], now)
            return Change(rest.state, started.effects + rest.effects)
        return Change(state)
    claimed = _claim(state, pending, now)
    preempted = _preempt(claimed.state, active, pending)
    return Change(preempted.state, claimed.effects + preempted.effects)


def _has_slot(state: RoutineState, run: Run, active_max: int) -> bool:
    """An interactive request never waits for other conversations."""
    if run.kind is RunKind.INTERACTIVE:
        return True
    counted = (
        r for r in state.runs if r.phase is Phase.ACTIVE and r.kind is not RunKind.INTERACTIVE
    )
    return sum(1 for _ in counted) < active_max


def _start(state: RoutineState, run: Run, now: Now) -> Change:
    conversation = lineage.resolve(state.lineages, run.lineage)
    if isinstance(conversation, Refusal):
        return _fail_unstarted(state, run, conversation.reason, now)
    routine = None if run.routine_id is None else routine_of(state, run.routine_id)
    task = run.task if routine is None else routine.task
    if task is None:
        return _fail_unstarted(state, run, "the run has no task", now)
    started = msgspec.structs.replace(
        run,
        phase=Phase.ACTIVE,
        session_id=lineage.newest(conversation),
        started_ns=now.wall_ns,
    )
    state = with_run(state, started)
    effects: list[Effect] = []
    if routine is not None and routine.status is not Status.RUNNING:
        running = msgspec.structs.replace(routine, status=Status.RUNNING, updated_ns=now.wall_ns)
        state = with_routine(state, running)
        effects.append(Changed(running))
    effects.append(Append(entry_of(started, EntryType.INPUT, task, now.wall_ns)))
    effects.append(
        StartRun(
            run_id=run.id,
            kind=run.kind,
            session_id=lineage.newest(conversation),
            task=task,
            routine_id=run.routine_id,
            due_ns=run.due_ns,
        )
    )
    return Change(state, tuple(effects))


def _fail_unstarted(state: RoutineState, run: Run, reason: str, now: Now) -> Change:
    state = without_run(state, run.id)
    routine = None if run.routine_id is None else routine_of(state, run.routine_id)
    if routine is None:
        end = RunEnded(run_id=run.id, session_id=None, outcome=RunOutcome.FAILED, text=reason)
        return Change(state, (end,))
    failed = msgspec.structs.replace(
        routine, status=Status.FAILED, error=reason, updated_ns=now.wall_ns
    )
    return Change(with_routine(state, failed), (Changed(failed),))


def _claim(state: RoutineState, pending: Sequence[Run], now: Now) -> Change:
    """Claim the scheduled run that is next here, unless one is claimed already."""
    scheduled = next((run for run in pending if run.kind is RunKind.SCHEDULED), None)
    if scheduled is None or scheduled.phase is Phase.WAITING or scheduled.routine_id is None:
        return Change(state)
    routine = routine_of(state, scheduled.routine_id)
    if routine is None:
        return Change(state)
    running = msgspec.structs.replace(routine, status=Status.RUNNING, updated_ns=now.wall_ns)
    waiting = msgspec.structs.replace(scheduled, phase=Phase.WAITING)
    return Change(with_run(with_routine(state, running), waiting), (Changed(running),))


def _preempt(state: RoutineState, active: Run | None, pending: Sequence[Run]) -> Change:
    if active is None or not any(run.interrupts for run in pending):
        return Change(state)
    return preempt(state, active.lineage)
