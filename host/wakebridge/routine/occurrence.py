"""The life of a run once it is with the agent: progress, end, interruption (R23, R32, R47, R48)."""

from typing import assert_never

import msgspec

from wakebridge.routine import cadence
from wakebridge.routine.change import (
    Append,
    Change,
    Changed,
    Code,
    Effect,
    EntryType,
    Refusal,
    RunEnded,
)
from wakebridge.routine.limits import RESULT_MAX_CHARS
from wakebridge.routine.lineage import lineage_of, why_ended
from wakebridge.routine.state import (
    Cancellation,
    Phase,
    Report,
    Routine,
    RoutineState,
    Run,
    RunOutcome,
    Status,
    Stop,
    routine_of,
    run_of,
    with_routine,
    with_run,
    without_run,
)
from wakebridge.routine.transcript import entry_of, entry_of_report, final_entry_of
from wakebridge.schedule.instants import Now

_UNCONFIRMED = "; the agent did not confirm that it stopped"
_CUT = " [cut; the transcript has all of it] "


class Completed(msgspec.Struct, frozen=True):
    """The agent has finished the task."""

    result: str


class Failed(msgspec.Struct, frozen=True):
    """The agent, or the way to it, says that the task failed."""

    reason: str


class Interrupted(msgspec.Struct, frozen=True):
    """The run was cut off: shutdown, crash, or the agent disappeared. It may have done its work."""

    reason: str


class Stopped(msgspec.Struct, frozen=True):
    """The run ended because it was asked to; `confirmed` says whether the agent said so."""

    confirmed: bool


Outcome = Completed | Failed | Interrupted | Stopped


def progress(state: RoutineState, run_id: str, text: str, now: Now) -> Change | Refusal:
    """Keep one more piece of the partial result of an active run, durably.

    Pieces are joined by line breaks; of a partial result that grows too long the newest
    characters stay. Progress of a run that is not active any more is refused.
    """
    run = run_of(state, run_id)
    if run is None or run.phase is not Phase.ACTIVE:
        return Refusal(Code.WRONG_STATUS, f"there is no active run {run_id!r}", "run_id")
    partial = text if run.partial is None else f"{run.partial}\n{text}"
    kept = msgspec.structs.replace(run, partial=_newest_part(partial))
    entry = entry_of(run, EntryType.PROGRESS, text, now.wall_ns)
    return Change(with_run(state, kept), (Append(entry),))


def ended(state: RoutineState, run_id: str, outcome: Outcome, now: Now) -> Change | Refusal:
    """Record the end of an active run, whatever it was, and what it does to its routine.

    A second report about the same run, or one about a run that was interrupted since, is refused:
    a completed occurrence never runs, nor ends, twice (R47).
    """
    run = run_of(state, run_id)
    if run is None or run.phase is not Phase.ACTIVE:
        return Refusal(Code.WRONG_STATUS, f"there is no active run {run_id!r}", "run_id")
    return _closed(state, run, outcome, now)


def interrupt_unfinished(state: RoutineState, reason: str, now: Now) -> Change:
    """Mark every run that has left the queue as interrupted (R48).

    For a clean shutdown and for the start after a crash; runs that wait for their session to
    become idle are included. Queued work stays queued. Nothing to do returns the same state.
    """
    effects: list[Effect] = []
    for run in state.runs:
        if run.phase is Phase.QUEUED:
            continue
        change = _closed(state, run, Interrupted(reason), now)
        state = change.state
        effects.extend(change.effects)
    return Change(state, tuple(effects))


def interrupt_uncertain(state: RoutineState, lost_ns: int, reason: str, now: Now) -> Change:
    """Mark as interrupted what a newer, lost state may have started already (R47).

    For a restored older state: `lost_ns` is when the lost one was written. Queued work is in doubt,
    and so is a scheduled occurrence that was due by then; one that fell due later is not.
    """
    effects: list[Effect] = []
    for run in state.runs:
        if run.phase is Phase.QUEUED:
            change = _closed(state, run, Interrupted(reason), now)
            state = change.state
            effects.extend(change.effects)
    for routine in state.routines:
        if routine.next_due_ns is not None and routine.next_due_ns <= lost_ns:
            stopped = msgspec.structs.replace(
                routine,
                status=Status.INTERRUPTED,
                next_due_ns=None,
                error=reason,
                updated_ns=now.wall_ns,
            )
            state = with_routine(state, stopped)
            effects.append(Changed(stopped))
    return Change(state, tuple(effects))


def last_entries(state: RoutineState) -> tuple[Append, ...]:
    """Return the final line of each routine's newest run, to be appended where it is missing.

    A crash between the commit of an end and its line in the transcript is healed by this at the
    next start (R23).
    """
    return tuple(
        Append(entry_of_report(routine, routine.latest), once=True)
        for routine in state.routines
        if routine.latest is not None
    )


