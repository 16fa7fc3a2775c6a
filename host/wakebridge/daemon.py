"""The bridge as a process: puts the parts together, runs them, and takes them apart in order.

Nothing is decided here. The order matters: the state is locked and loaded before a port is opened,
the ports are claimed before anything is promised. At the end the routines are recorded, then firing
ends, then whoever is asking gets an answer, and only then do the writers and the link go.
"""

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import AsyncIterator, Collection, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from wakebridge.adapters.http.server import HttpServer
from wakebridge.adapters.mqtt.adapter import MqttBus
from wakebridge.adapters.ovos.adapter import OvosAdapter
from wakebridge.board.client import BoardClient
from wakebridge.board.serial_port import SerialOpener
from wakebridge.board.supervisor import Supervisor
from wakebridge.clock import (
    DeadlineTimer,
    SuspendWatch,
    SystemClock,
    kernel_says_synchronized,
)
from wakebridge.config import Config
from wakebridge.engine import EventEngine
from wakebridge.readiness import Notifier
from wakebridge.runner.command import CommandRunner
from wakebridge.runner.http import Delivery, HttpRunner
from wakebridge.runner.mqtt import MqttRunner
from wakebridge.runner.port import Runner
from wakebridge.schedule.instants import Now, format_instant
from wakebridge.service.board_desk import BoardDesk
from wakebridge.service.events import EventService
from wakebridge.service.routines import RoutineService
from wakebridge.service.tool_desk import ToolDesk
from wakebridge.service.waking import Armed, Waking
from wakebridge.store import private_files
from wakebridge.store.errors import StateUnreadable
from wakebridge.store.routines_json import RoutinesJson
from wakebridge.store.schedules_sqlite import SchedulesSqlite
from wakebridge.store.state_lock import RoutinesLock, StateLock
from wakebridge.store.transcripts import Transcripts
from wakebridge.timeline import note
from wakewire.messages import Event, Hello

# How long a stop waits for the fire that is on its way: for its confirmation by the bus and its
# commit. With a disk that is full it would never hold; then that one fire may be repeated (E51).
HUSH_LIMIT_S: Final = 8.0

_STATUS_OF_DELIVERY: Final = {
    Delivery.TAKEN: 200,
    Delivery.NOT_UNDERSTOOD: 400,
    Delivery.WRONG_TOKEN: 403,
    Delivery.UNKNOWN_RUN: 404,
    Delivery.BUSY: 503,
}


