"""The ports of the writer of scheduled events."""

from collections.abc import Sequence
from typing import Protocol

from wakebridge.schedule.book import Change
from wakebridge.schedule.instants import Now
from wakebridge.store.schedules_sqlite import Loaded


class EventStore(Protocol):
    """Where schedules are kept. `commit` is atomic and durable, or raises `StoreError`."""

    def load(self, now_ns: int) -> Loaded:
        """Return what is stored, or raise `StateUnreadable`."""
        ...

    async def commit(self, changes: Sequence[Change], now_ns: int) -> None:
        """Make all changes durable, or raise `StoreError` having made none."""
        ...

    async def reset_watermark(self, now_ns: int) -> None:
        """Take `now_ns` as the newest instant known to be past."""
        ...


class Timer(Protocol):
    """Waits for a deadline, a step of the clock, or a `wake`."""

    async def wait(self, now: Now, wall_ns: int | None, boot_ns: int | None) -> None:
        """Return at the earlier deadline or when woken."""
        ...

    def wake(self) -> None:
        """End the wait."""
        ...
