"""Keeps a link to the board: finds it, greets it, notices when it is gone, and comes back.

Whoever uses the board is told `on_up` with a client that is good until the `on_down` that follows.
Nothing here decides what to ask the board.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

from wakebridge.board.client import BoardClient, Port
from wakebridge.board.errors import (
    FirmwareStopped,
    LinkError,
    LinkLost,
    PortAmbiguous,
    PortBusy,
    PortUnavailable,
    VersionMismatch,
)
from wakebridge.board.handshake import greet
from wakebridge.board.lending import FirmwareAfter, LendDesk, Lending
from wakebridge.board.watch import LinkWatch, Trouble
from wakebridge.clock import Clock
from wakebridge.wake.board_rate import BoardRate
from wakewire.messages import Event, Hello

_LOG: Final = logging.getLogger(__name__)

# Pauses between attempts (case A11: at most 20 in 10 s, back within 3 s).
_PAUSE_FIRST_S: Final = 0.25
_PAUSE_MAX_S: Final = 1.0

# A link that ends sooner is greeted again after a pause as well: a board that says at once that it
# has restarted, again and again, would be greeted some hundred times a second.
_STEADY_S: Final = 1.0

# A stopped firmware or the wrong version is for a person to mend, who needs the port meanwhile.
_PAUSE_FOR_A_PERSON_S: Final = 10.0

# How often a prompt that a living firmware printed is looked into.
_PROMPT_PAUSE_S: Final = 10.0


class Supervisor:
    """Runs the link for as long as `run` runs.

    `opener` finds and opens the port and raises `PortUnavailable`; `serial_port.SerialOpener` is
    the real one. The callbacks are plain functions and must not raise: `on_up(client, hello)`,
    `on_down(reason)` once for each `on_up`, `on_hint(event)` only in between, and
    `on_console(text)` at any time. Every `on_up` brings a new client, also when the board restarted
    or fell silent on the same port.
    """

    def __init__(
        self,
        opener: Callable[[], Awaitable[Port]],
        clock: Clock,
        *,
        on_up: Callable[[BoardClient, Hello], None],
        on_down: Callable[[str], None],
        on_hint: Callable[[Event], None],
        on_console: Callable[[str], None],
        first_id: Callable[[], int] = lambda: secrets.randbelow(0x10000),
    ) -> None:
        self._opener = opener
        self._clock = clock
        self._on_up = on_up
        self._on_down = on_down
        self._on_hint = on_hint
        self._on_console = on_console
        self._first_id = first_id
        self._claimed: Port | None = None
        self._watch: LinkWatch | None = None
        self._pause_s = _PAUSE_FIRST_S
        self._lend_desk = LendDesk()
        self._lend_wanted = asyncio.Event()
        self._broken_into = False
        self._lasted = True
        self.rate = BoardRate()
        """The board's rate, learned over all links to one boot of it."""
        self.client: BoardClient | None = None
        """The client between `on_up` and `on_down`."""
        self.problem = "the board was not looked for yet"
        """Why there is no link, as a sentence; empty while there is one."""
        self.open_attempts = 0

    async def claim(self) -> None:
        """Try once to open the port, for `run` to use.

        Raises `PortBusy` and `PortAmbiguous`, which do not mend themselves; a board that is not
        there yet is none of them.
        """
        try:
            self._claimed = await self._open()
        except (PortBusy, PortAmbiguous):
            raise
        except PortUnavailable as error:
            self._describe(str(error))

    async def lend(self, limit_s: float, tcp_port: int = 0) -> Lending:
        """Lend the port over RFC 2217 on loopback for at most `limit_s`.

        Returns when a technician can connect; `tcp_port` 0 picks a free one. The link is down
        meanwhile. Raises `LinkError` when the port is lent already or there is none.
        """
        if not self._lend_desk.busy:
            self._lend_wanted.set()
            if self._watch is not None:
                self._watch.notice(Trouble.TAKEN, "the port is lent to a technician")
        return await self._lend_desk.request(limit_s, tcp_port)

    def reconnect(self, reason: str) -> None:
        """Give up the link that is up and greet the board anew, because the caller distrusts it."""
        if self._watch is not None:
            self._watch.notice(Trouble.SILENT, reason)

    async def run(self) -> None:
        """Keep the link until cancelled; then the port is free."""
        try:
            while True:
                pause_s = await self._attempt()
                self._lend_wanted.clear()
                await self._pause(pause_s)
        finally:
            if self._claimed is not None:
                self._claimed.close()
            self._lend_desk.close()

    async def _attempt(self) -> float:
        """Open, serve until it ends; return how long to wait before the next attempt."""
        try:
            port = self._claimed or await self._open()
            self._claimed = None
            try:
                await self._serve(port)
            finally:
                port.close()
        except (FirmwareStopped, VersionMismatch) as error:
            self._failed(str(error))
            return _PAUSE_FOR_A_PERSON_S
        except PortUnavailable as error:
            self._lend_desk.refuse(str(error))
            self._failed(str(error))
        except LinkError as error:
            self._failed(str(error))
        return self._next_pause_s()

    def _next_pause_s(self) -> float:
        pause_s = self._pause_s
        self._pause_s = min(2 * pause_s, _PAUSE_MAX_S)
        return pause_s

    async def _pause(self, pause_s: float) -> None:
        """Wait, but not for somebody who wants the port."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._lend_wanted.wait()

    async def _open(self) -> Port:
        self.open_attempts += 1
        return await self._opener()

    async def _serve(self, port: Port) -> None:
        """Greet and watch, again and again on one open port, until it is lost."""
        while True:
            if self._lend_desk.wanted:
                self._lend_wanted.clear()
                self._describe("the port is lent to a technician")
                self._broken_into |= await self._lend_desk.serve(port)
            watch = self._watch = LinkWatch(self._hinted, self._on_console)
            client = BoardClient(port, self._clock, self.rate, watch, self._first_id())
            reason = "the board could not be greeted"
            try:
                greeting = await greet(client, watch, broken_into=self._broken_into)
                self._broken_into = False
                self._lend_desk.settle(
                    FirmwareAfter.RESTARTED if greeting.restarted else FirmwareAfter.RUNNING
                )
                watch.settle()
                reason = await self._up(client, watch, greeting.reading.value)
            finally:
                self._watch = None
                lost = client.closed
                client.detach(reason)
            if lost:
                raise LinkLost(reason)
            if not self._lasted:
                await self._pause(self._next_pause_s())

    async def _up(self, client: BoardClient, watch: LinkWatch, hello: Hello) -> str:
        """Tell that the link is up, wait for what ends it, tell that it is down."""
        self._describe("")
        self.client = client
        reason = "the bridge stopped"
        loop = asyncio.get_running_loop()
        steady_s = loop.time() + _STEADY_S
        self._on_up(client, hello)
        try:
            reason = await self._until_trouble(client, watch)
            return reason
        finally:
            self._lasted = loop.time() >= steady_s
            if self._lasted:
                self._pause_s = _PAUSE_FIRST_S
            self.client = None
            self._describe(reason)
            self._on_down(reason)

    async def _until_trouble(self, client: BoardClient, watch: LinkWatch) -> str:
        while True:
            trouble, reason = await watch.next()
            if trouble is not Trouble.PROMPT or not await self._is_alive(client, watch):
                return reason
            asyncio.get_running_loop().call_later(_PROMPT_PAUSE_S, client.forget_prompt)

    async def _is_alive(self, client: BoardClient, watch: LinkWatch) -> bool:
        """Ask a board that printed a prompt; a program that runs can print one as well."""
        ping = asyncio.ensure_future(client.ping())
        echo = asyncio.ensure_future(watch.echo.wait())
        try:
            await asyncio.wait((ping, echo), return_when=asyncio.FIRST_COMPLETED)
            if ping.done():
                await ping
            return ping.done()
        except LinkError:
            return False
        finally:
            ping.cancel()
            echo.cancel()

    def _hinted(self, event: Event) -> None:
        """Pass a hint on while the link is up; whoever is told `on_up` reads the log anyway."""
        if self.client is not None:
            self._on_hint(event)

    def _failed(self, reason: str) -> None:
        self._lend_desk.settle(FirmwareAfter.SILENT)
        self._describe(reason)

    def _describe(self, problem: str) -> None:
        if problem != self.problem:
            if problem:
                _LOG.warning("no link to the board: %s", problem)
            else:
                _LOG.info("the link to the board is up")
        self.problem = problem
