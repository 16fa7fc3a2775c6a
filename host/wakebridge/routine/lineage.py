"""The ledger of backend conversations: what a session id stands for, and whether it can go on.

A conversation is a lineage: a root session and the revisions that compaction makes of it. A
schedule holds the root and runs in the newest revision. A lineage that was cleared or replaced
stays ended for ever: nothing here re-opens one (R22).
"""

import re

import msgspec

from wakebridge.routine.change import Code, Refusal
from wakebridge.routine.limits import (
    ID_MAX_CHARS,
    LINEAGES_MAX,
    REVISIONS_MAX,
    SESSION_ID_PATTERN,
    SESSION_ID_RULE,
)
from wakebridge.routine.state import Lineage, LineageStatus

Ledger = tuple[Lineage, ...]

_SESSION_ID = re.compile(SESSION_ID_PATTERN)


def is_session_id(text: str) -> bool:
    """Tell whether a text can be the id of a session."""
    return 0 < len(text) <= ID_MAX_CHARS and _SESSION_ID.fullmatch(text) is not None


def lineage_of(ledger: Ledger, session_id: str) -> Lineage | None:
    """Return the lineage that `session_id` is the root or a remembered revision of, or None."""
    for lineage in ledger:
        if lineage.root == session_id or session_id in lineage.revisions:
            return lineage
    return None


def newest(lineage: Lineage) -> str:
    """Return the session id of the newest revision, where new inputs belong."""
    return lineage.revisions[-1]


def current(ledger: Ledger) -> Lineage | None:
    """Return the open conversation that was opened, revised or used last, or None."""
    for lineage in reversed(ledger):
        if lineage.status is LineageStatus.OPEN:
            return lineage
    return None


def resolve(ledger: Ledger, session_id: str) -> Lineage | Refusal:
    """Return the open lineage of `session_id`, or say why there is none (R10, R22)."""
    lineage = lineage_of(ledger, session_id)
    if lineage is None:
        return unknown(session_id)
    if lineage.status is not LineageStatus.OPEN:
        return Refusal(Code.SESSION_ENDED, why_ended(lineage), "session_id")
    return lineage


def unknown(session_id: str) -> Refusal:
    """Return the refusal of what needs a session that was never opened (R10)."""
    return Refusal(Code.NO_SESSION, f"there is no session {session_id!r}", "session_id")


def why_ended(lineage: Lineage) -> str:
    """Return one sentence about what ended this lineage, for people."""
    how = {
        LineageStatus.OPEN: "is open",
        LineageStatus.CLEARED: "was cleared",
        LineageStatus.REPLACED: "was replaced by a new root",
    }[lineage.status]
    detail = f" ({lineage.reason})" if lineage.reason else ""
    return f"the conversation of session {lineage.root!r} {how}{detail}"


def opened(
    ledger: Ledger, session_id: str, now_ns: int, in_use: frozenset[str]
) -> Ledger | Refusal:
    """Return the ledger with a new root session.

    Opening a session that is open already changes nothing; the id of an ended one is refused.
    `in_use` are the roots that routines or runs belong to; those are never forgotten.
    """
    refusal = _bad_id(session_id)
    if refusal is not None:
        return refusal
    known = lineage_of(ledger, session_id)
    if known is not None:
        if known.status is LineageStatus.OPEN:
            return ledger
        return Refusal(Code.SESSION_ENDED, why_ended(known), "session_id")
    room = _with_room(ledger, in_use)
    if isinstance(room, Refusal):
        return room
    lineage = Lineage(
        root=session_id,
        revisions=(session_id,),
        status=LineageStatus.OPEN,
        opened_ns=now_ns,
        changed_ns=now_ns,
    )
    return (*room, lineage)


def revised(ledger: Ledger, session_id: str, new_id: str, now_ns: int) -> Ledger | Refusal:
    """Return the ledger after compaction made `new_id` out of the newest revision `session_id`.

    Reporting the same compaction twice changes nothing. A revision of an older revision is
    refused: one conversation has one end.
    """
    refusal = _bad_id(new_id)
    if refusal is not None:
        return refusal
    lineage = resolve(ledger, session_id)
    if isinstance(lineage, Refusal):
        return lineage
    if lineage.revisions[-2:] == (session_id, new_id):
        return ledger
    if lineage_of(ledger, new_id) is not None:
        return Refusal(Code.SESSION_EXISTS, f"session {new_id!r} exists already", "new_session_id")
    if newest(lineage) != session_id:
        return Refusal(
            Code.SESSION_EXISTS,
            f"session {session_id!r} was revised already; the newest is {newest(lineage)!r}",
            "session_id",
        )
    revisions = (*lineage.revisions, new_id)[-REVISIONS_MAX:]
    return _moved_last(
        ledger, msgspec.structs.replace(lineage, revisions=revisions, changed_ns=now_ns)
    )


def ended(
    ledger: Ledger, session_id: str, status: LineageStatus, reason: str | None, now_ns: int
) -> Ledger | Refusal:
    """Return the ledger with the conversation of `session_id` cleared or replaced, for good."""
    lineage = resolve(ledger, session_id)
    if isinstance(lineage, Refusal):
        return lineage
    end = msgspec.structs.replace(lineage, status=status, reason=reason, changed_ns=now_ns)
    return tuple(end if entry.root == end.root else entry for entry in ledger)


def used(ledger: Ledger, root: str) -> Ledger:
    """Return the ledger with this conversation as the one used last (see `current`)."""
    lineage = lineage_of(ledger, root)
    if lineage is None or ledger[-1] is lineage:
        return ledger
    return _moved_last(ledger, lineage)


def _moved_last(ledger: Ledger, lineage: Lineage) -> Ledger:
    return (*(entry for entry in ledger if entry.root != lineage.root), lineage)


def _bad_id(session_id: str) -> Refusal | None:
    if is_session_id(session_id):
        return None
    reason = f"a session id is {SESSION_ID_RULE}"
    return Refusal(Code.INVALID, reason, "session_id")


def _with_room(ledger: Ledger, in_use: frozenset[str]) -> Ledger | Refusal:
    """Forget the ended conversation that changed longest ago, if the ledger is full."""
    if len(ledger) < LINEAGES_MAX:
        return ledger
    forgettable = [
        entry
        for entry in ledger
        if entry.status is not LineageStatus.OPEN and entry.root not in in_use
    ]
    if not forgettable:
        return Refusal(Code.FULL, f"there are {LINEAGES_MAX} conversations, none of them ended")
    oldest = min(forgettable, key=lambda entry: entry.changed_ns)
    return tuple(entry for entry in ledger if entry is not oldest)