class Bridge:
    """All parts of one running bridge. Use `open_bridge`."""

    def __init__(self, config: Config, store: SchedulesSqlite, timer: DeadlineTimer) -> None:
        clock = SystemClock()
        self.config = config
        lease = store.load(clock.now().wall_ns).lease
        self.events = EventService(
            EventEngine(config.events.administrators),
            store,
            clock,
            timer,
            plan_changed=self._plan_changed,
            replay_delay_s=config.events.replay_delay_s,
            clock_changed=self._clock_changed,
            clock_vouched=(kernel_says_synchronized if config.events.trust_kernel_sync else None),
            turn_began=self._look_for_suspend,
        )
        self.suspend = SuspendWatch()
        self.mqtt = None if config.mqtt is None else MqttBus(config.mqtt, self.events, self._tool)
        self.ovos = None
        if config.ovos is not None and config.ovos.enabled:
            self.ovos = OvosAdapter(config.ovos, self.events, clock)
        for bus in (self.mqtt, self.ovos):
            if bus is not None:
                self.events.attach(bus)
        config_dir = Path(config.config_dir)
        self.runner = _runner(config, self.mqtt)
        self.routines = RoutineService(
            RoutinesJson(config_dir),
            Transcripts(config_dir),
            clock,
            lambda: self.timer,
            self.runner,
            lease=lease,
            draw_id=lambda: f"r-{secrets.token_hex(6)}",
            clock_doubted=lambda: not self.events.clock_believed,
        )
        self.tools = ToolDesk(
            self.routines, clock, mode=config.agent.mode, backend_agent=config.agent.backend
        )
        self.supervisor = Supervisor(
            SerialOpener(config.board.port, pattern=config.board.glob),
            clock,
            on_up=self._board_up,
            on_down=self._board_down,
            on_hint=self._hinted,
            on_console=lambda text: note("board console", text=text.strip()[:200]),
        )
        self.board = BoardDesk(self.supervisor)
        self.timer = Waking(
            clock,
            self.supervisor.rate,
            self.routines,
            self._earliest_ns,
            lease=lease,
            lead_s=config.wake.lead_s,
        )
        self.timer.observers.append(self._timer_changed)
        self._armed_news = asyncio.Event()

    # -- joints between the parts -----------------------------------------------------------------

    def _earliest_ns(self, now: Now) -> int | None:
        """Return the earliest due instant of both domains: the countdown they share (R44)."""
        due = [self.events.earliest_ns(now), self.routines.earliest_ns()]
        return min((each for each in due if each is not None), default=None)

    def _plan_changed(self) -> None:
        self.timer.plan_changed()

    async def _clock_changed(self) -> None:
        await self.routines.clock_changed()

    def _look_for_suspend(self) -> None:
        """Doubt everything that may have died while the host slept, instead of waiting for it."""
        slept_ns = self.suspend.look()
        if not slept_ns:
            return
        note("resumed", slept_s=round(slept_ns / 1_000_000_000, 3))
        self.timer.plan_changed()  # a hint that the board pushed meanwhile may be lost
        if self.mqtt is not None:
            # Nothing is published on the old connection: unconfirmed, it would be repeated.
            self.events.bus_down(self.mqtt.name)
            self.mqtt.connection.reconnect("the host was suspended")

    def _hinted(self, event: Event) -> None:
        self.timer.hinted(event)

    async def _tool(self, payload: object, identity: str | None) -> dict[str, object]:
        del identity  # who may use this topic is the broker's decision
        return await self.tools.call_decoded(payload)

    def _board_up(self, client: BoardClient, hello: Hello) -> None:
        note(
            "board up",
            port=hello.port,
            board=hello.board,
            firmware=hello.firmware_version,
            boot_id=hello.boot_id.hex(),
        )
        self.timer.board_up(client, hello)
        self._armed_news.set()

    def _board_down(self, reason: str) -> None:
        note("board down", reason=reason)
        self.timer.board_down(reason)
        self._armed_news.set()

    def _timer_changed(self, _armed: Armed) -> None:
        self._armed_news.set()

    def deliver(self, run_id: str, secret: str, body: bytes) -> tuple[int, str]:
        """Hand an agent's report to the HTTP runner; return a status code and a reason."""
        if not isinstance(self.runner, HttpRunner):
            return 404, "the agent is not called over HTTP"
        delivery = self.runner.deliver(run_id, secret, body)
        return _STATUS_OF_DELIVERY[delivery], delivery.value.replace("_", " ")

    def health(self) -> Mapping[str, Any]:
        """Return what a person wants to know first."""
        hello = self.timer.hello
        client = self.supervisor.client
        return {
            "events": self.events.health(),
            "broker": None if self.mqtt is None else _broker_state(self.mqtt),
            "routines": {
                "available": self.routines.unavailable is None,
                "problem": self.routines.unavailable,
                "count": len(self.routines.state.routines),
            },
            "board": {
                **_board_state(hello, self.supervisor.problem),
                "open_attempts": self.supervisor.open_attempts,
                "link": None if client is None else msgspec.structs.asdict(client.counters()),
            },
            "timer": _timer_state(self.timer.armed),
        }

    # -- running ----------------------------------------------------------------------------------

    def core(self) -> list[Coroutine[Any, Any, object]]:
        """Return what runs for as long as the bridge does."""
        running: list[Coroutine[Any, Any, object]] = [
            self.events.run(),
            self.supervisor.run(),
            self.timer.run(),
        ]
        if self.mqtt is not None:
            running.append(self._publish_state(self.mqtt))
        return running

    def buses(self) -> list[Coroutine[Any, Any, object]]:
        """Return what connects owners and agents; needs the core to answer them."""
        return [bus.run() for bus in (self.mqtt, self.ovos) if bus is not None]

    async def _publish_state(self, mqtt: MqttBus) -> None:
        """Keep the retained state of board and timer true."""
        while True:
            await self._armed_news.wait()
            self._armed_news.clear()
            await mqtt.publish_state(
                "board", _board_state(self.timer.hello, self.supervisor.problem)
            )
            await mqtt.publish_state("timer", _timer_state(self.timer.armed))


