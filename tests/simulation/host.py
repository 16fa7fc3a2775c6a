"""A host: the real services of one bridge process, on clocks and a loop that the world drives."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Coroutine, Sequence
from typing import Any, Final, Protocol

from wakebridge.board.client import BoardClient, Port
from wakebridge.board.supervisor import Supervisor
from wakebridge.clock import SuspendWatch
from wakebridge.engine import EventEngine
from wakebridge.runner.port import OnProgress, Outcome, RunRequest
from wakebridge.schedule.book import Change
from wakebridge.schedule.instants import Now
from wakebridge.service.events import EventService
from wakebridge.service.routines import RoutineService
from wakebridge.service.waking import Waking
from wakebridge.store.transcripts import Transcripts
from wakewire.messages import Event, Hello

from .buses import SimBus
from .disk import Disk, DocumentWatcher, FaultySchedules, WatchedRoutines
from .kernel import Agenda, HostLoop, Violation
from .line import SerialLine
from .properties import ALIVE

ADMINISTRATOR: Final = "admin"

# How long a stop waits for a fire on its way, as in `wakebridge.daemon`.
_HUSH_LIMIT_S: Final = 8.0


class Clocks:
    """The hardware clocks of one host: wall, boot and monotonic over the world's time."""

    def __init__(self, agenda: Agenda, wall_ns: int) -> None:
        self._agenda = agenda
        self._wall_offset_ns = wall_ns - agenda.now_ns
        self._boot_ns = agenda.now_ns
        self._frozen_ns = 0
        self._frozen_since_ns: int | None = None

    def now(self) -> Now:
        """Implement `wakebridge.clock.Clock`."""
        now_ns = self._agenda.now_ns
        return Now(self._wall_offset_ns + now_ns, now_ns - self._boot_ns)

    @property
    def wall_ns(self) -> int:
        return self._wall_offset_ns + self._agenda.now_ns

    def world_of_wall(self, wall_ns: int) -> int:
        return wall_ns - self._wall_offset_ns

    def world_of_boot(self, boot_ns: int) -> int:
        return boot_ns + self._boot_ns

    def step(self, by_ns: int) -> None:
        self._wall_offset_ns += by_ns

    def reboot(self) -> None:
        self._boot_ns = self._agenda.now_ns
        self._frozen_ns = 0
        self._frozen_since_ns = None

    def monotonic_ns(self) -> int:
        end_ns = self._agenda.now_ns if self._frozen_since_ns is None else self._frozen_since_ns
        return end_ns - self._boot_ns - self._frozen_ns

    def slept_ns(self) -> int:
        """Return for how long the host has been suspended since its boot."""
        return self._frozen_ns

    def freeze(self) -> None:
        self._frozen_since_ns = self._agenda.now_ns

    def thaw(self) -> None:
        if self._frozen_since_ns is not None:
            self._frozen_ns += self._agenda.now_ns - self._frozen_since_ns
            self._frozen_since_ns = None


class SimTimer:
    """`wakebridge.clock.DeadlineTimer` on simulated clocks."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._ready = asyncio.Event()
        self._wall_ns: int | None = None
        self._boot_ns: int | None = None

    def wake(self) -> None:
        self._ready.set()

    async def wait(self, now: Now, wall_ns: int | None, boot_ns: int | None) -> None:
        del now
        self._wall_ns, self._boot_ns = wall_ns, boot_ns
        self.look()
        await self._ready.wait()
        self._ready.clear()
        self._wall_ns = self._boot_ns = None

    def look(self) -> None:
        """Go off if a deadline has passed."""
        now = self._clocks.now()
        if (self._wall_ns is not None and self._wall_ns <= now.wall_ns) or (
            self._boot_ns is not None and self._boot_ns <= now.boot_ns
        ):
            self._ready.set()

    def next_ns(self) -> int | None:
        """Return when it goes off in world time."""
        if self._ready.is_set():
            return None
        due = []
        if self._wall_ns is not None:
            due.append(self._clocks.world_of_wall(self._wall_ns))
        if self._boot_ns is not None:
            due.append(self._clocks.world_of_boot(self._boot_ns))
        return min(due, default=None)


class Agent(Protocol):
    """The runner's other end, which outlives hosts."""

    async def run(self, request: RunRequest, on_progress: OnProgress) -> Outcome: ...
    async def cancel(self, run_id: str) -> bool: ...
    async def close(self) -> None: ...


class Watcher(Protocol):
    """Who is told what the host does."""

    @property
    def routines(self) -> DocumentWatcher: ...

    def committing(self, changes: Sequence[Change], now_ns: int) -> None: ...
    def committed(self, changes: Sequence[Change], now_ns: int) -> None: ...
    def watermark_reset(self, now_ns: int) -> None: ...
    def ready_to_serve(self) -> None: ...
    def link_up(self) -> None: ...
    def link_down(self) -> None: ...


