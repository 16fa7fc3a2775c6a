"""The lines of a session's transcript that runs leave behind (R20, R23)."""

from wakebridge.routine.change import Entry, EntryType
from wakebridge.routine.state import Report, Routine, Run, RunKind, RunOutcome
from wakebridge.schedule.instants import format_instant

_FINAL = {
    RunOutcome.COMPLETED: EntryType.RESULT,
    RunOutcome.FAILED: EntryType.ERROR,
    RunOutcome.INTERRUPTED: EntryType.INTERRUPTED,
    RunOutcome.CANCELLED: EntryType.CANCELLED,
}


def entry_of(run: Run, entry_type: EntryType, text: str, at_ns: int) -> Entry:
    """Return a line about `run`. Before it was started, the line belongs to the root session."""
    return Entry(
        type=entry_type,
        at=format_instant(at_ns),
        session_id=run.session_id or run.lineage,
        run_id=run.id,
        kind=run.kind,
        text=text,
        routine_id=run.routine_id,
        due=None if run.due_ns is None else format_instant(run.due_ns),
    )


def final_entry_of(run: Run, outcome: RunOutcome, text: str, at_ns: int) -> Entry:
    """Return the last line about `run`: its result, or why there is none."""
    return entry_of(run, _FINAL[outcome], text, at_ns)


def entry_of_report(routine: Routine, report: Report) -> Entry:
    """Return the last line about the run that `report` tells of, as far as the report has it."""
    return Entry(
        type=_FINAL[report.outcome],
        at=format_instant(report.ended_ns),
        session_id=report.session_id,
        run_id=report.run_id,
        kind=RunKind.SCHEDULED,
        text=report.result or report.error or "",
        routine_id=routine.id,
        due=format_instant(report.due_ns),
    )
