"""Requests to a desk board over its serial port, for tests of the firmware alone."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from wakewire import framing, messages
from wakewire.readings import Diag, Event, EventBatch, Hello, TimerState
from wakewire.stream import StreamDecoder

ANSWER_S = 3.0


class DeskLink:
    """One open serial port; a context manager. Answers and events are kept as they come."""

    def __init__(self, port: str) -> None:
        self._fd = os.open(port, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        self._decoder = StreamDecoder()
        self._id = 0
        self._more = asyncio.Event()
        self._answers: dict[int, messages.Answer] = {}
        self.events: list[Event] = []
        self.console = b""
        self.answer_s = 0.0
        """How long the last answer took."""
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for payload in self._decoder.feed(os.read(self._fd, 4096)):
                message = messages.parse(payload)
                if isinstance(message, messages.Answer):
                    self._answers[message.id] = message
                elif isinstance(message, Event):
                    self.events.append(message)
        self.console += self._decoder.take_console()
        self._more.set()

    def write(self, data: bytes) -> None:
        """Put bytes on the line, whatever they are."""
        os.write(self._fd, data)

    async def until(self, done: Callable[[], object], timeout_s: float = ANSWER_S) -> None:
        """Wait until something that arrives makes it true."""
        async with asyncio.timeout(timeout_s):
            while not done():
                self._more.clear()
                await self._more.wait()

    async def ask(self, build: Callable[..., bytes], *args: object) -> messages.Answer:
        """Send a request that `build(id, *args)` makes, and return its answer."""
        self._id += 1
        wanted = self._id
        began_s = time.perf_counter()
        self.write(framing.encode(build(wanted, *args)))
        await self.until(lambda: wanted in self._answers)
        self.answer_s = time.perf_counter() - began_s
        return self._answers.pop(wanted)

    async def hello(self) -> Hello:
        """Ask who the board is."""
        return Hello.from_fields((await self.ask(messages.hello)).fields)

    async def timer(self, build: Callable[..., bytes], *args: object) -> TimerState:
        """Send a timer request that is granted."""
        answer = await self.ask(build, *args)
        assert answer.ok, answer
        return TimerState.from_fields(answer.fields)

    async def log(self, boot_id: bytes = bytes(8), after_seq: int = 0) -> EventBatch:
        """Ask for a page of the event log."""
        answer = await self.ask(messages.events_get, boot_id, after_seq)
        return EventBatch.from_fields(answer.fields)

    async def diag(self) -> Diag:
        """Ask for the counters."""
        return Diag.from_fields((await self.ask(messages.diag)).fields)