def _closed(state: RoutineState, run: Run, outcome: Outcome, now: Now) -> Change:
    verdict = _verdict(state, run, outcome)
    entry = final_entry_of(run, verdict.outcome, verdict.text, now.wall_ns)
    effects: list[Effect] = [Append(entry)]
    state = without_run(state, run.id)
    routine = None if run.routine_id is None else routine_of(state, run.routine_id)
    if routine is None:
        effects.append(
            RunEnded(
                run_id=run.id,
                session_id=run.session_id,
                outcome=verdict.outcome,
                text=verdict.text,
            )
        )
        return Change(state, tuple(effects))
    closed = _after_run(routine, run, verdict, now)
    effects.append(Changed(closed))
    return Change(with_routine(state, closed), tuple(effects), closed)


class _Verdict(msgspec.Struct, frozen=True):
    """What an outcome means, given why the run had been asked to stop.

    `status` is where a routine goes, None for "on with its cadence".
    """

    outcome: RunOutcome
    status: Status | None
    text: str
    cancellation: Cancellation | None = None
    error: str | None = None


def _verdict(state: RoutineState, run: Run, outcome: Outcome) -> _Verdict:
    if run.stop is Stop.CANCEL:
        return _cancelled(outcome)
    if run.stop is Stop.SESSION_ENDED:
        conversation = lineage_of(state.lineages, run.lineage)
        why = "the conversation has ended" if conversation is None else why_ended(conversation)
        ending, text = _ending(outcome)
        return _Verdict(ending, Status.FAILED, text, error=why)
    if run.stop is Stop.PREEMPT and isinstance(outcome, Stopped):
        outcome = Interrupted(
            "interrupted by an interactive request" + ("" if outcome.confirmed else _UNCONFIRMED)
        )
    ending, text = _ending(outcome)
    status = None if isinstance(outcome, Completed) else Status(ending.value)
    return _Verdict(ending, status, text, error=None if status is None else text)


def _cancelled(outcome: Outcome) -> _Verdict:
    ending, text = _ending(outcome)
    match outcome:
        case Completed():
            cancellation = Cancellation.TOO_LATE
        case Failed():
            cancellation = Cancellation.CONFIRMED
        case Stopped(confirmed=confirmed):
            cancellation = Cancellation.CONFIRMED if confirmed else Cancellation.NOT_CONFIRMED
            ending, text = RunOutcome.CANCELLED, "cancelled" + ("" if confirmed else _UNCONFIRMED)
        case Interrupted():
            cancellation = Cancellation.NOT_CONFIRMED
        case _ as never:
            assert_never(never)
    error = None if cancellation is not Cancellation.NOT_CONFIRMED else text
    return _Verdict(ending, Status.CANCELLED, text, cancellation, error)


def _ending(outcome: Outcome) -> tuple[RunOutcome, str]:
    match outcome:
        case Completed(result=result):
            return RunOutcome.COMPLETED, result
        case Failed(reason=reason):
            return RunOutcome.FAILED, reason
        case Interrupted(reason=reason):
            return RunOutcome.INTERRUPTED, reason
        case Stopped(confirmed=confirmed):
            return RunOutcome.INTERRUPTED, "stopped" + ("" if confirmed else _UNCONFIRMED)
        case _ as never:
            assert_never(never)


def _after_run(routine: Routine, run: Run, verdict: _Verdict, now: Now) -> Routine:
    due_ns = run.due_ns if run.due_ns is not None else run.queued_ns
    status, next_due_ns = verdict.status, None
    if status is None:
        next_due_ns = cadence.next_after(routine.rule, max(now.wall_ns, due_ns))
        status = Status.COMPLETED if next_due_ns is None else Status.SCHEDULED
    succeeded = verdict.outcome is RunOutcome.COMPLETED
    text = _within(verdict.text)
    report = Report(
        run_id=run.id,
        session_id=run.session_id or run.lineage,
        due_ns=due_ns,
        started_ns=run.started_ns,
        ended_ns=now.wall_ns,
        outcome=verdict.outcome,
        result=text if succeeded else None,
        error=None if succeeded else text,
        partial=None if succeeded else run.partial,
    )
    return msgspec.structs.replace(
        routine,
        status=status,
        next_due_ns=next_due_ns,
        updated_ns=now.wall_ns,
        error=None if verdict.error is None else _within(verdict.error),
        cancellation=verdict.cancellation,
        latest=report,
    )


def _within(text: str) -> str:
    """Cut a text to what `list` keeps; the transcript has all of it."""
    if len(text) <= RESULT_MAX_CHARS:
        return text
    return text[: RESULT_MAX_CHARS - len(_CUT)] + _CUT


def _newest_part(text: str) -> str:
    if len(text) <= RESULT_MAX_CHARS:
        return text
    return _CUT + text[len(_CUT) - RESULT_MAX_CHARS :]
