"""The requirements of OVOS-SCHEDULER-1 (E) and of routines (R), one line each.

`over` says over which transports a requirement can be seen from outside; where it cannot, or over
one only, `why` says why, and tests elsewhere prove it.
"""

from dataclasses import dataclass
from typing import Final

BOTH: Final = ("mqtt", "ovos")


@dataclass(frozen=True)
class Requirement:
    """One numbered requirement."""

    number: str
    title: str
    over: tuple[str, ...] = ()
    why: str = ""


_NO_CLOCK: Final = "the wall clock of the machine would have to be set; proven in virtual time"
_NO_IDENTITY: Final = "the OVOS bus takes everybody's word for who they are"
_NO_DST: Final = "no daylight saving change lies within a test; proven over every one of every zone"

_EVENTS: Final[tuple[Requirement, ...]] = (
    Requirement("E1", "an id is the owner's own and the idempotency key", BOTH),
    Requirement("E2", "an event is named `<skill_id>.<name>`, the name without `:`", BOTH),
    Requirement("E3", "exactly one of at, in, every, local", BOTH),
    Requirement("E4", "instants are RFC 3339 with an offset", BOTH),
    Requirement("E5", "`in` is a delay from acceptance; after a restart it is an `at`", BOTH),
    Requirement("E6", "`every` is anchored, and a replacement keeps the anchor", BOTH),
    Requirement("E7", "`local` is a wall-clock time in a zone, on all days or some", BOTH),
    Requirement("E7a", "a time that a DST gap skips occurs at the end of the gap", (), _NO_DST),
    Requirement("E7b", "a time that happens twice occurs at the first", (), _NO_DST),
    Requirement(
        "E7c", "new zone rules move future occurrences", (), "it takes another tz database"
    ),
    Requirement("E7d", "the device's own zone means nothing", BOTH),
    Requirement("E8", "`data` is an object of at most 16384 bytes", BOTH),
    Requirement("E9", "`until` and `count` bound a recurrence", BOTH),
    Requirement("E10", "the defaults of misfire, grace and ephemeral", BOTH),
    Requirement("E11", "the context is the request's, stored verbatim", BOTH),
    Requirement("E12", "a recurrence without an occurrence is bad", BOTH),
    Requirement("E13", "every field is checked, and an unknown one refused by name", BOTH),
    Requirement("E20", "each request has exactly one answer, with its routing swapped", BOTH),
    Requirement("E21", "a refusal has a code of the closed list, and a reason", BOTH),
    Requirement("E22", "what `schedule` answers", BOTH),
    Requirement("E23", "to cancel what does not exist is fine", BOTH),
    Requirement("E24", "what `get` answers, also of what exists nowhere", BOTH),
    Requirement("E25", "`list` shows the caller's, to the administrator everybody's", BOTH),
    Requirement("E26", "a schedule of the same identity replaces atomically", BOTH),
    Requirement("E27", "`internal` leaves the stored state as it was", BOTH),
    Requirement("E30", "what a fired event looks like", BOTH),
    Requirement("E31", "it fires within a second of due, never before", BOTH),
    Requirement("E32", "a one-shot is deleted after its fire or report", BOTH),
    Requirement("E33", "nobody has to listen", BOTH),
    Requirement("E34", "the `due` of a fire is the `next` that was answered", BOTH),
    Requirement("E35", "no record delays another owner by more than a second", BOTH),
    Requirement("E40", "late: the latest fires once; skip: none does; both are consumed", BOTH),
    Requirement("E41", "`missed` is told once, before the late fire", BOTH),
    Requirement("E42", "the same rule while running", BOTH),
    Requirement("E50", "what was accepted is durable before its answer, unless ephemeral", BOTH),
    Requirement("E51", "what has fired never fires again, but for one in a crash", BOTH),
    Requirement("E52", "a crash leaves the old or the new state", BOTH),
    Requirement("E53", "a start says `ready`, then `missed`, then fires late", BOTH),
    Requirement("E54", "the same identity again leaves one schedule", BOTH),
    Requirement("E55", "an absent owner's schedules stay and fire", BOTH),
    Requirement("E60", "the owner is named by the context, never by the body", BOTH),
    Requirement("E61", "others' schedules are neither read nor replaced nor cancelled", BOTH),
    Requirement("E62", "the administrator lists and cancels everything, and no more", BOTH),
    Requirement("E63", "an authenticated identity must match", ("mqtt",), _NO_IDENTITY),
    Requirement("E70", "steps of the wall clock: nothing lost, nothing twice", (), _NO_CLOCK),
    Requirement("E71", "an unsynchronized clock: accept, defer, and a second `ready`", BOTH),
    Requirement("E80", "the client library", BOTH),
    Requirement("E90", "the older protocol", ("ovos",), "it exists on the OVOS bus only"),
)

_ROUTINES: Final[tuple[Requirement, ...]] = (
    Requirement("R1", "create: task, one of delay_s and run_at, optional interval_s"),
    Requirement("R2", "list: status, result or error, and the timer's error"),
    Requirement("R3", "update replaces a stopped or pending one in its session"),
    Requirement("R4", "cancel ends future runs and asks a running one to stop"),
    Requirement("R5", "more than seven days are several countdowns"),
    Requirement("R6", "an interval is elapsed seconds, without calendar"),
    Requirement("R7", "the tool over HTTP, with the envelope of all tools"),
    Requirement("R8", "`timer_error` in every successful answer"),
    Requirement("R9", "creation fails without the board or with a foreign countdown"),
    Requirement("R10", "the session must exist"),
    Requirement("R11", "the tool in every input mode"),
    Requirement("R20", "a due task is appended to its session"),
    Requirement("R21", "whose turn it is in a session"),
    Requirement("R22", "sessions survive restarts; a schedule follows its lineage or fails"),
    Requirement("R23", "results stay in transcript and list"),
    Requirement("R30", "one document, replaced atomically, mode 0600, without credentials"),
    Requirement("R31", "an unreadable document stays untouched; the rest serves on"),
    Requirement("R32", "the lifecycle"),
    Requirement("R40", "only a wake of source 4 makes work eligible"),
    Requirement("R41", "cursor and queued work are persisted together, before execution"),
    Requirement("R42", "an expired countdown of ours recovers a lost event"),
    Requirement("R43", "the host's clock alone dispatches nothing"),
    Requirement("R44", "one countdown for all; a matching one is never restarted"),
    Requirement("R45", "an early wake is harmless"),
    Requirement("R46", "changing an owned countdown is a conflict"),
    Requirement("R47", "a repeated wake reruns nothing; a late routine keeps its cadence"),
    Requirement("R48", "a failed run stops its routine; one cut short is interrupted"),
    Requirement("R49", "power loss of the board is reconciled; nothing is flashed or powered off"),
)

REQUIREMENTS: Final[tuple[Requirement, ...]] = (*_EVENTS, *_ROUTINES)
