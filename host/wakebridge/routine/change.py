"""What a transition returns: the new state with effects to carry out, or a refusal.

The caller commits `state` first and carries out `effects` afterwards, in order (design rule 2).
"""

from enum import StrEnum

import msgspec

from wakebridge.routine.state import Routine, RoutineState, RunKind, RunOutcome, Stop


class Code(StrEnum):
    """Why a request was refused."""

    INVALID = "invalid_input"
    UNKNOWN_ID = "unknown_id"
    WRONG_STATUS = "wrong_status"
    NO_SESSION = "no_session"
    SESSION_ENDED = "session_ended"
    SESSION_EXISTS = "session_exists"
    FULL = "full"
    MODE = "mode"
    MCU_UNAVAILABLE = "mcu_unavailable"
    MCU_TAKEN = "mcu_taken"
    INTERNAL = "internal"


class Refusal(msgspec.Struct, frozen=True):
    """A request that was not carried out: state untouched, one sentence that says why.

    `field` names the field of the input that is to blame, where one is.
    """

    code: Code
    reason: str
    field: str | None = None


class EntryType(StrEnum):
    """What a line of a transcript records."""

    INPUT = "input"
    PROGRESS = "progress"
    RESULT = "result"
    ERROR = "error"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a session's transcript (R20, R23). `at` is RFC 3339."""

    type: EntryType
    at: str
    session_id: str
    run_id: str
    kind: RunKind
    text: str
    routine_id: str | None = None
    due: str | None = None


class StartRun(msgspec.Struct, frozen=True, kw_only=True):
    """Hand the task over to the runner. The run is already committed as active."""

    run_id: str
    kind: RunKind
    session_id: str
    task: str
    routine_id: str | None
    due_ns: int | None


class StopRun(msgspec.Struct, frozen=True):
    """Ask the runner to stop an active run; its end is reported through `ended` all the same."""

    run_id: str
    reason: Stop


class Append(msgspec.Struct, frozen=True):
    """Append a line to a transcript. `once`: only if the run has no line of that type yet."""

    entry: Entry
    once: bool = False


class Changed(msgspec.Struct, frozen=True):
    """A routine has entered another status; for the time line and for observers."""

    routine: Routine


class RunEnded(msgspec.Struct, frozen=True, kw_only=True):
    """A run that belongs to no routine has ended; for whoever waits for its answer."""

    run_id: str
    session_id: str | None
    outcome: RunOutcome
    text: str


Effect = StartRun | StopRun | Append | Changed | RunEnded


class Change(msgspec.Struct, frozen=True):
    """The outcome of a transition. `state` is the same object when there is nothing to commit.

    `routine` is the routine a request was about, in its new form.
    """

    state: RoutineState
    effects: tuple[Effect, ...] = ()
    routine: Routine | None = None
