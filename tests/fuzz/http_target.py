"""The HTTP interface of a whole bridge, on a socket: any bytes, and any body for each operation."""

import asyncio
import contextlib
import logging
import tempfile
from pathlib import Path
from typing import Final

from firmware_board import PtyBoard
from wakebridge.adapters.http.config import HttpConfig
from wakebridge.adapters.http.routes import OPERATIONS
from wakebridge.adapters.http.server import HttpServer
from wakebridge.config import BoardConfig, Config
from wakebridge.daemon import Bridge, open_bridge

_WAIT_S: Final = 10.0
_ENDLESS: Final = "/api/timeline"
_SLOW: Final = "/api/board/lend"
_OPERATIONS: Final = tuple(each for each in OPERATIONS if each.path not in (_ENDLESS, _SLOW))

# A bridge is left for a fresh one after so many inputs, so that a run does not depend on long
# stories, and disks and lists stay small.
_INPUTS_PER_BRIDGE: Final = 2_000


class _Complaints(logging.Handler):
    """What is logged about a handler that raised."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.heard.append(self.format(record))


_COMPLAINTS: Final = _Complaints()
for _name in ("aiohttp.server", "wakebridge.adapters.http", "asyncio"):
    logging.getLogger(_name).addHandler(_COMPLAINTS)
    logging.getLogger(_name).propagate = False


class _Interface:
    """A running bridge with the firmware at a pseudo-terminal, in memory as far as it goes."""

    def __init__(self) -> None:
        self.inputs = 0
        self._runner = asyncio.Runner()
        memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # fsync costs nothing there
        self._directory = tempfile.TemporaryDirectory(dir=memory)
        self._path = str(Path(self._directory.name) / "socket")
        self._stack = contextlib.AsyncExitStack()
        self._runner.run(self._start(Path(self._directory.name)))

    async def _start(self, directory: Path) -> None:
        self._board = PtyBoard(directory / "board")
        config = Config(
            config_dir=str(directory / "config"),
            state_dir=str(directory / "state"),
            board=BoardConfig(port=str(directory / "board")),
        )
        bridge: Bridge = await self._stack.enter_async_context(open_bridge(config))
        self._running = [asyncio.ensure_future(each) for each in bridge.core()]
        await bridge.routines.open_session("s")
        server = HttpServer(HttpConfig(port=0, unix_socket=self._path), bridge)
        await server.start()
        self._stack.push_async_callback(server.close)
        async with asyncio.timeout(_WAIT_S):
            while bridge.timer.hello is None:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)

    def exchange(self, sent: bytes, *, whole: bool) -> bytes:
        """Return everything the interface says to these bytes; `whole`: a request that ends."""
        self.inputs += 1
        return self._runner.run(self._exchange(sent, whole))

    async def _exchange(self, sent: bytes, whole: bool) -> bytes:
        reader, writer = await asyncio.open_unix_connection(self._path)
        try:
            writer.write(sent)
            if not whole:
                writer.write_eof()
            async with asyncio.timeout(_WAIT_S):
                return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def close(self) -> None:
        self._runner.run(self._stop())
        self._runner.close()
        self._directory.cleanup()

    async def _stop(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._stack.aclose()
        self._board.vanish()


_interface: list[_Interface] = []


def http(data: bytes) -> None:
    """Whatever is sent, the answer is no 500 and nothing is logged as a fault.

    An input that begins with an odd byte is a body: its second byte chooses the operation, its
    third what the path names. Any other input is sent as it is, without its first byte.
    """
    if _interface and _interface[0].inputs >= _INPUTS_PER_BRIDGE:
        stop()
    if not _interface:
        _interface.append(_Interface())
    whole = len(data) >= 3 and data[0] & 1 == 1
    if not whole and _ENDLESS.encode() in data:
        return
    said = _interface[0].exchange(_request(data) if whole else data[1:], whole=whole)
    assert _COMPLAINTS.heard == [], _COMPLAINTS.heard.pop()
    if whole:
        status = int(said.split(b" ", 2)[1])
        assert status < 500 or status == 503, said
    assert not said.startswith(b"HTTP/1.1 500"), said


def stop() -> None:
    """Leave the bridge that runs, if one does."""
    while _interface:
        _interface.pop().close()


def _request(data: bytes) -> bytes:
    operation = _OPERATIONS[data[1] % len(_OPERATIONS)]
    body = data[3:]
    values = {
        "name": ("schedule", "create_agent_task")[data[2] % 2],
        "verb": ("schedule", "list", "get", "cancel", "other")[data[2] % 5],
        "session_id": ("s", "n", "unknown")[data[2] % 3],
    }
    path = operation.path
    while "{" in path:
        head, _, rest = path.partition("{")
        name, _, tail = rest.partition("}")
        path = head + values.get(name, "x") + tail
    headers = (
        f"{operation.method} {path} HTTP/1.1".encode(),
        b"Host: x",
        b"Connection: close",
        b"Content-Length: %d" % len(body),
        b"X-Session-Id: s",
    )
    return b"\r\n".join(headers) + b"\r\n\r\n" + body
