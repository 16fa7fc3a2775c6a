"""What the service manager is told: that the bridge serves, lives, and stops.

The protocol is sd_notify(3): lines of text in one datagram to the socket that `NOTIFY_SOCKET`
names. Without that variable nothing is said. A manager that does not listen disturbs nothing.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import MutableMapping
from typing import Final, Self

_US_PER_S: Final = 1_000_000

# Of the time that the manager allows: one ping may be late by a whole interval.
_PINGS_PER_LIMIT: Final = 2


class Notifier:
    """The way to the service manager. `address` None: there is none, and nothing is said."""

    def __init__(self, address: str | None, watchdog_s: float | None) -> None:
        self._address = address
        self._watchdog_s = watchdog_s
        self._socket: socket.socket | None = None

    @classmethod
    def of(cls, environment: MutableMapping[str, str]) -> Self:
        """Return the way to the manager that started this process.

        The variables are taken out of `environment`: a program that the bridge starts is another
        process, which has nothing to say in the bridge's name.
        """
        address = environment.pop("NOTIFY_SOCKET", None)
        limit_us = environment.pop("WATCHDOG_USEC", "")
        for_pid = environment.pop("WATCHDOG_PID", "")
        watched = limit_us.isdecimal() and int(limit_us) > 0 and for_pid in ("", str(os.getpid()))
        return cls(address or None, int(limit_us) / _US_PER_S if watched else None)

    def ready(self, status: str) -> None:
        """The bridge serves; `status` is one line for `systemctl status`."""
        self._say(f"READY=1\nSTATUS={status}")

    def stopping(self) -> None:
        """The bridge has begun to stop."""
        self._say("STOPPING=1\nSTATUS=stopping")

    async def run(self) -> None:
        """Say again and again that the event loop turns, until cancelled.

        It is said from the loop, so a loop that hangs is silent, and the manager restarts it.
        """
        if self._address is None or self._watchdog_s is None:
            return
        while True:
            self._say("WATCHDOG=1")
            await asyncio.sleep(self._watchdog_s / _PINGS_PER_LIMIT)

    def close(self) -> None:
        """Give the socket back."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _say(self, text: str) -> None:
        if self._address is None:
            return
        # A leading @ stands for the zero byte of an abstract address.
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        # Never waits: a manager that does not read must not stop the bridge it is to watch.
        with contextlib.suppress(OSError):
            if self._socket is None:
                kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
                self._socket = socket.socket(socket.AF_UNIX, kind)
            self._socket.sendto(text.encode(), address)