class HostLog(logging.Handler):
    """Keeps what a host logs as a fault of its own: with a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.faults: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.faults.append(f"{record.name}: {record.getMessage()}: {record.exc_info[1]!r}")


class Bridge:
    """One process of the bridge: its parts joined as `wakebridge.daemon` joins them."""

    def __init__(
        self,
        agenda: Agenda,
        clocks: Clocks,
        disk: Disk,
        line: SerialLine,
        buses: Sequence[SimBus],
        agent: Agent,
        watcher: Watcher,
        draw: random.Random,
        lead_s: float,
    ) -> None:
        self.loop = HostLoop(clocks.monotonic_ns)
        self.loop.disk_delay_ns = disk.delay_ns
        asyncio.events._set_running_loop(self.loop)
        try:
            self._build(agenda, clocks, disk, line, buses, agent, watcher, draw, lead_s)
        finally:
            asyncio.events._set_running_loop(None)

    def _build(
        self,
        agenda: Agenda,
        clocks: Clocks,
        disk: Disk,
        line: SerialLine,
        buses: Sequence[SimBus],
        agent: Agent,
        watcher: Watcher,
        draw: random.Random,
        lead_s: float,
    ) -> None:
        self._watcher = watcher
        self._line = line
        self.serving = False
        self.closed = False
        self.verdict: BaseException | None = None
        self.buses = buses
        self.store = FaultySchedules(disk, self.loop, agenda, watcher)
        lease = self.store.load(clocks.wall_ns).lease
        self.lease = lease
        self.timer = SimTimer(clocks)
        self.engine = EventEngine((ADMINISTRATOR,))
        self.events = EventService(
            self.engine,
            self.store,
            clocks,
            self.timer,
            plan_changed=self._plan_changed,
            clock_changed=self._clock_changed,
            turn_began=self._look_for_suspend,
        )
        self._suspend = SuspendWatch(clocks.slept_ns)
        for bus in buses:
            self.events.attach(bus)
        ids = iter(range(1 << 62))
        mark = draw.randrange(1 << 32)
        self.routines = RoutineService(
            WatchedRoutines(disk, watcher.routines),
            Transcripts(disk.config_dir),
            clocks,
            lambda: self.waking,
            agent,
            lease=lease,
            draw_id=lambda: f"r-{mark:08x}-{next(ids)}",
            clock_doubted=lambda: not self.events.clock_believed,
        )
        self.supervisor = Supervisor(
            self._open,
            clocks,
            on_up=self._board_up,
            on_down=self._board_down,
            on_hint=self._hinted,
            on_console=lambda _text: None,
            first_id=lambda: draw.randrange(0x10000),
        )
        self.waking = Waking(
            clocks, self.supervisor.rate, self.routines, self._earliest, lease=lease, lead_s=lead_s
        )
        self.tasks: list[asyncio.Task[Any]] = []
        self.requests: set[asyncio.Task[Any]] = set()

    # -- joints -----------------------------------------------------------------------------------

    async def _open(self) -> Port:
        return self._line.open()

    def _earliest(self, now: Now) -> int | None:
        due = [self.events.earliest_ns(now), self.routines.earliest_ns()]
        return min((each for each in due if each is not None), default=None)

    async def _clock_changed(self) -> None:
        await self.routines.clock_changed()

    def _plan_changed(self) -> None:
        self.waking.plan_changed()

    def _look_for_suspend(self) -> None:
        if self._suspend.look():
            self.waking.plan_changed()

    def _hinted(self, event: Event) -> None:
        self.waking.hinted(event)

    def _board_up(self, client: BoardClient, hello: Hello) -> None:
        self.waking.board_up(client, hello)
        self._watcher.link_up()

    def _board_down(self, reason: str) -> None:
        self.waking.board_down(reason)
        self._watcher.link_down()

    # -- life -------------------------------------------------------------------------------------

    def spawn(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[Any]:
        """Start a task on the host; the world runs it later."""
        return self.loop.create_task(work)

    async def start(self) -> None:
        """Come up as the daemon does."""
        self.events.start()
        await self.routines.start()
        await self.supervisor.claim()
        for work in (self.events.run(), self.supervisor.run(), self.waking.run()):
            self.tasks.append(self.spawn(work))
        await self.routines.resume()
        self.serving = True
        self._watcher.ready_to_serve()

    async def stop(self) -> None:
        """Go down as the daemon does at SIGTERM."""
        await self.routines.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HUSH_LIMIT_S):
                await self.events.hush()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.closed = True

    def request_done(self, task: asyncio.Task[Any]) -> None:
        """A request was answered; a judge's verdict on the answer goes up to the world."""
        self.requests.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.verdict = task.exception()

    @property
    def parts(self) -> tuple[object, ...]:
        """What could grow."""
        return (
            self.engine,
            self.events,
            self.routines,
            self.supervisor,
            self.waking,
            self.store.real,
        )

    def check(self) -> None:
        """Raise what a task of the bridge died of."""
        if isinstance(self.verdict, Violation):
            raise self.verdict
        if self.verdict is not None:
            raise Violation(ALIVE, repr(self.verdict)) from self.verdict
        for task in self.tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                if isinstance(error, Violation):
                    raise error
                raise Violation(ALIVE, repr(error)) from error
        if self.loop.failures:
            failure = self.loop.failures[0]
            if isinstance(failure.get("exception"), Violation):
                raise failure["exception"]
            raise Violation(ALIVE, repr(failure))

    def kill(self) -> None:
        """End without a chance to do anything: SIGKILL, a power cut."""
        self.serving = False
        self.loop.abandon()
        self.store.die()

    def run(self) -> None:
        """Let the host do what there is to do at this instant."""
        self.timer.look()
        self.loop.run_ready()

    def next_ns(self, now_ns: int) -> int | None:
        """Return when the host has something to do next, in world time."""
        delay_ns = self.loop.next_delay_ns()
        due = [] if delay_ns is None else [now_ns + delay_ns]
        if (timer_ns := self.timer.next_ns()) is not None:
            due.append(timer_ns)
        return max(min(due), now_ns) if due else None
