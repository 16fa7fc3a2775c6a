"""A service manager for tests: the socket that a service says to how it is (sd_notify(3))."""

import asyncio
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class Notice:
    """One datagram: its assignments, who sent it, and when on the monotonic clock."""

    fields: dict[str, str]
    pid: int
    at_s: float


class NotifySocket:
    """Listens while entered. `environment` is what the service is started with."""

    def __init__(self, path: Path, watchdog_s: float | None = None) -> None:
        self.environment = {"NOTIFY_SOCKET": str(path)}
        if watchdog_s is not None:
            self.environment["WATCHDOG_USEC"] = str(round(watchdog_s * 1_000_000))
        self.notices: list[Notice] = []
        self._news = asyncio.Event()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        # The kernel says who sent it; that is how a manager ignores a service's children.
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(str(path))

    def __enter__(self) -> Self:
        asyncio.get_running_loop().add_reader(self._socket, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

    def _read(self) -> None:
        data, ancillary, _, _ = self._socket.recvmsg(4096, socket.CMSG_SPACE(12))
        pid = int.from_bytes(ancillary[0][2][:4], "little")
        lines = (line.partition("=") for line in data.decode().splitlines())
        fields = {name: value for name, _, value in lines}
        self.notices.append(Notice(fields, pid, time.monotonic()))
        self._news.set()

    def having(self, name: str) -> list[Notice]:
        """Return what was said under a name so far."""
        return [notice for notice in self.notices if name in notice.fields]

    async def until(self, true: Callable[[], bool], timeout_s: float = 20.0) -> None:
        """Return once `true` is, looking at each notice."""
        async with asyncio.timeout(timeout_s):
            while not true():
                self._news.clear()
                await self._news.wait()
