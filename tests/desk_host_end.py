"""The host's end of a serial port in tests."""

import asyncio
import os
from pathlib import Path


def device_behind(port: str) -> Path | None:
    """Return the device that a stable link names, None while there is no link."""
    return Path(port).resolve() if Path(port).is_symlink() else None


class HostEnd:
    """The host's end of a serial port, read as bytes come."""

    def __init__(self, port: str) -> None:
        self._fd = os.open(port, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        self._seen = bytearray()
        self._more = asyncio.Event()
        self.error: OSError | None = None
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 4096)
        except BlockingIOError:
            return
        except OSError as error:
            self.error = error
            data = b""
        if not data:
            self.error = self.error or OSError("end of file")
            asyncio.get_running_loop().remove_reader(self._fd)
        self._seen += data
        self._more.set()

    def fileno(self) -> int:
        return self._fd

    def write(self, data: bytes) -> None:
        os.write(self._fd, data)

    async def until(self, text: bytes, timeout_s: float = 5) -> bytes:
        """Return everything up to and including `text`."""
        async with asyncio.timeout(timeout_s):
            while text not in self._seen:
                self._more.clear()
                await self._more.wait()
        end = self._seen.index(text) + len(text)
        taken = bytes(self._seen[:end])
        del self._seen[:end]
        return taken

    async def until_error(self, timeout_s: float = 5) -> OSError:
        async with asyncio.timeout(timeout_s):
            while self.error is None:
                self._more.clear()
                await self._more.wait()
        return self.error

    def close(self) -> None:
        if self._fd < 0:
            return
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)
        self._fd = -1
