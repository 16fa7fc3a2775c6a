"""The websocket to a real message bus: order, confirmation, latency, coming back."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from ovos_processes import Listener, OvosBus
from wakebridge.ovosbus.connection import (
    ECHO_TIMEOUT_S,
    Connection,
    NotConnected,
    NotRelayed,
)
from wakebridge.ovosbus.message import encode


class Link:
    """A connection that runs, with what it told."""

    def __init__(self, url: str) -> None:
        self.up = asyncio.Event()
        self.down = asyncio.Event()
        self.frames: asyncio.Queue[str] = asyncio.Queue()
        self.history: list[str] = []
        self.connection = Connection(
            url, self.frames.put_nowait, on_up=self._came_up, on_down=self._went_down
        )

    def _came_up(self) -> None:
        self.history.append("up")
        self.down.clear()
        self.up.set()

    def _went_down(self) -> None:
        self.history.append("down")
        self.up.clear()
        self.down.set()

    async def hear(self, message_type: str) -> str:
        while True:
            frame = await self.frames.get()
            if json.loads(frame)["type"] == message_type:
                return frame


@contextlib.asynccontextmanager
async def linked(url: str) -> AsyncIterator[Link]:
    link = Link(url)
    running = asyncio.ensure_future(link.connection.run())
    try:
        async with asyncio.timeout(5):
            await link.up.wait()
        yield link
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_messages_leave_in_the_order_they_were_sent(bus: OvosBus) -> None:
    async with Listener(bus.url) as ear, linked(bus.url) as link:
        frames = [encode("order", {"n": n, "pad": "x" * (n * 97 % 5000)}, {}) for n in range(300)]
        send, confirmed = link.connection.send, link.connection.send_confirmed
        await asyncio.gather(
            *((confirmed if n % 3 else send)(frame) for n, frame in enumerate(frames))
        )
        heard = [(await ear.next("order"))["data"]["n"] for _ in frames]
        assert heard == list(range(300))


async def test_a_confirmed_message_was_relayed_when_it_returns(bus: OvosBus) -> None:
    async with linked(bus.url) as link:
        frame = encode("confirmed", {}, {})
        await link.connection.send_confirmed(frame)
        assert await link.hear("confirmed") == frame


async def test_the_same_message_twice_is_confirmed_twice(bus: OvosBus) -> None:
    async with Listener(bus.url) as ear, linked(bus.url) as link:
        frame = encode("twice", {}, {})
        await asyncio.gather(*(link.connection.send_confirmed(frame) for _ in range(2)))
        await ear.next("twice")
        await ear.next("twice")


async def test_a_round_trip_never_waits_for_a_delayed_acknowledgement(bus: OvosBus) -> None:
    """The stall of Nagle's algorithm with delayed ACK is 40 ms."""
    async with linked(bus.url) as link:
        taken_s = []
        for n in range(200):
            began = time.perf_counter()
            await link.connection.send_confirmed(encode("ping", {"n": n}, {}))
            taken_s.append(time.perf_counter() - began)
        taken_s.sort()
        assert taken_s[100] < 0.005, "the median is one round trip"
        assert taken_s[180] < 0.035, "nothing regular is in the way of the rest"


async def test_it_comes_back_when_the_bus_does(own_bus: OvosBus) -> None:
    async with linked(own_bus.url) as link:
        for _ in range(2):
            own_bus.kill()
            async with asyncio.timeout(5):
                await link.down.wait()
            with pytest.raises(NotConnected):
                await link.connection.send("{}")
            await asyncio.to_thread(own_bus.start)
            async with asyncio.timeout(2):
                await link.up.wait()
            await link.connection.send_confirmed(encode("back", {}, {}))
        assert link.history == ["up", "down", "up", "down", "up"]


async def test_a_message_in_a_bus_that_dies_is_not_confirmed(own_bus: OvosBus) -> None:
    async with linked(own_bus.url) as link:
        own_bus.pause()
        sending = asyncio.ensure_future(link.connection.send_confirmed(encode("lost", {}, {})))
        await asyncio.sleep(0)
        own_bus.kill()
        with pytest.raises(NotConnected):
            await sending


async def test_a_bus_that_hangs_is_found_out_and_left(own_bus: OvosBus) -> None:
    async with linked(own_bus.url) as link:
        own_bus.pause()
        with pytest.raises(NotConnected, match="relayed nothing"):
            async with asyncio.timeout(2 * ECHO_TIMEOUT_S + 2):
                await link.connection.send_confirmed(encode("stuck", {}, {}))
        async with asyncio.timeout(2):
            await link.down.wait()
        own_bus.resume()
        async with asyncio.timeout(5):
            await link.up.wait()
        await link.connection.send_confirmed(encode("again", {}, {}))


async def test_both_socket_options_are_set(bus: OvosBus) -> None:
    async with linked(bus.url) as link:
        opened = link.connection._socket
        assert opened is not None
        tcp = opened.get_extra_info("socket")
        assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        await link.connection.send_confirmed(encode("a", {}, {}))
        assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)


@contextlib.asynccontextmanager
async def picky_bus() -> AsyncIterator[str]:
    """A bus that keeps what it dislikes to itself, as the pre-release does in some cases."""

    async def serve(request: web.Request) -> web.WebSocketResponse:
        peer = web.WebSocketResponse()
        await peer.prepare(request)
        async for frame in peer:
            if "disliked" not in frame.data:
                await peer.send_str(frame.data)
        return peer

    app = web.Application()
    app.router.add_get("/core", serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/core"
    finally:
        await runner.cleanup()


async def test_a_message_that_the_bus_keeps_to_itself_does_not_cost_the_connection() -> None:
    async with picky_bus() as url, linked(url) as link:
        with pytest.raises(NotRelayed):
            await link.connection.send_confirmed(encode("disliked", {}, {}))
        await link.connection.send_confirmed(encode("liked", {}, {}))
        assert link.history == ["up"]