@contextlib.asynccontextmanager
async def open_bridge(config: Config) -> AsyncIterator[Bridge]:
    """Lock the state, load it, claim the port; undo all of it in reverse at the end.

    Raises `StateLocked`, `StateUnreadable`, `PortBusy`, `PortAmbiguous` or OSError, each with a
    sentence for a person.
    """
    async with contextlib.AsyncExitStack() as stack:
        state_dir = await asyncio.to_thread(_private_directory, config.state_dir)
        stack.callback(StateLock(state_dir).release)
        stack.callback(RoutinesLock(Path(config.config_dir)).release)
        store = SchedulesSqlite(state_dir / "schedules.db")
        stack.callback(store.close)
        timer = DeadlineTimer()
        stack.callback(timer.close)
        bridge = Bridge(config, store, timer)
        bridge.events.start()
        await bridge.routines.start()
        stack.push_async_callback(bridge.routines.close)
        await bridge.supervisor.claim()
        yield bridge


async def serve(config: Config) -> None:
    """Run the bridge until SIGTERM or SIGINT. Raises what `open_bridge` raises."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    notifier = Notifier.of(os.environ)
    async with open_bridge(config) as bridge, contextlib.AsyncExitStack() as stack:
        stack.callback(notifier.close)
        server = None if config.http is None else HttpServer(config.http, bridge)
        if server is not None:
            stack.push_async_callback(server.close)
            # Before anything runs: a port that is taken must not disturb whoever has it.
            await server.start()
        async with asyncio.TaskGroup() as group:
            core = [group.create_task(each) for each in bridge.core()]
            buses = [group.create_task(each) for each in bridge.buses()]
            if isinstance(bridge.runner, MqttRunner):
                await bridge.runner.start()
            await bridge.routines.resume()
            watched = group.create_task(notifier.run())
            note("bridge ready", schedules=len(bridge.events))
            notifier.ready(f"{len(bridge.events)} schedules loaded")
            await stop.wait()
            note("bridge stopping")
            notifier.stopping()
            await bridge.routines.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HUSH_LIMIT_S):
                    await bridge.events.hush()
            if server is not None:
                await server.close()
            await _cancelled(buses)
            await _cancelled([*core, watched])


async def _cancelled(tasks: Collection[asyncio.Task[object]]) -> None:
    """Cancel and wait: what comes next takes away what these still need."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


def _private_directory(path: str) -> Path:
    directory = Path(path)
    if directory.is_symlink():
        # Whoever may change the link could give us another state, or another's to write to.
        raise StateUnreadable(
            f"{directory} is a symbolic link, which is refused: name what it leads to in state_dir"
        )
    try:
        private_files.make_directory(directory)
    except OSError as error:
        raise StateUnreadable(private_files.sentence(directory, error)) from error
    return directory


def _runner(config: Config, mqtt: MqttBus | None) -> Runner | None:
    """Return the way to the agent; the configuration has the section that its runner needs."""
    agent = config.agent
    if agent.runner == "command" and agent.command is not None:
        return CommandRunner(agent.command)
    if agent.runner == "http" and agent.http is not None:
        return HttpRunner(agent.http)
    if agent.runner == "mqtt" and agent.mqtt is not None and mqtt is not None:
        return MqttRunner(mqtt.connection, agent.mqtt)
    return None


def _broker_state(mqtt: MqttBus) -> dict[str, object]:
    return {"connected": mqtt.connection.is_up, "problem": mqtt.connection.trouble}


def _board_state(hello: Hello | None, problem: str) -> dict[str, object]:
    if hello is None:
        return {"connected": False, "problem": problem}
    return {
        "connected": True,
        "port": hello.port,
        "board": hello.board,
        "firmware": hello.firmware_version,
        "unique_id": hello.unique_id.hex(),
        "boot_id": hello.boot_id.hex(),
        "config_faults": list(hello.config_faults),
    }


def _timer_state(armed: Armed) -> dict[str, object]:
    return {
        "state": armed.state,
        "ours": armed.ours,
        "leg": armed.leg,
        "token": armed.token,
        "remaining_ms": armed.remaining_ms,
        "wakes_for": None if armed.target_ns is None else format_instant(armed.target_ns),
        "timer_error": armed.error,
    }
