"""The persisted document of the routine domain, as frozen values (R30).

Every instant is nanoseconds since the Unix epoch, UTC. Unknown fields, kinds and versions are
errors on loading: a record that is not understood is never dropped (R31, case A15).
"""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from wakebridge.routine.limits import ID_MAX_CHARS, INSTANT_MAX_NS, INTERVAL_MAX_S

VERSION = 1
"""Version of the document. A reader refuses any other, older or newer."""


class Status(StrEnum):
    """Where a routine is in its life (R32)."""

    SCHEDULED = "scheduled"
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


STOPPED = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.INTERRUPTED})
"""The states that only an update leaves (R3, R48)."""


class Cancellation(StrEnum):
    """What became of the request to stop a running task (R4)."""

    REQUESTED = "requested"
    CONFIRMED = "confirmed"
    NOT_CONFIRMED = "not_confirmed"
    TOO_LATE = "too_late"


class RunKind(StrEnum):
    """Who asked for a run; the order of the names is the order of precedence (R21)."""

    INTERACTIVE = "interactive"
    SCHEDULED = "scheduled"
    BACKGROUND = "background"


class Phase(StrEnum):
    """How far a run has come. `waiting` is a scheduled run that waits for its session (R48)."""

    QUEUED = "queued"
    WAITING = "waiting"
    ACTIVE = "active"


class Stop(StrEnum):
    """Why an active run has been asked to stop."""

    CANCEL = "cancel"
    PREEMPT = "preempt"
    SESSION_ENDED = "session_ended"


class RunOutcome(StrEnum):
    """How a run ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"


class LineageStatus(StrEnum):
    """Whether a conversation can go on, and if not, what ended it (R22)."""

    OPEN = "open"
    CLEARED = "cleared"
    REPLACED = "replaced"


Instant = Annotated[int, Meta(ge=0, le=INSTANT_MAX_NS)]
Count = Annotated[int, Meta(ge=0)]
Name = Annotated[str, Meta(min_length=1, max_length=ID_MAX_CHARS)]
BootId = Annotated[str, Meta(pattern="^[0-9a-f]{2,32}$")]


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of everything in the document: immutable, and strict about what it is read from."""


class Once(Record, frozen=True, kw_only=True, tag_field="kind", tag="once"):
    """One occurrence. `elapsed`: it was asked for as a delay, so a clock step moves it along.

    `doubtful`: that was under a clock known to be wrong, so the step that puts it right does, too.
    """

    due_ns: Instant
    elapsed: bool = False
    doubtful: bool = False


class Every(Record, frozen=True, kw_only=True, tag_field="kind", tag="every"):
    """Occurrences at `anchor_ns + n * interval_s`, counted in elapsed seconds (R6).

    `elapsed` and `doubtful` are those of `Once`.
    """

    anchor_ns: Instant
    interval_s: Annotated[int, Meta(ge=1, le=INTERVAL_MAX_S)]
    elapsed: bool = False
    doubtful: bool = False


Rule = Once | Every


class Report(Record, frozen=True, kw_only=True):
    """How the newest run of a routine ended (R23), and what it left."""

    run_id: Name
    session_id: Name
    due_ns: Instant
    started_ns: Instant | None
    ended_ns: Instant
    outcome: RunOutcome
    result: str | None = None
    error: str | None = None
    partial: str | None = None


class Routine(Record, frozen=True, kw_only=True):
    """One schedule of an agent and the story of its newest run.

    `session_id` is the originating session and `lineage` the root of its conversation; the pair
    never changes. `next_due_ns` is set exactly while `status` is `scheduled`. `last_due_ns` is
    the occurrence that was queued last: no occurrence at or before it is ever queued again (R47).
    `error` says why the routine is stopped, where there is a reason.
    """

    id: Name
    session_id: Name
    lineage: Name
    task: Annotated[str, Meta(min_length=1)]
    rule: Rule
    status: Status
    next_due_ns: Instant | None
    created_ns: Instant
    updated_ns: Instant
    last_due_ns: Instant | None = None
    run_count: Count = 0
    error: str | None = None
    cancellation: Cancellation | None = None
    latest: Report | None = None


class Run(Record, frozen=True, kw_only=True):
    """One piece of pending or running work.

    A scheduled run names its routine and takes the task from there. `session_id` is the revision
    the run was started in, absent before. `interrupts` is set on an interactive request that may
    stop the session's active scheduled or background run (R21).
    """

    id: Name
    kind: RunKind
    lineage: Name
    phase: Phase
    queued_ns: Instant
    routine_id: Name | None = None
    due_ns: Instant | None = None
    task: str | None = None
    session_id: Name | None = None
    started_ns: Instant | None = None
    partial: str | None = None
    stop: Stop | None = None
    interrupts: bool = False


class Lineage(Record, frozen=True, kw_only=True):
    """One conversation: its root session and the revisions that compaction made, newest last."""

    root: Name
    revisions: Annotated[tuple[Name, ...], Meta(min_length=1)]
    status: LineageStatus
    opened_ns: Instant
    changed_ns: Instant
    reason: str | None = None


class Cursor(Record, frozen=True, kw_only=True):
    """The newest wake event that has been dealt with.

    `expired_token` is the token of the newest expiry among them (0 for none), so that a timer
    that still reads "expired" is not taken for a second wake (R42).
    """

    boot_id: BootId
    seq: Count
    expired_token: Annotated[int, Meta(ge=0, le=2**32 - 1)] = 0


class RoutineState(Record, frozen=True, kw_only=True):
    """The whole document; `RoutineState()` is that of a first start.

    `routines` is in order of creation, `runs` in order of queueing, `lineages` in order of use.
    `written_ns` is the wall time of the newest write: a clock that reads earlier is wrong.
    """

    version: int = VERSION
    cursor: Cursor | None = None
    routines: tuple[Routine, ...] = ()
    runs: tuple[Run, ...] = ()
    lineages: tuple[Lineage, ...] = ()
    written_ns: Instant = 0


def routine_of(state: RoutineState, routine_id: str) -> Routine | None:
    """Return the routine of that id, or None."""
    return next((r for r in state.routines if r.id == routine_id), None)


def run_of(state: RoutineState, run_id: str) -> Run | None:
    """Return the queued or running work of that id, or None."""
    return next((r for r in state.runs if r.id == run_id), None)


def run_of_routine(state: RoutineState, routine_id: str) -> Run | None:
    """Return the queued or running occurrence of a routine, or None; there is at most one."""
    return next((r for r in state.runs if r.routine_id == routine_id), None)


def with_routine(state: RoutineState, routine: Routine) -> RoutineState:
    """Return the state with the routine of that id replaced."""
    routines = tuple(routine if r.id == routine.id else r for r in state.routines)
    return msgspec.structs.replace(state, routines=routines)


def with_run(state: RoutineState, run: Run) -> RoutineState:
    """Return the state with the run of that id replaced."""
    runs = tuple(run if r.id == run.id else r for r in state.runs)
    return msgspec.structs.replace(state, runs=runs)


def without_run(state: RoutineState, run_id: str) -> RoutineState:
    """Return the state without the run of that id."""
    return msgspec.structs.replace(state, runs=tuple(r for r in state.runs if r.id != run_id))


def next_due(state: RoutineState) -> int | None:
    """Return the earliest due instant in ns of all scheduled routines, overdue ones included."""
    return min((r.next_due_ns for r in state.routines if r.next_due_ns is not None), default=None)
