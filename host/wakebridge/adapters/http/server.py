"""Listening: a TCP port, and when configured a Unix socket with mode 0600."""

import contextlib
import logging
import os
import socket
from pathlib import Path
from typing import Final

from aiohttp import web

from wakebridge.adapters.http.app import make_app
from wakebridge.adapters.http.config import HttpConfig
from wakebridge.adapters.http.ports import Services

log = logging.getLogger(__name__)

# How long a stop waits for requests in progress. They take milliseconds; one that takes longer
# waits for a client or a technician, and those must not hold up a host that shuts down.
SHUTDOWN_LIMIT_S: Final = 2.0


class HttpServer:
    """The HTTP interface of one daemon."""

    def __init__(self, config: HttpConfig, services: Services) -> None:
        self._config = config
        self._runner = web.AppRunner(
            make_app(services, config.read_token()),
            access_log=None,
            handle_signals=False,
            shutdown_timeout=SHUTDOWN_LIMIT_S,
        )
        self.port = config.port
        self._closed = False

    async def start(self) -> None:
        """Listen. Raises OSError, for example when the port is taken."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._config.host, self._config.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        log.info("http: listening on %s port %d", self._config.host, self.port)
        if self._config.unix_socket is not None:
            await web.SockSite(self._runner, _private_socket(self._config.unix_socket)).start()
            log.info("http: listening on %s", self._config.unix_socket)

    async def close(self) -> None:
        """Stop listening, and let requests in progress end, for a limited time.

        Closing again does nothing.
        """
        if self._closed:
            return
        self._closed = True
        await self._runner.cleanup()
        self._remove_socket()

    def _remove_socket(self) -> None:
        if self._config.unix_socket is not None:
            with contextlib.suppress(OSError):
                Path(self._config.unix_socket).unlink()


def _private_socket(path: str) -> socket.socket:
    """Return a socket bound to `path` that only our own user can connect to.

    It is bound under a umask of 0177, so there is no moment at which others could connect.
    """
    with contextlib.suppress(FileNotFoundError):
        if Path(path).is_socket():
            Path(path).unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    before = os.umask(0o177)
    try:
        listener.bind(path)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener
