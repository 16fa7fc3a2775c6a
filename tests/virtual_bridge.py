"""The routine side of a bridge and its board in virtual time: months pass in seconds.

Real are the service of routines with its stores on disk, the keeper of the countdown, the client of
the board, and the firmware's dispatcher with its countdown. The line between them is a pair of
callbacks, and the agent is a coroutine that takes its time.
"""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from firmware_board import FirmwareBoard
from virtual_time import VirtualClock, VirtualLoop
from wakebridge.board.client import BoardClient, Reading
from wakebridge.board.connection import Evidence
from wakebridge.routine.change import Change
from wakebridge.routine.routine import Definition
from wakebridge.routine.state import Routine, RoutineState
from wakebridge.runner.port import Completed, OnProgress, Outcome, RunRequest
from wakebridge.schedule.instants import Now, parse_instant
from wakebridge.service.routines import RoutineService
from wakebridge.service.waking import Waking
from wakebridge.store.errors import StoreError
from wakebridge.store.routines_json import RoutinesJson
from wakebridge.store.transcripts import Transcripts
from wakebridge.wake.board_rate import BoardRate
from wakewire import codes, framing, messages
from wakewire.messages import Event
from wakewire.stream import StreamDecoder

LEASE = 0x51AB
LINE_S = 0.002
"""How long a frame is on the line."""

TICK_MAX_S = 86_400.0
"""The firmware must be asked for the time at least every 6.2 days; a real board does each 5 s."""


class VirtualBoard:
    """The firmware on a clock of its own, and the far end of a line that can be taken away."""

    def __init__(self, loop: VirtualLoop, ppm: float = 0.0) -> None:
        self._loop = loop
        self._rate = 1 + ppm / 1_000_000
        self._firmware = FirmwareBoard()
        self.armed_ms: list[int] = []
        """Every countdown that was set."""
        self.wakes_s: list[float] = []
        """When the wake line was pulsed, in virtual seconds."""
        self.to_host: Callable[[bytes], None] | None = None
        self._next: asyncio.TimerHandle | None = None
        self._plan()

    def receive(self, data: bytes) -> None:
        """Take bytes from the line; the answer comes back on it."""
        before = len(self._firmware.asked)
        self._send(self._firmware.receive(data, self._now_ms()))
        if codes.OP_TIMER_SET in self._firmware.asked[before:]:
            self.armed_ms.append(self.timer().duration_ms)
        self._plan()

    def timer(self) -> messages.TimerState:
        """Ask the firmware for its countdown, past the line."""
        frame = framing.encode(messages.timer_get(7))
        *_, payload = StreamDecoder().feed(self._firmware.receive(frame, self._now_ms()))
        answer = messages.parse(payload)
        assert isinstance(answer, messages.Answer)
        return messages.TimerState.from_fields(answer.fields)

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000 * self._rate) % 2**30

    def _tick(self) -> None:
        pushed = self._firmware.tick(self._now_ms())
        if pushed:
            self.wakes_s.append(self._loop.time())
        self._send(pushed)
        self._plan()

    def _send(self, data: bytes) -> None:
        if data and self.to_host is not None:
            self._loop.call_later(LINE_S, self.to_host, data)

    def _plan(self) -> None:
        """Look again when the countdown runs out, and once a day at least."""
        if self._next is not None:
            self._next.cancel()
        left_s = self.timer().remaining_ms / 1000 / self._rate
        delay_s = min(left_s + 0.0005, TICK_MAX_S) if left_s else TICK_MAX_S
        self._next = self._loop.call_later(delay_s, self._tick)


