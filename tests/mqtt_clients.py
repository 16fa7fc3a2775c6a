"""Plain MQTT clients beside the adapter under test, and a way to run the adapter for a while."""

import asyncio
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import aiomqtt
import msgspec
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from brokers import Mosquitto
from fake_scheduler import FakeScheduler
from wakebridge.adapters.mqtt import MqttBus

WAIT_S = 10.0

_numbers = itertools.count()


@dataclass
class Observer:
    """A plain MQTT client that keeps what it hears."""

    client: aiomqtt.Client
    heard: list[aiomqtt.Message] = field(default_factory=list)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def listen(self) -> None:
        async for message in self.client.messages:
            async with self._news:
                self.heard.append(message)
                self._news.notify_all()

    async def until(self, true: Callable[[], bool]) -> None:
        """Return once `true` is, looking at each message."""
        async with asyncio.timeout(WAIT_S), self._news:
            await self._news.wait_for(true)

    async def wait_for(self, count: int) -> list[aiomqtt.Message]:
        """Return the first `count` messages once they are there."""
        await self.until(lambda: len(self.heard) >= count)
        return self.heard[:count]

    async def fence(self) -> None:
        """Return when everything published before has been heard, by a message of our own."""
        topic = f"fence/{next(_numbers)}"
        await self.client.subscribe(topic, qos=1)
        await self.client.publish(topic, b"", qos=1)
        await self.until(lambda: any(m.topic.value == topic for m in self.heard))
        self.heard[:] = [m for m in self.heard if m.topic.value != topic]


@contextlib.asynccontextmanager
async def observe(
    port: int,
    *topics: str,
    username: str | None = None,
    password: str | None = None,
    protocol: aiomqtt.ProtocolVersion = aiomqtt.ProtocolVersion.V5,
) -> AsyncIterator[Observer]:
    """Connect a plain client and subscribe it with QoS 1."""
    client = aiomqtt.Client(
        "127.0.0.1",
        port,
        username=username,
        password=password,
        protocol=protocol,
        socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
    )
    async with client:
        observer = Observer(client)
        for topic in topics:
            await client.subscribe(topic, qos=1)
        listening = asyncio.create_task(observer.listen())
        try:
            yield observer
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)


@contextlib.asynccontextmanager
async def attempting(bus: MqttBus) -> AsyncIterator[None]:
    """Run the adapter, whether it comes up or not; stop it in order."""
    task = asyncio.create_task(bus.run())
    try:
        yield
        assert not task.done()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def running(bus: MqttBus, scheduler: FakeScheduler) -> AsyncIterator[MqttBus]:
    """Run the adapter; yield once it is up; stop it in order."""
    async with attempting(bus):
        await asyncio.wait_for(scheduler.is_up.wait(), WAIT_S)
        yield bus


async def eventually(true: Callable[[], bool]) -> None:
    """Return once `true` is, for what announces itself to nobody."""
    async with asyncio.timeout(WAIT_S):
        while not true():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.001)


def request_properties(response_topic: str, correlation: bytes | None = None) -> Properties:
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # the library's
    properties.ResponseTopic = response_topic
    if correlation is not None:
        properties.CorrelationData = correlation
    return properties


def decoded(message: aiomqtt.Message) -> dict[str, object]:
    """Return the JSON object a message carries."""
    assert isinstance(message.payload, bytes)
    return msgspec.json.decode(message.payload, type=dict[str, object])


def answer_data(message: aiomqtt.Message) -> dict[str, object]:
    """Return the `data` of an answer."""
    data = decoded(message)["data"]
    assert isinstance(data, dict)
    return data


@dataclass
class Bridge:
    """The adapter under test with everything around it."""

    broker: Mosquitto
    scheduler: FakeScheduler
    bus: MqttBus
