"""What can end a link, collected from the client until the supervisor's task looks at it."""

import asyncio
import enum
from collections.abc import Callable

from wakebridge.board.connection import Evidence
from wakewire.messages import Event


class Trouble(enum.IntEnum):
    """What ends a link or puts it in doubt, the gravest first."""

    LOST = 0
    SILENT = 1
    ECHO = 2
    REBOOTED = 3
    TAKEN = 4
    PROMPT = 5


class LinkWatch:
    """The `client.Watcher` of one client. Hints and console text go straight through."""

    def __init__(self, on_hint: Callable[[Event], None], on_console: Callable[[str], None]) -> None:
        self.echo = asyncio.Event()
        """Set when our own frame came back: a prompt is there, not our firmware."""
        self._on_hint = on_hint
        self._on_console = on_console
        self._troubles: dict[Trouble, str] = {}
        self._noticed = asyncio.Event()

    def hinted(self, event: Event) -> None:
        """Pass a pushed event on."""
        self._on_hint(event)

    def printed(self, text: str) -> None:
        """Pass console text on."""
        self._on_console(text)

    def prompted(self, evidence: Evidence) -> None:
        """Note that a prompt seems to be where the firmware should be."""
        if evidence is Evidence.ECHO:
            self.echo.set()
            self.notice(Trouble.ECHO, "the firmware was stopped")
        else:
            self.notice(Trouble.PROMPT, "the firmware was stopped")

    def rebooted(self) -> None:
        """Note that the board has another boot id."""
        self.notice(Trouble.REBOOTED, "the board restarted")

    def silent(self, reason: str) -> None:
        """Note that a request was given up."""
        self.notice(Trouble.SILENT, reason)

    def lost(self, reason: str) -> None:
        """Note that the port is gone."""
        self.notice(Trouble.LOST, reason)

    def notice(self, trouble: Trouble, reason: str) -> None:
        """Note a trouble; the first reason for it stays."""
        self._troubles.setdefault(trouble, reason)
        self._noticed.set()

    def settle(self) -> None:
        """Forget what a successful greeting has settled."""
        for trouble in (Trouble.SILENT, Trouble.ECHO, Trouble.REBOOTED, Trouble.PROMPT):
            self._troubles.pop(trouble, None)
        self.echo.clear()

    async def next(self) -> tuple[Trouble, str]:
        """Wait for trouble; return the gravest and its reason."""
        while not self._troubles:
            self._noticed.clear()
            await self._noticed.wait()
        trouble = min(self._troubles)
        return trouble, self._troubles.pop(trouble)
