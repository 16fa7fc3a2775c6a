"""Listening: a TCP port, and when configured a Unix socket with mode 0600."""

import asyncio
import contextlib
import errno
import logging
import os
import socket
from pathlib import Path
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from wakebridge import holders
from wakebridge.adapters.http.app import make_app
from wakebridge.adapters.http.config import HttpConfig
from wakebridge.adapters.http.gate import BACKLOG, WAITING_MAX, Gate
from wakebridge.adapters.http.ports import Services

log = logging.getLogger(__name__)

# How long a stop waits for requests in progress. They take milliseconds; one that takes longer
# waits for a client or a technician, and those must not hold up a host that shuts down.
SHUTDOWN_LIMIT_S: Final = 2.0

# How long a connection may be there without a whole request. Longer than a person thinks between
# two commands is of no use, and everyone who connects and says nothing costs a descriptor.
IDLE_LIMIT_S: Final = 75.0

# How long the rest of a body that was refused is read and dropped: closed at once, the connection
# would be reset before the client has seen why.
LINGER_LIMIT_S: Final = 1.0


class _BadRequests(logging.Filter):
    """Keeps what is no HTTP from filling the log with tracebacks; the client is told with a 400."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let everything else through."""
        return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def _logger() -> logging.Logger:
    logger = logging.getLogger(f"{__name__}.protocol")
    if not logger.filters:
        logger.addFilter(_BadRequests())
    return logger


class HttpServer:
    """The HTTP interface of one daemon."""

    def __init__(self, config: HttpConfig, services: Services) -> None:
        self._config = config
        self._gate = Gate(
            {
                "access_log": None,
                "keepalive_timeout": IDLE_LIMIT_S,
                "lingering_time": LINGER_LIMIT_S,
                "logger": _logger(),
            }
        )
        app = make_app(services, config.read_token())
        app.middlewares.append(self._gate.middleware)
        self._runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=SHUTDOWN_LIMIT_S)
        self._listening: list[asyncio.Server] = []
        self.port = config.port
        self._closed = False
        self._owns_socket = False

    async def start(self) -> None:
        """Listen. Raises OSError with a sentence for a person, such as that the port is taken."""
        await self._runner.setup()
        if self._runner.server is None:
            raise RuntimeError("setup makes the server")
        self._gate.serve(self._runner.server)
        loop = asyncio.get_running_loop()
        host, port = self._config.host, self._config.port
        try:
            listening = await loop.create_server(self._gate, host, port, backlog=BACKLOG)
        except OSError as error:
            raise OSError(_why_not(host, port, error)) from error
        _widen(listening)
        self._listening.append(listening)
        self.port = listening.sockets[0].getsockname()[1]
        log.info("http: listening on %s port %d", host, self.port)
        if self._config.unix_socket is not None:
            listener = _private_socket(self._config.unix_socket)
            self._owns_socket = True
            listening = await loop.create_unix_server(self._gate, sock=listener, backlog=BACKLOG)
            _widen(listening)
            self._listening.append(listening)
            log.info("http: listening on %s", self._config.unix_socket)

    async def close(self) -> None:
        """Stop listening, and let requests in progress end, for a limited time.

        Closing again does nothing.
        """
        if self._closed:
            return
        self._closed = True
        for listening in self._listening:
            listening.close()
        await self._runner.cleanup()
        self._gate.close()
        self._remove_socket()

    def _remove_socket(self) -> None:
        if self._config.unix_socket is not None and self._owns_socket:
            with contextlib.suppress(OSError):
                Path(self._config.unix_socket).unlink()


def _why_not(host: str, port: int, error: OSError) -> str:
    """Return why we cannot listen, as a sentence."""
    place = f"http: {host} port {port}"
    if error.errno == errno.EADDRINUSE:
        by_whom = [each for pid in holders.listening(port) if (each := holders.command_of(pid))]
        return f"{place} is taken by {', '.join(by_whom) or 'a process of another user'}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{place}: this machine has no such address"
    if isinstance(error, socket.gaierror):
        return f"{place}: no address is known for this name"
    if error.errno == errno.EACCES:
        return f"{place}: ports below 1024 are not for this user"
    return f"{place}: {error.strerror or error}"


def _widen(listening: asyncio.Server) -> None:
    """Have the kernel keep more clients waiting than asyncio takes in at one turn of its loop."""
    for each in listening.sockets:
        with each.dup() as same:
            same.listen(WAITING_MAX)


def _private_socket(path: str) -> socket.socket:
    """Return a socket bound to `path` that only our own user can connect to.

    It is bound under a umask of 0177, so there is no moment at which others could connect. Raises
    OSError with a sentence, also when somebody listens there.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        _remove_stale(path)
        before = os.umask(0o177)
        try:
            listener.bind(path)
        finally:
            os.umask(before)
    except OSError as error:
        listener.close()
        raise OSError(f"http: {path} cannot be made: {error.strerror or error}") from error
    return listener


def _remove_stale(path: str) -> None:
    """Remove the socket that a killed bridge has left, but not one that is listened to."""
    if not Path(path).is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as trial:
        try:
            trial.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink()
            return
    raise OSError("another program listens on it")