class _Port:
    """The host's end of the line."""

    def __init__(self, board: VirtualBoard) -> None:
        self._board = board

    def attach(self, on_data: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        del on_lost
        self._board.to_host = on_data

    def write(self, data: bytes) -> None:
        asyncio.get_running_loop().call_later(LINE_S, self._board.receive, data)

    def close(self) -> None:
        self._board.to_host = None


class _Watcher:
    """Hands hints on; nothing else happens on this line."""

    def __init__(self, hinted: Callable[[Event], None]) -> None:
        self.hinted = hinted

    def printed(self, text: str) -> None:
        raise AssertionError(text)

    def prompted(self, evidence: Evidence) -> None:
        raise AssertionError(evidence)

    def rebooted(self) -> None:
        raise AssertionError("the board stays up")

    def silent(self, reason: str) -> None:
        raise AssertionError(reason)

    def lost(self, reason: str) -> None:
        raise AssertionError(reason)


@dataclass(frozen=True)
class Begun:
    """One run as the agent got it, and when."""

    request: RunRequest
    at: Now

    @property
    def due_ns(self) -> int:
        assert self.request.due is not None
        return parse_instant(self.request.due)


@dataclass
class Agent:
    """Takes `work_s` for each run; remembers every one of them, over all lives of the bridge."""

    clock: VirtualClock
    work_s: float = 3.0
    begun: list[Begun] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    async def run(self, request: RunRequest, on_progress: OnProgress) -> Outcome:
        self.begun.append(Begun(request, self.clock.now()))
        await on_progress("begun")
        await asyncio.sleep(self.work_s)
        self.ended.append(request.run_id)
        return Completed("done")

    async def cancel(self, run_id: str) -> bool:
        raise AssertionError(f"nobody cancels {run_id}")

    async def close(self) -> None:
        pass


class MoodyStore(RoutinesJson):
    """The store on a disk that is full from time to time."""

    full = False

    def save(self, state: RoutineState) -> None:
        if self.full:
            raise StoreError("the disk is full")
        super().save(state)


class VirtualBridge:
    """One bridge with several lives on one state directory."""

    def __init__(
        self, loop: VirtualLoop, clock: VirtualClock, board: VirtualBoard, directory: Path
    ) -> None:
        self._loop = loop
        self._board = board
        self._directory = directory
        self.clock = clock
        self.agent = Agent(clock)
        self._ids = itertools.count(1)
        self._client: BoardClient | None = None
        self._reconciling: asyncio.Task[None] | None = None

    @property
    def up(self) -> bool:
        return self._client is not None

    async def start(self) -> None:
        """Come up as the daemon does: load, recover, find the board, go on with the queue."""
        self.store = MoodyStore(self._directory)
        self.routines = RoutineService(
            self.store,
            Transcripts(self._directory),
            self.clock,
            lambda: self.waking,
            self.agent,
            lease=LEASE,
            draw_id=lambda: f"r-{next(self._ids)}",
        )
        rate = BoardRate()
        self.waking = Waking(
            self.clock, rate, self.routines, lambda _now: self.routines.earliest_ns(), lease=LEASE
        )
        await self.routines.start()
        assert self.routines.unavailable is None
        watcher = _Watcher(self.waking.hinted)
        self._client = BoardClient(_Port(self._board), self.clock, rate, watcher, 1)
        self._reconciling = asyncio.create_task(self.waking.run())
        hello = await self._client.hello()
        assert isinstance(hello, Reading)
        self.waking.board_up(self._client, hello.value)
        await self.routines.resume()

    async def crash(self) -> None:
        """Be gone from one moment to the next: nothing is recorded, nothing is said."""
        assert self._client is not None
        self._client.close()
        self._client = None
        gone = [task for task in (self._reconciling, *self.routines._runs.values()) if task]
        for task in gone:
            task.cancel()
        await asyncio.gather(*gone, return_exceptions=True)

    async def stop(self) -> None:
        """Stop in order."""
        await self.routines.close()
        await self.crash()

    async def create(self, first_ns: int, interval_s: int = 0) -> str:
        """Create a routine for an instant; return its id."""
        return await self._create(Definition(task="x", run_at_ns=first_ns, interval_s=interval_s))

    async def create_in(self, delay_s: int) -> str:
        """Create a routine after a delay; return its id."""
        return await self._create(Definition(task="x", delay_s=delay_s))

    async def _create(self, definition: Definition) -> str:
        taken(await self.routines.open_session("chat"))
        created = taken(await self.routines.create(definition, "chat"))
        assert created.routine is not None
        return created.routine.id

    def routine(self, routine_id: str) -> Routine:
        return next(each for each in self.routines.state.routines if each.id == routine_id)


def taken(change: object) -> Change:
    """Return a change that was not refused."""
    assert isinstance(change, Change), change
    return change
