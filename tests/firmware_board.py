"""The pure half of the real firmware under CPython: bytes and the time in, bytes out.

`PtyBoard` puts it behind a pseudo-terminal, as a port that can be cut off, muted and replaced.
"""

import asyncio
import contextlib
import importlib
import os
import sys
import tty
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wakewire import framing, messages

sys.path.append(str(Path(__file__).parents[1] / "firmware"))
# Untyped on purpose: the firmware is MicroPython's dialect, with checks of its own.
dispatcher: Any = importlib.import_module("wakeboard.dispatcher")

IDENTITY: list[object] = [
    "0.0.0-test",
    "unix",
    "a board in a test",
    b"\x01\x02\x03\x04",
    b"",  # the boot id goes here
    1,
    [192, 604_800_000, 32],
    1,
    [],
]


class FirmwareBoard:
    """One boot of a board. Times are ms since some moment before it."""

    def __init__(self, boot_id: bytes = b"bootboot", now_ms: int = 0) -> None:
        identity = list(IDENTITY)
        identity[4] = boot_id
        self.dispatcher = dispatcher.Dispatcher(boot_id, identity, now_ms)
        self.decoder = framing.Decoder()
        self.asked: list[int] = []
        """The operations that were asked for, in their order."""

    def receive(self, data: bytes, now_ms: int) -> bytes:
        """Take bytes, one at a time as a board does; return what it sends."""
        sent = self.tick(now_ms)
        for byte in data:
            payload = self.decoder.push(byte)
            if payload is not None:
                request = messages.parse(bytes(payload))
                if isinstance(request, messages.Request):
                    self.asked.append(request.op)
                answer = self.dispatcher.answer(payload)
                if answer is not None:
                    sent += framing.encode(answer)
        return sent

    def tick(self, now_ms: int) -> bytes:
        """Let time pass; return the event that is pushed when the countdown runs out."""
        if self.dispatcher.advance(now_ms):
            return framing.encode(self.dispatcher.latest_event())
        return b""


class PtyBoard:
    """A firmware board behind a fresh pseudo-terminal, with a stable name as by-id links are.

    `answering` turned off makes it silent; `reply` replaces the firmware by a function of all
    bytes received so far. `skew_ms` is added to the board's clock.
    """

    def __init__(self, link: Path, board: FirmwareBoard | None = None) -> None:
        self.board = board or FirmwareBoard()
        self.link = link
        self.answering = True
        self.reply: Callable[[bytes], bytes] | None = None
        self.skew_ms = 0
        self.received = bytearray()
        self.arrived = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        self.device = os.ttyname(self._slave)
        link.unlink(missing_ok=True)
        link.symlink_to(self.device)
        self._loop.add_reader(self._master, self._read)
        self._ticker: asyncio.TimerHandle | None = None
        self._tick()

    def _now_ms(self) -> int:
        return (round(self._loop.time() * 1000) + self.skew_ms) % 2**30

    def _tick(self) -> None:
        self.send(self.board.tick(self._now_ms()))
        self._ticker = self._loop.call_later(0.01, self._tick)

    def _read(self) -> None:
        try:
            data = os.read(self._master, 4096)
        except OSError:
            return
        self.received += data
        self.arrived.set()
        if self.reply is not None:
            self.send(self.reply(bytes(self.received)))
        elif self.answering:
            self.send(self.board.receive(data, self._now_ms()))

    def send(self, data: bytes) -> None:
        with contextlib.suppress(BlockingIOError):
            if data:
                os.write(self._master, data)

    def vanish(self) -> None:
        """Unplug: the host's end sees an error, the link points nowhere."""
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
            self._loop.remove_reader(self._master)
            os.close(self._master)
            os.close(self._slave)
            self.link.unlink(missing_ok=True)
