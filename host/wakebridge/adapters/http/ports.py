"""What the HTTP interface needs of the service; the daemon hands it over."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from wakebridge.bus import Scheduler
from wakebridge.routine import envelope
from wakebridge.routine.change import Change, Entry, Refusal
from wakebridge.routine.modes import Caller
from wakebridge.routine.state import RoutineState, RunKind
from wakebridge.service.board_desk import Lent
from wakebridge.service.routines import Held
from wakebridge.wake.reconciler import TimerReading
from wakewire.messages import Hello


class Tools(Protocol):
    """The tools of agents."""

    @property
    def unavailable(self) -> str | None:
        """Why there is no tool, None when there is one."""
        ...

    def tools(self, caller: Caller) -> list[envelope.ToolInfo]:
        """Return the tools that a caller has (R11)."""
        ...

    async def call(
        self,
        call: envelope.Call | Refusal,
        *,
        tool_name: str = "schedule",
        session_id: str | None = None,
        caller: Caller = Caller.BACKEND,
    ) -> envelope.ToolAnswer:
        """Answer one call of a tool."""
        ...


class Routines(Protocol):
    """The writer of routines."""

    @property
    def unavailable(self) -> str | None:
        """Why the state cannot be read, None when it can."""
        ...

    @property
    def state(self) -> RoutineState:
        """The committed state."""
        ...

    async def transcript(self, session_id: str) -> Sequence[Entry] | Refusal:
        """Return a session's transcript. Raises `StoreError`."""
        ...

    async def open_session(self, session_id: str) -> Change | Refusal:
        """Enter a new backend session."""
        ...

    async def revise_session(self, session_id: str, new_session_id: str) -> Change | Refusal:
        """Enter the revision that compaction made."""
        ...

    async def clear_session(self, session_id: str, reason: str | None) -> Change | Refusal:
        """End a session whose history was cleared."""
        ...

    async def replace_session(
        self, session_id: str, new_session_id: str, reason: str | None
    ) -> Change | Refusal:
        """End a session that a configuration change replaced."""
        ...

    async def submit(
        self, kind: RunKind, task: str, session_id: str, *, interrupts: bool = False
    ) -> str | Refusal:
        """Queue an interactive request or background work; return its run id."""
        ...

    async def withdraw(self, session_id: str, run_id: str) -> Change | Refusal:
        """Take such work back."""
        ...

    async def session_busy(
        self, session_id: str, lease_s: float, *, interrupts: bool = False
    ) -> Held | Refusal:
        """Start nothing in a session for so long."""
        ...

    async def session_idle(self, session_id: str) -> Change | Refusal:
        """Let what waits in a session start."""
        ...


class McuTimer(Protocol):
    """The board's countdown. All may raise `LinkError`; changes raise `service.waking.Conflict`."""

    @property
    def hello(self) -> Hello | None:
        """What the board said of itself, None while it is away."""
        ...

    async def reading(self) -> TimerReading:
        """Read the live countdown."""
        ...

    async def set_by_hand(self, duration_ms: int) -> TimerReading:
        """Arm the countdown for a person."""
        ...

    async def cancel_by_hand(self) -> TimerReading:
        """Disarm the countdown for a person."""
        ...


class Board(Protocol):
    """Questions about the board. All may raise `LinkError`."""

    async def info(self, hello: Hello | None) -> Mapping[str, Any]:
        """Return who the board is and how it is."""
        ...

    async def events(self) -> Mapping[str, Any]:
        """Return every event the board still has."""
        ...

    async def lend(self, limit_s: float, tcp_port: int) -> Lent:
        """Lend the serial port over RFC 2217."""
        ...

    async def take_back(self) -> Mapping[str, Any]:
        """End the lending."""
        ...


class Services(Protocol):
    """Everything behind the interface."""

    @property
    def events(self) -> Scheduler:
        """The writer of scheduled events."""
        ...

    @property
    def routines(self) -> Routines:
        """The writer of routines."""
        ...

    @property
    def tools(self) -> Tools:
        """The tools of agents."""
        ...

    @property
    def board(self) -> Board:
        """Questions about the board, and its port."""
        ...

    @property
    def timer(self) -> McuTimer:
        """The board's countdown."""
        ...

    def deliver(self, run_id: str, secret: str, body: bytes) -> tuple[int, str]:
        """Hand an agent's report to the HTTP runner; return a status code and a reason."""
        ...

    def health(self) -> Mapping[str, Any]:
        """Return what a person wants to know first."""
        ...
