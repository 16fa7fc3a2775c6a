"""Reading the board's event log to its end, page by page, without believing that it has one."""

from typing import Final

import msgspec

from wakebridge.board.errors import BoardFault
from wakewire.messages import Event, EventBatch

# A board keeps some dozens of events. One that offers this many has lost its mind.
EVENTS_MAX: Final = 4_096

# How often the log is begun anew because the board restarted in the middle of it.
_RESTARTS_MAX: Final = 3


class EventLog(msgspec.Struct, frozen=True):
    """The events after a cursor, oldest first.

    `lost` counts those that the board had overwritten. `boot_id` and `last_seq` are the next
    cursor; another boot id than the one asked for means that the board restarted.
    """

    boot_id: bytes
    last_seq: int
    lost: int
    events: tuple[Event, ...]


class LogReader:
    """Says which page to ask for next, takes it, and puts the log together. Pure."""

    def __init__(self, boot_id: bytes, after_seq: int) -> None:
        self._boot_id = boot_id
        self._after_seq = after_seq
        self._events: list[Event] = []
        self._lost = 0
        self._restarts = 0
        self._done = False

    def next_cursor(self) -> tuple[bytes, int] | None:
        """Return the cursor of the next page, or None when the log is complete."""
        return None if self._done else (self._boot_id, self._after_seq)

    def take(self, page: EventBatch) -> None:
        """Take the page that was asked for. Raises `BoardFault` when it makes no sense."""
        if page.boot_id != self._boot_id:
            self._begin_anew(page.boot_id)
        events = page.events
        if events and not self._after_seq < events[0].seq <= events[-1].seq <= page.last_seq:
            raise BoardFault("the board sent events that are not after the cursor")
        if not events and page.last_seq > self._after_seq:
            raise BoardFault("the board announced events and sent none")
        if len(self._events) + len(events) > EVENTS_MAX:
            raise BoardFault(f"the board sent more than {EVENTS_MAX} events")
        self._events += events
        self._lost += page.lost
        self._after_seq = events[-1].seq if events else page.last_seq
        self._done = self._after_seq == page.last_seq

    def _begin_anew(self, boot_id: bytes) -> None:
        self._restarts += 1
        if self._restarts > _RESTARTS_MAX:
            raise BoardFault("the board restarts while its event log is read")
        self._boot_id = boot_id
        self._after_seq = 0
        self._events.clear()
        self._lost = 0

    def result(self) -> EventLog:
        """Return the log once `next_cursor` is None."""
        return EventLog(self._boot_id, self._after_seq, self._lost, tuple(self._events))
