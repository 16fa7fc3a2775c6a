"""Who is connected: a bounded number of clients, none of whom takes for ever to ask.

Whoever connects and says nothing, or says it one byte at a time, costs a descriptor and a buffer.
Beyond the bound the longest connected of those who have asked nothing yet has to leave, and a
client that asks at once is served whatever the others do.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web

# Clients at once: a host has a handful of agents and people. Each may hold some 300 kB, a body and
# buffers, and a descriptor of the 1024 that a process usually gets. Several times `BACKLOG`, so
# that who comes in with a crowd is not pushed out before its request has been looked at.
CLIENTS_MAX: Final = 256

# Connections that are taken in at one turn of the loop.
BACKLOG: Final = 64

# Those that the kernel keeps until then. One that it has no room for tries again only a second
# later, so a crowd would hold up everybody else.
WAITING_MAX: Final = 1024

# How long the head of a first request may take to arrive: a client on this host needs milliseconds.
HEAD_LIMIT_S: Final = 10.0

# How often it is looked for clients that take longer, while there are any.
_LOOK_EVERY_S: Final = 1.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Client(web.RequestHandler):
    """One connection, which tells the gate when it comes and goes."""

    __slots__ = ("_gate",)

    def __init__(self, gate: "Gate", server: web.Server, options: dict[str, Any]) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self._gate = gate

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._gate.came(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._gate.left(self)


class Gate:
    """Makes the protocols of a listening socket. `options` are those of aiohttp's handlers.

    `middleware` goes last into the application, so that a client that is refused earlier, because
    it has no token for instance, counts as one that has not asked.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._server: web.Server | None = None
        self._since_s: dict[_Client, float] = {}
        self._asked: set[object] = set()
        self._looking: asyncio.TimerHandle | None = None

        @web.middleware
        async def note_request(request: web.Request, handler: Handler) -> web.StreamResponse:
            self._asked.add(request.protocol)
            return await handler(request)

        self.middleware = note_request

    def serve(self, server: web.Server) -> None:
        """Name the server that the clients' requests go to; before the first client."""
        self._server = server

    def __call__(self) -> web.RequestHandler:
        """Return the protocol of one connection."""
        if self._server is None:
            raise RuntimeError("serve comes first")
        return _Client(self, self._server, self._options)

    def came(self, client: _Client) -> None:
        """Let a client in, and another one out when there are too many."""
        loop = asyncio.get_running_loop()
        self._since_s[client] = loop.time()
        if len(self._since_s) > CLIENTS_MAX:
            silent = (each for each in self._since_s if each not in self._asked)
            longest = next(silent, None)
            if longest is None or longest is client:
                longest = next(iter(self._since_s))
            self._show_out(longest)
        if self._looking is None:
            self._looking = loop.call_later(_LOOK_EVERY_S, self._look)

    def left(self, client: _Client) -> None:
        """Forget a client."""
        self._since_s.pop(client, None)
        self._asked.discard(client)

    def close(self) -> None:
        """Look after nobody any more."""
        if self._looking is not None:
            self._looking.cancel()

    def _show_out(self, client: _Client) -> None:
        self.left(client)
        client.force_close()

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        late_s = loop.time() - HEAD_LIMIT_S
        for client, since_s in tuple(self._since_s.items()):
            if since_s <= late_s and client not in self._asked:
                self._show_out(client)
        self._looking = loop.call_later(_LOOK_EVERY_S, self._look) if self._since_s else None
