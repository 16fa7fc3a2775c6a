"""What the writer of routines needs of its stores and of the countdown."""

from typing import Protocol

from wakebridge.routine.change import Append
from wakebridge.routine.state import RoutineState
from wakebridge.store.transcripts import Transcript
from wakebridge.wake.reconciler import TimerReading


class RoutineStore(Protocol):
    """Where the state is kept (R30). Both calls block on the disk."""

    def load(self) -> RoutineState:
        """Return the stored state, an empty one at first. Raises `StateUnreadable`."""
        ...

    def save(self, state: RoutineState) -> None:
        """Replace the stored state atomically, or raise `StoreError` and change nothing."""
        ...


class Transcripts(Protocol):
    """Where a conversation's inputs and results are appended (R20, R23). Blocks on the disk."""

    def append(self, effect: Append) -> None:
        """Append one line durably, or raise `StoreError`."""
        ...

    def read(self, session_id: str) -> Transcript:
        """Return everything in a session's transcript, or raise `StoreError`."""
        ...


class Countdown(Protocol):
    """The board's countdown as the writer of routines needs it; `waking.Waking` is the one."""

    async def confirm(self) -> str:
        """Return the `timer_error`: empty when the live countdown agrees with the plan."""
        ...

    async def reading(self) -> TimerReading:
        """Read the live countdown. Raises `LinkError`."""
        ...

    def is_foreign(self, reading: TimerReading) -> bool:
        """Whether a countdown runs that this bridge did not arm."""
        ...

    def plan_changed(self) -> None:
        """The earliest due instant may have moved."""
        ...
