"""A component on either transport that asks, and hears everything that is said there.

Both transports carry the same message of type, data and context; over MQTT it is the payload, and
the topic says whose it is.
"""

import asyncio
import contextlib
import itertools
import json
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import aiomqtt

WAIT_S: Final = 30.0
"""How long anything that must happen may take; a shared machine is slow at times."""

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Message:
    """What was heard; `owner` is the one in the topic, None on the OVOS bus."""

    type: str
    data: Any
    context: Any
    owner: str | None
    heard_ns: int

    @property
    def fire(self) -> Any:
        """The `scheduler` key of a fired event (E30)."""
        return self.context["scheduler"]


Wanted = Callable[[Message], bool]


class Ear(ABC):
    """Everything heard, in order, and a way to ask."""

    name: str

    def __init__(self) -> None:
        self.heard: list[Message] = []
        self._news = asyncio.Condition()

    async def _take(self, message: Message) -> None:
        async with self._news:
            self.heard.append(message)
            self._news.notify_all()

    @abstractmethod
    async def say_text(self, verb: str, text: str, owner: str) -> None:
        """Send a request whose message is this text."""

    def frame(self, verb: str, data: str, context: str) -> str:
        """Return the text of a request's message, of the texts of its parts."""
        return f'{{"type": "ovos.scheduler.{verb}", "data": {data}, "context": {context}}}'

    # -- asking -----------------------------------------------------------------------------------

    async def answer_to(self, verb: str, text: str, owner: str) -> Message:
        """Send a request's text; return its answer."""
        mark = len(self.heard)
        await self.say_text(verb, text, owner)
        return await self.first(f"ovos.scheduler.{verb}.response", owner, after=mark)

    async def ask(
        self, verb: str, data: object, owner: str, context: Mapping[str, object] | None = None
    ) -> Any:
        """Make a request in the name of an owner; return its answer's data."""
        given = {"skill_id": owner, "source": owner} if context is None else context
        text = self.frame(verb, json.dumps(data), json.dumps(given))
        return (await self.answer_to(verb, text, owner)).data

    async def schedule(self, owner: str, schedule_id: str = "a", **fields: Any) -> str:
        """Have an event accepted; return its first due instant."""
        event = {"id": schedule_id, "event": f"{owner}.{schedule_id}", **fields}
        answer = await self.ask("schedule", event, owner)
        assert answer["ok"], answer
        return str(answer["next"])

    async def get(self, owner: str, schedule_id: str = "a") -> Any:
        """Return the whole answer to `get`."""
        return await self.ask("get", {"id": schedule_id}, owner)

    async def state(self, owner: str, schedule_id: str = "a") -> Any:
        """Return the state of a schedule that exists."""
        answer = await self.get(owner, schedule_id)
        assert answer["existed"], answer
        return answer["state"]

    async def listed(self, owner: str) -> list[str]:
        """Return the ids of an owner's schedules."""
        answer = await self.ask("list", {}, owner)
        return sorted(pair["record"]["id"] for pair in answer["schedules"])

    async def fence(self) -> None:
        """Return when everything that was asked before has been answered and heard."""
        nobody = f"fence{next(_numbers)}"
        await self.ask("get", {"id": nobody}, nobody)

    # -- hearing ----------------------------------------------------------------------------------

    def mark(self) -> int:
        """Return a place in what was heard, for `after`."""
        return len(self.heard)

    def all(self, kind: str, owner: str | None = None, *, after: int = 0) -> list[Message]:
        """Return the messages of this type, over MQTT the owner's only."""
        return [each for each in self.heard[after:] if _is(each, kind, owner)]

    def fires(self, owner: str, schedule_id: str = "a") -> list[Message]:
        """Return the fired events of a schedule that `schedule` asked for."""
        return self.all(f"{owner}.{schedule_id}", owner)

    def missed(self, owner: str, schedule_id: str = "a") -> list[Message]:
        """Return the reports of what a schedule missed."""
        told = self.all("ovos.scheduler.missed", owner)
        return [m for m in told if (m.data["skill_id"], m.data["id"]) == (owner, schedule_id)]

    async def until(self, true: Callable[[], bool]) -> None:
        """Return once `true` is, looking at each message."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S), self._news:
                await self._news.wait_for(true)
        assert true(), [message.type for message in self.heard[-20:]]

    async def several(
        self, count: int, kind: str, owner: str | None = None, *, after: int = 0
    ) -> list[Message]:
        """Return the messages of this type once there are so many."""
        await self.until(lambda: len(self.all(kind, owner, after=after)) >= count)
        return self.all(kind, owner, after=after)

    async def first(self, kind: str, owner: str | None = None, *, after: int = 0) -> Message:
        """Return the first message of this type; wait for it."""
        return (await self.several(1, kind, owner, after=after))[0]

    async def fired(self, owner: str, schedule_id: str = "a", times: int = 1) -> list[Message]:
        """Return the fires of a schedule once there are so many."""
        return await self.several(times, f"{owner}.{schedule_id}", owner)

    async def ready(self, *, after: int) -> Message:
        """Return the announcement of a start that is heard after a mark."""
        return await self.first("ovos.scheduler.ready", after=after)


def _is(message: Message, kind: str, owner: str | None) -> bool:
    return message.type == kind and (owner is None or message.owner in {None, owner})


class MqttEar(Ear):
    """On the broker, subscribed to everything."""

    name = "mqtt"

    def __init__(self, client: aiomqtt.Client) -> None:
        super().__init__()
        self._client = client

    async def say_text(self, verb: str, text: str, owner: str) -> None:
        await self._client.publish(f"wakebridge/owners/{owner}/request/{verb}", text, qos=1)

    async def listen(self) -> None:
        async for received in self._client.messages:
            levels = received.topic.value.split("/")
            of_owner = len(levels) == 5 and levels[3] in {"answer", "event"}
            if not (of_owner or levels[-1] in {"missed", "ready"}):
                continue  # a request, or what is retained about the bridge
            assert isinstance(received.payload, bytes)
            assert not received.retain
            message = json.loads(received.payload)
            owner = levels[2] if levels[1] == "owners" else None
            await self._take(
                Message(message["type"], message["data"], message["context"], owner, time.time_ns())
            )


class OvosEar(Ear):
    """A plain websocket on the OVOS bus."""

    name = "ovos"

    def __init__(self, opened: aiohttp.ClientWebSocketResponse) -> None:
        super().__init__()
        self._socket = opened

    async def say_text(self, verb: str, text: str, owner: str) -> None:
        await self._socket.send_str(text)

    async def say(self, kind: str, data: object, context: Mapping[str, object]) -> None:
        """Send a message of any type."""
        await self._socket.send_str(json.dumps({"type": kind, "data": data, "context": context}))

    async def listen(self) -> None:
        tcp = self._socket.get_extra_info("socket")
        async for frame in self._socket:
            # Without it the bus would hold the next frame back for 40 ms.
            tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            try:
                message = json.loads(frame.data)
                heard = Message(
                    message["type"], message["data"], message["context"], None, time.time_ns()
                )
            except (ValueError, KeyError, RecursionError):
                continue  # the bus relays back what no reader of JSON takes
            await self._take(heard)


@contextlib.asynccontextmanager
async def mqtt_ear(port: int) -> AsyncIterator[MqttEar]:
    """Be on the broker at a loopback port."""
    async with aiomqtt.Client(
        "127.0.0.1",
        port,
        protocol=aiomqtt.ProtocolVersion.V5,
        socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
    ) as client:
        client.pending_calls_threshold = 10_000  # some tests ask in bursts
        await client.subscribe("wakebridge/#", qos=1)
        ear = MqttEar(client)
        async with _listening(ear.listen()):
            yield ear


@contextlib.asynccontextmanager
async def ovos_ear(url: str) -> AsyncIterator[OvosEar]:
    """Be on the OVOS bus at this address."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(url, max_msg_size=0) as opened,
    ):
        ear = OvosEar(opened)
        async with _listening(ear.listen()):
            await ear.first("connected")
            yield ear


@contextlib.asynccontextmanager
async def _listening(listen: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(listen)
    try:
        yield
    finally:
        task.cancel()
        results = await asyncio.gather(task, return_exceptions=True)
        error = results[0]
        if isinstance(error, Exception) and not isinstance(error, aiomqtt.MqttError):
            raise error
