"""What the backend reports about its conversations, and what that does to routines (R20, R22)."""

import msgspec

from wakebridge.routine import lineage
from wakebridge.routine.change import (
    Change,
    Changed,
    Code,
    Effect,
    Refusal,
    RunEnded,
    StopRun,
)
from wakebridge.routine.state import (
    LineageStatus,
    Phase,
    RoutineState,
    Run,
    RunOutcome,
    Status,
    Stop,
    with_routine,
    with_run,
    without_run,
)
from wakebridge.schedule.instants import Now


def open_session(state: RoutineState, session_id: str, now: Now) -> Change | Refusal:
    """Enter a new root session. One that is open already is left as it is."""
    in_use = frozenset(r.lineage for r in state.routines) | frozenset(r.lineage for r in state.runs)
    return _with_ledger(state, lineage.opened(state.lineages, session_id, now.wall_ns, in_use))


def revise_session(
    state: RoutineState, session_id: str, new_session_id: str, now: Now
) -> Change | Refusal:
    """Enter the revision that compaction made; routines go on in it."""
    ledger = lineage.revised(state.lineages, session_id, new_session_id, now.wall_ns)
    return _with_ledger(state, ledger)


def clear_session(
    state: RoutineState, session_id: str, reason: str | None, now: Now
) -> Change | Refusal:
    """End a conversation whose history was cleared; its routines fail explicitly."""
    return _end(state, session_id, LineageStatus.CLEARED, reason, now)


def replace_session(
    state: RoutineState, session_id: str, new_session_id: str, reason: str | None, now: Now
) -> Change | Refusal:
    """End a conversation that a configuration change replaced by the new root `new_session_id`."""
    opened = open_session(state, new_session_id, now)
    if isinstance(opened, Refusal):
        return Refusal(opened.code, opened.reason, "new_session_id")
    if opened.state is state:
        known = lineage.lineage_of(state.lineages, session_id)
        if known is not None and known is lineage.lineage_of(state.lineages, new_session_id):
            return Refusal(
                Code.SESSION_EXISTS,
                f"session {new_session_id!r} belongs to the conversation it should replace",
                "new_session_id",
            )
    return _end(opened.state, session_id, LineageStatus.REPLACED, reason, now)


def _with_ledger(state: RoutineState, ledger: lineage.Ledger | Refusal) -> Change | Refusal:
    if isinstance(ledger, Refusal):
        return ledger
    if ledger is state.lineages:
        return Change(state)
    return Change(msgspec.structs.replace(state, lineages=ledger))


def _end(
    state: RoutineState, session_id: str, status: LineageStatus, reason: str | None, now: Now
) -> Change | Refusal:
    ledger = lineage.ended(state.lineages, session_id, status, reason, now.wall_ns)
    if isinstance(ledger, Refusal):
        return ledger
    conversation = lineage.lineage_of(ledger, session_id)
    if conversation is None:
        return Change(state)
    state = msgspec.structs.replace(state, lineages=ledger)
    why = lineage.why_ended(conversation)
    stopped = _stop_runs(state, conversation.root, why)
    failed = _fail_scheduled(stopped.state, conversation.root, why, now)
    return Change(failed.state, stopped.effects + failed.effects)


def _stop_runs(state: RoutineState, root: str, why: str) -> Change:
    """Drop what waits in the ended conversation; ask what is with the agent to stop."""
    effects: list[Effect] = []
    for run in (r for r in state.runs if r.lineage == root):
        if run.phase is not Phase.ACTIVE:
            state = without_run(state, run.id)
            if run.routine_id is None:
                effects.append(_dropped(run, why))
        elif run.stop not in (Stop.CANCEL, Stop.SESSION_ENDED):
            state = with_run(state, msgspec.structs.replace(run, stop=Stop.SESSION_ENDED))
            effects.append(StopRun(run.id, Stop.SESSION_ENDED))
    return Change(state, tuple(effects))


def _dropped(run: Run, why: str) -> RunEnded:
    return RunEnded(run_id=run.id, session_id=None, outcome=RunOutcome.FAILED, text=why)


def _fail_scheduled(state: RoutineState, root: str, why: str, now: Now) -> Change:
    """Fail the conversation's routines, except those whose task is still with the agent."""
    effects: list[Effect] = []
    with_agent = {r.routine_id for r in state.runs}
    for routine in (r for r in state.routines if r.lineage == root):
        pending = routine.status in (Status.SCHEDULED, Status.QUEUED, Status.RUNNING)
        if not pending or routine.id in with_agent:
            continue
        failed = msgspec.structs.replace(
            routine, status=Status.FAILED, next_due_ns=None, error=why, updated_ns=now.wall_ns
        )
        state = with_routine(state, failed)
        effects.append(Changed(failed))
    return Change(state, tuple(effects))
