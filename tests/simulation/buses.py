"""A message bus as the service sees it, with outages of every kind, and its subscribers."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Final, Protocol

from wakebridge.bus import BusMessage, BusUnavailable

from .kernel import MS, NS, Agenda

# How long the client of a broker waits for an acknowledgement that does not come.
_ACK_WAIT_S: Final = 5.0


class Listener(Protocol):
    """Who checks what goes over the buses."""

    def emission_begins(self, bus: str, message: BusMessage) -> None: ...
    def delivered(self, bus: str, message: BusMessage, *, acknowledged: bool) -> None: ...
    def undelivered(self, bus: str, message: BusMessage) -> None: ...


class SimBus:
    """One bus. It outlives hosts; `host_gone` is what a client's death does to it."""

    def __init__(self, name: str, agenda: Agenda, seed: str, listener: Listener) -> None:
        self.name = name
        self._agenda = agenda
        self._random = random.Random(seed)
        self._listener = listener
        self.down_until_ns = 0
        self.slow_until_ns = 0
        self.acks_to_lose = 0
        self.failed: Callable[[], None] = lambda: None
        """Told when a message could not be handed over: the client reconnects."""
        self.faults = {"bus outage": 0, "lost acknowledgement": 0, "slow bus": 0}
        self._under_way: BusMessage | None = None
        self._given_up: asyncio.Event | None = None

    @property
    def up(self) -> bool:
        return self._agenda.now_ns >= self.down_until_ns

    async def emit(self, message: BusMessage) -> None:
        """Implement `wakebridge.bus.Bus.emit`."""
        self._listener.emission_begins(self.name, message)
        self._under_way = message
        delay_ns = self._random.randrange(MS // 5, 3 * MS)
        if self._agenda.now_ns < self.slow_until_ns:
            self.faults["slow bus"] += 1
            delay_ns += self._random.randrange(NS // 2)
        try:
            await asyncio.sleep(delay_ns / NS)
        except asyncio.CancelledError:
            self.client_gone()
            raise
        if not self.up:
            self._under_way = None
            self._listener.undelivered(self.name, message)
            if self._random.random() < 0.5:
                await self._wait(self._random.random() * _ACK_WAIT_S)
            self.failed()
            raise BusUnavailable("not connected")
        self._under_way = None
        if self.acks_to_lose:
            self.acks_to_lose -= 1
            self.faults["lost acknowledgement"] += 1
            self._listener.delivered(self.name, message, acknowledged=False)
            await self._wait(_ACK_WAIT_S)
            self.failed()
            raise BusUnavailable("no acknowledgement")
        self._listener.delivered(self.name, message, acknowledged=True)

    async def _wait(self, delay_s: float) -> None:
        """Wait for an acknowledgement that does not come, until the connection is given up."""
        self._given_up = asyncio.Event()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._given_up.wait()

    def give_up(self) -> None:
        """Let whoever waits for an acknowledgement know that the connection is gone."""
        if self._given_up is not None:
            self._given_up.set()

    def client_gone(self) -> None:
        """The client died with a message under way: it arrived, or it did not."""
        message, self._under_way = self._under_way, None
        if message is not None and self.up and self._random.random() < 0.5:
            self._listener.delivered(self.name, message, acknowledged=False)
        elif message is not None:
            self._listener.undelivered(self.name, message)
