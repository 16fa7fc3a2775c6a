"""The bridge as a user runs it, with a real broker or bus, and a component that asks and hears.

The broker is mosquitto as `host/packaging/mosquitto` has it where latency is concerned
(`set_tcp_nodelay`). The bridge is `wakebridge serve` with its log going to a file, no board, and
its state on the disk that the tests run on.
"""

import asyncio
import contextlib
import getpass
import itertools
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from bench.wire_client import WireClient
from brokers import Mosquitto, free_port
from plain_bridge import PlainBridge

WAIT_S: Final = 120.0
"""How long anything may take: a busy machine must not end a run."""

OWNER: Final = "bench"

IN_FLIGHT: Final = 128
"""Requests on their way at once; the bridge takes 256 of one owner and answers `busy` beyond."""

Answer = Mapping[str, Any]


@dataclass(frozen=True)
class Fire:
    """One fired event: its schedule, when it was due, and when it was heard, in wall ns."""

    id: str
    due: str
    heard_ns: int

    @property
    def late_ms(self) -> float:
        return (self.heard_ns - instant_ns(self.due)) / 1e6


class Component(Protocol):
    """Asks a scheduler for events and hears them, on any bus."""

    fires: list[Fire]

    async def ask(self, verb: str, data: object) -> Answer: ...
    async def until_fired(self, count: int) -> None: ...


def instant_ns(text: str) -> int:
    """Return an RFC 3339 instant in ns since the epoch, exact to the microsecond."""
    moment = datetime.fromisoformat(text)
    whole = int(moment.replace(microsecond=0).timestamp())
    return whole * 1_000_000_000 + moment.microsecond * 1000


def ahead(seconds: float) -> str:
    """Return the instant so many seconds from now."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


class Heard:
    """Fires as they arrive, and a way to wait for them."""

    def __init__(self) -> None:
        self.fires: list[Fire] = []
        self._wanted = 0
        self._reached = asyncio.Event()

    def take(self, scheduler: Mapping[str, Any]) -> None:
        self.fires.append(Fire(scheduler["id"], scheduler["due"], time.time_ns()))
        if len(self.fires) >= self._wanted:
            self._reached.set()

    async def until_fired(self, count: int) -> None:
        """Return when so many events have been heard."""
        self._wanted = count
        if len(self.fires) < count:
            self._reached.clear()
            async with asyncio.timeout(WAIT_S):
                await self._reached.wait()


class _Context(msgspec.Struct):
    scheduler: dict[str, Any] | None = None


class _Message(msgspec.Struct):
    context: _Context
    data: msgspec.Raw


_MESSAGE = msgspec.json.Decoder(_Message)


class MqttComponent(Heard):
    """A component on the broker, with MQTT 5's response topic and correlation data."""

    def __init__(self) -> None:
        super().__init__()
        self.online = asyncio.Event()
        self._answers: dict[bytes, asyncio.Future[bytes]] = {}
        self._numbers = itertools.count(1)
        self._client: WireClient | None = None

    async def connect(self, port: int, name: str = OWNER) -> None:
        """Connect and hear everything that is the owner's."""
        self._branch = f"wakebridge/owners/{name}"
        self._context = {"skill_id": name, "source": name}
        client = self._client = await WireClient.connect(port, f"{name}-component", self._take)
        await client.subscribe("wakebridge/status")
        await client.subscribe(f"{self._branch}/answer/+")
        await client.subscribe(f"{self._branch}/event/+")

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def _take(self, topic: str, payload: bytes, correlation: bytes) -> None:
        if correlation:
            answered = self._answers.pop(correlation, None)
            if answered is not None and not answered.done():
                answered.set_result(payload)
        elif topic.endswith("/status"):
            (self.online.set if payload == b"online" else self.online.clear)()
        else:
            scheduler = _MESSAGE.decode(payload).context.scheduler
            assert scheduler is not None
            self.take(scheduler)

    def send(self, verb: str, data: object) -> asyncio.Future[bytes]:
        """Send a request; the future is done when its answer's bytes are there."""
        assert self._client is not None
        correlation = b"%d" % next(self._numbers)
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answers[correlation] = answered
        self._client.publish(
            f"{self._branch}/request/{verb}".encode(),
            msgspec.json.encode({"data": data, "context": self._context}),
            f"{self._branch}/answer/{verb}".encode(),
            correlation,
        )
        return answered

    async def ask(self, verb: str, data: object) -> Answer:
        """Make a request and return its answer's data."""
        async with asyncio.timeout(WAIT_S):
            return read_answer(await self.send(verb, data))


def read_answer(payload: bytes) -> Answer:
    """Return the data of an answer."""
    data: Answer = msgspec.json.decode(_MESSAGE.decode(payload).data)
    return data


async def schedule(component: Component, schedule_id: str, **fields: object) -> str:
    """Have an event accepted; return its first due instant."""
    body = {"id": schedule_id, "event": f"{OWNER}.tick", **fields}
    answer = await component.ask("schedule", body)
    assert answer["ok"], answer
    return str(answer["next"])


async def schedule_many(component: Component, ids: Iterator[str], **fields: object) -> None:
    """Have many events accepted, a bounded number of requests at a time."""

    async def work() -> None:
        for schedule_id in ids:
            await schedule(component, schedule_id, **fields)

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(work())


@contextlib.contextmanager
def broker(directory: Path) -> Iterator[Mosquitto]:
    """Run a mosquitto that says little and queues what a slow reader has not read yet."""
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    lines = (
        f"listener {port} 127.0.0.1",
        "set_tcp_nodelay true",
        "allow_anonymous true",
        "max_queued_messages 100000",
        f"user {getpass.getuser()}",  # root would become somebody who cannot read here
        "log_dest stderr",
        "log_type notice",
        "log_type information",
    )
    running = Mosquitto(directory, "\n".join((*lines, "")), port)
    running.start()
    try:
        yield running
    finally:
        running.stop()


@dataclass
class Stage:
    """A bridge on a broker, and one component."""

    bridge: PlainBridge
    broker: Mosquitto
    component: MqttComponent


@contextlib.asynccontextmanager
async def mqtt_stage(directory: Path, *under: str) -> AsyncIterator[Stage]:
    """Run bridge and broker; yield once requests are served.

    `under` is a program, with options, that the bridge runs under.
    """
    component = MqttComponent()
    with broker(directory / "broker") as running:
        bridge = PlainBridge(directory / "bridge", {"mqtt": {"port": running.port}}, under=under)
        bridge.start()
        try:
            await component.connect(running.port)
            async with asyncio.timeout(WAIT_S):
                await component.online.wait()
            yield Stage(bridge, running, component)
        finally:
            component.close()
            bridge.stop()


def cpu_s(pid: int) -> float:
    """Return the processor time that all threads of a process have used."""
    clock_id = ~pid << 3 | 2  # the kernel's clock of another process
    return time.clock_gettime(clock_id)
