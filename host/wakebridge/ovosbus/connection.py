"""One websocket to the OVOS bus that comes back when the bus does.

Latency: the bus leaves Nagle's algorithm on, so each of its small frames waits until the previous
one is acknowledged, 40 ms with a delayed acknowledgement. TCP_QUICKACK on our end prevents that; it
is not sticky and is set again after each receive. aiohttp sets TCP_NODELAY for the way out.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable
from typing import Final

import aiohttp

_log = logging.getLogger(__name__)

RECONNECT_FIRST_S: Final = 0.1
"""Wait before the first attempt to reconnect; doubled for each further one."""
RECONNECT_MAX_S: Final = 1.0
"""Longest wait between attempts: how late a fire can be after a restart of the bus (E31)."""
OPEN_TIMEOUT_S: Final = 5.0
"""Longest wait for the handshake: a local bus takes milliseconds, a hung one takes for ever."""
ECHO_TIMEOUT_S: Final = 1.0
"""Longest wait for a frame, then for a probe, to come back: 0.1 ms when the bus is healthy."""
HEARTBEAT_S: Final = 20.0
"""Interval of websocket pings, which find a peer that vanished without closing."""
RECEIVED_MAX_BYTES: Final = 64 * 1024 * 1024
"""A frame beyond this ends the connection. Well above what the bus accepts in its default."""


_PROBE: Final = '{"type":"wakebridge.probe","data":{},"context":{}}'


class NotConnected(ConnectionError):  # noqa: N818 - the state of the bus, not a fault of the caller
    """The frame did not reach the bus, or the bus did not show that it relayed it."""


class NotRelayed(Exception):  # noqa: N818 - the nature of the message, not a fault of the caller
    """The bus is alive but keeps this message to itself, as it does with one it finds malformed."""


class Connection:
    """Keeps one websocket to `url` open while `run` runs.

    `on_frame` gets every text frame in order and must not block; `on_up` and `on_down` alternate,
    beginning with `on_up`. `verify_tls` False accepts the self-signed certificate that the bus
    makes for itself. `trouble` says why the bus could not be reached the last time.
    """

    def __init__(
        self,
        url: str,
        on_frame: Callable[[str], None],
        *,
        on_up: Callable[[], None] = lambda: None,
        on_down: Callable[[], None] = lambda: None,
        verify_tls: bool = True,
    ) -> None:
        self.url = url
        self.trouble = ""
        self._on_frame = on_frame
        self._on_up = on_up
        self._on_down = on_down
        self._verify_tls = verify_tls
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._up = asyncio.Event()
        self._dropping: asyncio.Future[bool] | None = None
        self._sending = asyncio.Lock()
        self._awaited: dict[str, list[asyncio.Future[bool]]] = {}

    async def wait_up(self) -> None:
        """Return when frames can be sent."""
        await self._up.wait()

    async def run(self) -> None:
        """Connect, serve, and connect again until cancelled."""
        delay_s = RECONNECT_FIRST_S
        async with aiohttp.ClientSession() as session:
            while True:
                try:
                    opened = await self._open(session)
                except (aiohttp.ClientError, TimeoutError, OSError) as error:
                    level = logging.DEBUG if self.trouble else logging.WARNING
                    self.trouble = str(error) or type(error).__name__
                    _log.log(level, "cannot reach the OVOS bus at %s: %s", self.url, self.trouble)
                else:
                    self.trouble = ""
                    if await self._serve(opened):
                        delay_s = RECONNECT_FIRST_S
                await asyncio.sleep(delay_s)
                delay_s = min(delay_s * 2, RECONNECT_MAX_S)

    async def _open(self, session: aiohttp.ClientSession) -> aiohttp.ClientWebSocketResponse:
        async with asyncio.timeout(OPEN_TIMEOUT_S):
            return await session.ws_connect(
                self.url,
                heartbeat=HEARTBEAT_S,
                max_msg_size=RECEIVED_MAX_BYTES,
                ssl=self._verify_tls,
                # The bus answers a close at once or is already dead.
                timeout=aiohttp.ClientWSTimeout(ws_close=0.5),
            )

    async def _serve(self, opened: aiohttp.ClientWebSocketResponse) -> bool:
        """Serve until the connection ends; returns whether it ever carried a frame."""
        _log.info("connected to the OVOS bus at %s", self.url)
        self._socket = opened
        self._up.set()
        self._on_up()
        try:
            return await self._receive(opened)
        finally:
            self._socket = None
            self._up.clear()
            self._give_up_waiting()
            self._on_down()
            _log.info("disconnected from the OVOS bus at %s", self.url)
            # The bus may be gone in the middle of the closing handshake.
            with contextlib.suppress(ConnectionError, aiohttp.ClientError):
                await (self._dropping or opened.close())
            self._dropping = None

    async def _receive(self, opened: aiohttp.ClientWebSocketResponse) -> bool:
        tcp = opened.get_extra_info("socket")
        _acknowledge_quickly(tcp)
        received = False
        while True:
            frame = await opened.receive()
            _acknowledge_quickly(tcp)
            if frame.type is aiohttp.WSMsgType.TEXT:
                received = True
                self._confirm(frame.data)
                self._hand_over(frame.data)
            elif frame.type is not aiohttp.WSMsgType.BINARY:
                return received  # closed, closing or broken; aiohttp answers pings itself

    def _hand_over(self, text: str) -> None:
        try:
            self._on_frame(text)
        except Exception:
            # Anybody can say anything on this bus; it must not cost the connection.
            _log.exception("a message of the OVOS bus could not be handled")

    def _confirm(self, text: str) -> None:
        waiters = self._awaited.get(text)
        if waiters is None:
            return
        echo = waiters.pop(0)
        if not waiters:
            del self._awaited[text]
        echo.set_result(True)

    async def send(self, text: str) -> None:
        """Write a frame after those sent before it. Raises `NotConnected`."""
        async with self._sending:
            opened = self._socket
            if opened is None or opened.closed:
                raise NotConnected(f"the OVOS bus at {self.url} is not connected")
            try:
                await opened.send_str(text)
            except (ConnectionError, aiohttp.ClientError) as error:
                raise NotConnected(str(error)) from error

    async def send_confirmed(self, text: str) -> None:
        """Write a frame and return when the bus has relayed it.

        The bus hands each frame to every connection, its sender's included: the frame coming back
        is the only sign that a message has left the bus's process, and a bus that hangs or dies
        keeps it. Raises `NotConnected` when that sign does not come, and drops the connection; the
        message may have been relayed even so. `on_up` is called after that when the bus is back.
        Raises `NotRelayed` when the bus relays other messages but not this one.
        """
        async with self._echo_of(text) as echo:
            await self.send(text)
            if await self._came_back(echo):
                return
            async with self._echo_of(_PROBE) as probe:
                await self.send(_PROBE)
                alive = await self._came_back(probe)
            if echo.done():
                return
        if alive:
            raise NotRelayed(f"the OVOS bus at {self.url} does not relay this message")
        self._drop()
        raise NotConnected(f"the OVOS bus at {self.url} relayed nothing in {ECHO_TIMEOUT_S:g} s")

    @contextlib.asynccontextmanager
    async def _echo_of(self, text: str) -> AsyncIterator[asyncio.Future[bool]]:
        """Watch for the return of a frame that is about to be sent."""
        echo: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        waiters = self._awaited.setdefault(text, [])
        waiters.append(echo)
        try:
            yield echo
        finally:
            if echo in waiters:
                waiters.remove(echo)
                if not waiters:
                    del self._awaited[text]

    async def _came_back(self, echo: asyncio.Future[bool]) -> bool:
        await asyncio.wait((echo,), timeout=ECHO_TIMEOUT_S)
        if echo.done() and not echo.result():
            raise NotConnected(f"the OVOS bus at {self.url} went away")
        return echo.done()

    def _give_up_waiting(self) -> None:
        while self._awaited:
            _, waiters = self._awaited.popitem()
            while waiters:
                waiters.pop().set_result(False)

    def _drop(self) -> None:
        """End the connection. Not awaited: the sender hears of it before it can come back."""
        opened, self._socket = self._socket, None
        self._up.clear()
        if opened is not None:
            self._dropping = asyncio.ensure_future(opened.close())


def _acknowledge_quickly(tcp: socket.socket | None) -> None:
    # The socket is gone once the transport is closed.
    if tcp is not None:
        with contextlib.suppress(OSError):
            tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
