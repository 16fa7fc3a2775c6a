"""Asking the supervisor for the port, and hearing what became of it and of the firmware."""

import asyncio
import enum
from typing import Final

import msgspec

from wakebridge.board.client import Port
from wakebridge.board.errors import LinkError, LinkLost
from wakebridge.board.lend import LOOPBACK, LendEnd, Lender, LendReport
from wakebridge.board.serial_port import SerialPort

# Longer than the longest attempt to greet a silent board, after which the port can be lent.
_WAIT_S: Final = 20.0


class FirmwareAfter(enum.Enum):
    """What became of the firmware after the port was lent."""

    RUNNING = "the firmware runs"
    RESTARTED = "the firmware had been stopped and was restarted"
    SILENT = "the board does not answer"


class LendOutcome(msgspec.Struct, frozen=True):
    """What happened while the port was lent, and what the bridge found afterwards."""

    report: LendReport
    firmware: FirmwareAfter


class Lending:
    """A port that is lent. `url` is for the technician's `mpremote connect`."""

    def __init__(self, tcp_port: int, lender: Lender) -> None:
        self.tcp_port = tcp_port
        self.url = f"rfc2217://{LOOPBACK}:{tcp_port}"
        self._lender = lender
        self._outcome: asyncio.Future[LendOutcome] = asyncio.get_running_loop().create_future()

    def take_back(self) -> None:
        """End the lending now."""
        self._lender.take_back()

    async def outcome(self) -> LendOutcome:
        """Return when the port is back and the board was greeted again, or did not answer.

        Raises `LinkError` when the bridge stopped first.
        """
        return await asyncio.shield(self._outcome)

    def settle(self, result: LendOutcome | LinkError) -> None:
        """End the wait of `outcome`."""
        if isinstance(result, LinkError):
            self._outcome.set_exception(result)
            self._outcome.exception()  # nobody has to ask for it
        else:
            self._outcome.set_result(result)


class _Request(msgspec.Struct):
    limit_s: float
    tcp_port: int
    started: asyncio.Future[Lending]


class LendDesk:
    """Takes one request at a time and carries it out when the supervisor has the port free."""

    def __init__(self) -> None:
        self._request: _Request | None = None
        self._lending: Lending | None = None
        self._report: LendReport | None = None

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for the port."""
        return self._request is not None

    @property
    def busy(self) -> bool:
        """Whether the port is lent, or about to be, or not greeted again yet."""
        return self._request is not None or self._lending is not None

    async def request(self, limit_s: float, tcp_port: int) -> Lending:
        """Wait until the port is lent. Raises `LinkError` when it cannot be."""
        if self.busy:
            raise LinkError("the port is lent already")
        started: asyncio.Future[Lending] = asyncio.get_running_loop().create_future()
        self._request = _Request(limit_s, tcp_port, started)
        try:
            async with asyncio.timeout(_WAIT_S):
                return await started
        except TimeoutError as error:
            raise LinkError("there is no port to lend") from error
        finally:
            self._request = None

    def refuse(self, reason: str) -> None:
        """Tell whoever waits for the port that there is none."""
        if self._request is not None and not self._request.started.done():
            self._request.started.set_exception(LinkError(f"there is no port to lend: {reason}"))

    async def serve(self, port: Port) -> bool:
        """Lend the port as requested; return whether Ctrl-C went to the board.

        Raises `LinkLost` when the port does not survive it.
        """
        request = self._request
        if request is None or request.started.done():
            return False
        if not isinstance(port, SerialPort):
            request.started.set_exception(LinkError("this port cannot be lent"))
            return False
        lender = Lender(port)
        try:
            tcp_port = await lender.listen(request.tcp_port)
        except LinkError as error:
            request.started.set_exception(error)
            return False
        self._lending = Lending(tcp_port, lender)
        request.started.set_result(self._lending)
        self._request = None
        self._report = await lender.run(request.limit_s)
        if self._report.end is LendEnd.PORT_LOST:
            raise LinkLost(self._report.end.value)
        return self._report.broke_in

    def settle(self, firmware: FirmwareAfter) -> None:
        """Report what was found after the port came back, if it was lent."""
        if self._lending is not None and self._report is not None:
            self._lending.settle(LendOutcome(self._report, firmware))
            self._lending = self._report = None

    def close(self) -> None:
        """End a lending whose outcome nobody will see any more."""
        if self._lending is not None:
            self._lending.settle(LinkError("the bridge stopped"))
            self._lending = None
