"""A component that schedules events over MQTT and keeps everything it hears, over any outage."""

import asyncio
import contextlib
import itertools
import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import aiomqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from mqtt_clients import request_properties

WAIT_S = 20.0
"""How long anything that must happen may take; a shared machine is slow at times."""


@dataclass(frozen=True)
class Fired:
    """One fired event as its owner heard it; `heard_s` is on the monotonic clock."""

    id: str
    due: str
    fired: str
    data: Any
    retained: bool
    heard_s: float

    @property
    def key(self) -> tuple[str, str]:
        """What its owner tells repetitions by (E34)."""
        return self.id, self.due


@dataclass(frozen=True)
class Missed:
    """One report of missed occurrences. `before` is how many fires had been heard before it."""

    id: str
    missed: list[str]
    fired_late: str | None
    next: str | None
    before: int


@dataclass
class Owner:
    """A component with a persistent session at the broker; as a context it is connected."""

    port: int
    name: str = "demo"
    base: str = "wakebridge"
    fired: list[Fired] = field(default_factory=list)
    missed: list[Missed] = field(default_factory=list)
    ready: list[Any] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    """The newest payloads of the bridge's retained topics: status, board, timer."""
    statuses: list[str] = field(default_factory=list)
    """Every status in the order of its arrival."""
    _answers: dict[bytes, asyncio.Future[Any]] = field(default_factory=dict)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    _client: aiomqtt.Client | None = None
    _up: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        async with asyncio.timeout(WAIT_S):
            await self._up.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho's
        properties.SessionExpiryInterval = 3600
        while True:
            with contextlib.suppress(aiomqtt.MqttError):
                async with aiomqtt.Client(
                    "127.0.0.1",
                    self.port,
                    identifier=f"owner-{self.name}",
                    protocol=aiomqtt.ProtocolVersion.V5,
                    clean_start=False,
                    properties=properties,
                    socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
                ) as self._client:
                    self._client.pending_calls_threshold = 10_000  # we ask in bursts
                    await self._client.subscribe(f"{self.base}/+", qos=1)
                    await self._client.subscribe(f"{self._own}/event/+", qos=1)
                    await self._client.subscribe(f"{self._own}/missed", qos=1)
                    await self._client.subscribe(f"{self._own}/answer/#", qos=1)
                    self._up.set()
                    async for message in self._client.messages:
                        await self._take(message)
            self._up.clear()
            await asyncio.sleep(0.05)  # until the broker is back

    @property
    def _own(self) -> str:
        return f"{self.base}/owners/{self.name}"

    async def _take(self, message: aiomqtt.Message) -> None:
        assert isinstance(message.payload, bytes)
        async with self._news:
            self._sort(message.topic.value, message.payload, message)
            self._news.notify_all()

    def _sort(self, topic: str, payload: bytes, message: aiomqtt.Message) -> None:
        kind = topic.removeprefix(f"{self._own}/").removeprefix(f"{self.base}/").split("/")[0]
        if kind == "status":
            self.statuses.append(payload.decode())
            self.state[kind] = payload.decode()
            return
        content = json.loads(payload)
        if kind == "event":
            about = content["context"]["scheduler"]
            self.fired.append(
                Fired(
                    about["id"],
                    about["due"],
                    about["fired"],
                    content["data"],
                    message.retain,
                    time.monotonic(),
                )
            )
        elif kind == "missed":
            told = content["data"]
            self.missed.append(
                Missed(
                    told["id"], told["missed"], told["fired_late"], told["next"], len(self.fired)
                )
            )
        elif kind == "answer":
            answered = self._answers.get(getattr(message.properties, "CorrelationData", b""))
            if answered is not None and not answered.done():
                answered.set_result(content["data"])
        elif kind == "ready":
            self.ready.append(content["data"])
        else:
            self.state[kind] = content

    async def ask(self, verb: str, data: object, timeout_s: float = WAIT_S) -> Any:
        """Make a request and return its answer's data. TimeoutError when none comes."""
        correlation = f"{self.name}-{next(self._numbers)}".encode()
        answered = self._answers[correlation] = asyncio.get_running_loop().create_future()
        message = {"data": data, "context": {"skill_id": self.name, "source": self.name}}
        async with asyncio.timeout(timeout_s):
            await self._up.wait()
            assert self._client is not None
            await self._client.publish(
                f"{self._own}/request/{verb}",
                json.dumps(message).encode(),
                qos=1,
                properties=request_properties(f"{self._own}/answer/{verb}", correlation),
            )
            return await answered

    async def schedule(self, schedule_id: str, **fields: object) -> str:
        """Have an event accepted; return its first due instant."""
        event = {"id": schedule_id, "event": f"{self.name}.{schedule_id}", **fields}
        answer = await self.ask("schedule", event)
        assert answer["ok"], answer
        return str(answer["next"])

    async def until(self, true: Callable[[], bool], timeout_s: float = WAIT_S) -> None:
        """Return once `true` is, looking at each message."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._news:
                await self._news.wait_for(true)
        assert true(), f"{self.name} has not heard what it waits for: {self}"

    async def online(self) -> None:
        """Return once the bridge serves this broker: requests from before may be lost."""
        await self.until(lambda: self.state.get("status") == "online")

    async def until_fired(self, count: int) -> None:
        """Return once so many fires were heard."""
        await self.until(lambda: len(self.fired) >= count)

    async def until_timer(self, timeout_s: float = WAIT_S, **fields: object) -> Any:
        """Return the retained state of the countdown once it has these values."""
        await self.until(lambda: fields.items() <= self.state.get("timer", {}).items(), timeout_s)
        return self.state["timer"]

    def fires_of(self, schedule_id: str) -> list[Fired]:
        """Return the fires of one schedule, in the order of arrival."""
        return [each for each in self.fired if each.id == schedule_id]
