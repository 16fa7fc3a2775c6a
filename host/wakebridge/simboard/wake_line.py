"""The wake line of the desk board: a FIFO that the firmware writes its level changes to."""

import asyncio
import os
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from weakref import WeakSet

from wakebridge.simboard import limits


@dataclass(frozen=True, slots=True)
class WakeLevel:
    """One change of the wake line as the desk saw it: the new level, and when on both clocks."""

    level: int
    wall_ns: int
    boot_ns: int


class WakeLine:
    """Reads the FIFO at `path`, keeps the last changes and hands new ones to every listener."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self._partial = b""
        self._streams: WeakSet[WakeStream] = WeakSet()
        self.history: deque[WakeLevel] = deque(maxlen=limits.WAKE_HISTORY)
        self.pulse_count = 0

    def open(self) -> None:
        """Create the FIFO and start listening; the board never blocks on opening its end."""
        self._path.unlink(missing_ok=True)
        os.mkfifo(self._path, 0o600)
        # Opened for both directions, so that a board that goes away is no end of file.
        self._fd = os.open(self._path, os.O_RDWR | os.O_NONBLOCK)
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def close(self) -> None:
        """Stop listening and remove the FIFO."""
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
            self._path.unlink(missing_ok=True)

    def _read(self) -> None:
        data = self._partial + os.read(self._fd, limits.READ_BYTES)
        *lines, self._partial = data.split(b"\n")
        wall_ns = time.time_ns()
        boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        for line in lines:
            if line in (b"0", b"1"):
                self._publish(WakeLevel(int(line), wall_ns, boot_ns))

    def _publish(self, change: WakeLevel) -> None:
        self.pulse_count += change.level
        self.history.append(change)
        for stream in self._streams:
            stream.put(change)

    def changes(self) -> "WakeStream":
        """Return a stream of every change from this call on."""
        stream = WakeStream()
        self._streams.add(stream)
        return stream


class WakeStream:
    """An endless asynchronous iterator over wake-line changes; forget it to stop."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[WakeLevel] = asyncio.Queue()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WakeLevel:
        return await self._queue.get()

    def put(self, change: WakeLevel) -> None:
        """Hand one change to whoever iterates."""
        self._queue.put_nowait(change)

    async def pulse(self, timeout_s: float) -> WakeLevel:
        """Return the next rise of the line; TimeoutError when none comes within `timeout_s`."""
        async with asyncio.timeout(timeout_s):
            async for change in self:
                if change.level:
                    return change
        raise AssertionError("the stream is endless")
