"""What a wake of the board makes eligible, and only that (R40 to R43, R47).

Only confirmed events come in here. The host's clock decides which routines are due at a wake; it
never starts anything by itself.
"""

from collections.abc import Iterable

import msgspec

from wakebridge.routine.change import Change, Changed, Effect
from wakebridge.routine.limits import RUNS_MAX
from wakebridge.routine.state import (
    Cursor,
    Phase,
    Routine,
    RoutineState,
    Run,
    RunKind,
    Status,
    with_routine,
)
from wakebridge.schedule.instants import Now

SOURCE_RTC_TIMER = 4
"""The source code of an expired countdown in the board's event log."""


class WakeEvent(msgspec.Struct, frozen=True):
    """One confirmed entry of the board's event log. `token` is that of the countdown, or 0."""

    seq: int
    source: int
    token: int = 0


def wake(state: RoutineState, boot_id: str, events: Iterable[WakeEvent], now: Now) -> Change:
    """Advance the cursor over confirmed events and queue what is due if one of them is a wake.

    `boot_id` is lower-case hexadecimal. Events at or before the cursor of the same boot are
    duplicates and do nothing; another boot id starts its count anew. Cursor and queue are in one
    state, so that they are committed together and before execution (R41).
    """
    cursor = state.cursor
    if cursor is None or cursor.boot_id != boot_id:
        cursor = Cursor(boot_id=boot_id, seq=0)
    expired = False
    for event in sorted(events, key=lambda e: e.seq):
        if event.seq <= cursor.seq:
            continue
        cursor = msgspec.structs.replace(cursor, seq=event.seq)
        if event.source == SOURCE_RTC_TIMER:
            expired = True
            cursor = msgspec.structs.replace(cursor, expired_token=event.token)
    if cursor == state.cursor:
        return Change(state)
    advanced = msgspec.structs.replace(state, cursor=cursor)
    return queue_due(advanced, now) if expired else Change(advanced)


def recovered_expiry(
    state: RoutineState, boot_id: str, token: int, now: Now, *, lease: int
) -> Change:
    """Treat a countdown of ours that reads "expired" as one wake whose event was lost (R42).

    To be called after the event log has been read, with the timer's reading. `lease` is this
    bridge's number in the upper half of its tokens. A token that is not ours, or whose expiry was
    seen already in this boot, does nothing.
    """
    if token >> 16 != lease:
        return Change(state)
    cursor = state.cursor
    if cursor is None or cursor.boot_id != boot_id:
        cursor = Cursor(boot_id=boot_id, seq=0)
    if cursor.expired_token == token:
        return Change(state)
    cursor = msgspec.structs.replace(cursor, expired_token=token)
    return queue_due(msgspec.structs.replace(state, cursor=cursor), now)


def queue_due(state: RoutineState, now: Now) -> Change:
    """Move every routine that is due to `queued`, the earliest first, once per occurrence.

    If the queue is full the rest stays scheduled and overdue, and goes with the next wake.
    """
    due = sorted(
        (r for r in state.routines if _is_due(r, now.wall_ns)), key=lambda r: r.next_due_ns or 0
    )
    effects: list[Effect] = []
    for routine in due[: max(0, RUNS_MAX - len(state.runs))]:
        state, queued = _queued(state, routine, now)
        effects.append(Changed(queued))
    return Change(state, tuple(effects))


def _is_due(routine: Routine, now_ns: int) -> bool:
    due_ns = routine.next_due_ns
    return routine.status is Status.SCHEDULED and due_ns is not None and due_ns <= now_ns


def _queued(state: RoutineState, routine: Routine, now: Now) -> tuple[RoutineState, Routine]:
    queued = msgspec.structs.replace(
        routine,
        status=Status.QUEUED,
        next_due_ns=None,
        last_due_ns=routine.next_due_ns,
        run_count=routine.run_count + 1,
        updated_ns=now.wall_ns,
    )
    run = Run(
        id=f"{routine.id}.{queued.run_count}",
        kind=RunKind.SCHEDULED,
        lineage=routine.lineage,
        phase=Phase.QUEUED,
        queued_ns=now.wall_ns,
        routine_id=routine.id,
        due_ns=routine.next_due_ns,
    )
    with_queue = msgspec.structs.replace(state, runs=(*state.runs, run))
    return with_routine(with_queue, queued), queued
