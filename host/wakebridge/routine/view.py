"""What `list` and every mutation show of a routine (R2, R23): JSON-ready, instants as RFC 3339."""

import msgspec

from wakebridge.routine.state import (
    Cancellation,
    Every,
    Once,
    Phase,
    Report,
    Routine,
    RoutineState,
    RunOutcome,
    Status,
    run_of_routine,
)
from wakebridge.schedule.instants import format_instant


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """The newest finished run of a routine."""

    run_id: str
    session_id: str
    due: str
    started_at: str | None
    ended_at: str
    outcome: RunOutcome


class RoutineView(msgspec.Struct, frozen=True, kw_only=True):
    """One routine as agents and people see it.

    `next_run` is null unless the routine is scheduled. `waiting` is true while a running one
    waits for its conversation to become idle. `latest_error` is why the routine is stopped, or
    why its newest run gave no result.
    """

    id: str
    session_id: str
    task: str
    status: Status
    next_run: str | None
    interval_s: int
    first_run: str
    run_count: int
    waiting: bool
    latest_result: str | None
    latest_error: str | None
    partial_result: str | None
    cancellation: Cancellation | None
    latest_run: RunView | None
    created_at: str
    updated_at: str


def view_of(state: RoutineState, routine: Routine) -> RoutineView:
    """Return what is shown of one routine."""
    latest = routine.latest
    run = run_of_routine(state, routine.id)
    partial = run.partial if run is not None else None
    rule = routine.rule
    return RoutineView(
        id=routine.id,
        session_id=routine.session_id,
        task=routine.task,
        status=routine.status,
        next_run=_text(routine.next_due_ns),
        interval_s=rule.interval_s if isinstance(rule, Every) else 0,
        first_run=format_instant(rule.due_ns if isinstance(rule, Once) else rule.anchor_ns),
        run_count=routine.run_count,
        waiting=run is not None and run.phase is Phase.WAITING,
        latest_result=latest.result if latest is not None else None,
        latest_error=routine.error or (latest.error if latest is not None else None),
        partial_result=partial or (latest.partial if latest is not None else None),
        cancellation=routine.cancellation,
        latest_run=None if latest is None else _run_view(latest),
        created_at=format_instant(routine.created_ns),
        updated_at=format_instant(routine.updated_ns),
    )


def views_of(state: RoutineState) -> list[RoutineView]:
    """Return every routine, in order of creation (R2)."""
    return [view_of(state, routine) for routine in state.routines]


def _run_view(report: Report) -> RunView:
    return RunView(
        run_id=report.run_id,
        session_id=report.session_id,
        due=format_instant(report.due_ns),
        started_at=_text(report.started_ns),
        ended_at=format_instant(report.ended_ns),
        outcome=report.outcome,
    )


def _text(instant_ns: int | None) -> str | None:
    return None if instant_ns is None else format_instant(instant_ns)
