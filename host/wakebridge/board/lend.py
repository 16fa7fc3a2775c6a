"""Lending the open port to a technician over RFC 2217, on loopback and for a bounded time.

`mpremote connect rfc2217://localhost:PORT ...` then works although the bridge keeps the port. There
is one client at a time. The port comes back when the client leaves or the limit passes; what was
changed on it is restored.
"""

import asyncio
import contextlib
import enum
import errno
import logging
from typing import Any, Final, cast

import msgspec
from serial import rfc2217

from wakebridge.board.errors import LinkError, LinkLost
from wakebridge.board.serial_port import SerialPort

_LOG: Final = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"

# A technician's next command comes within this time, or they have left. Commands of one shell line
# follow each other in well under a second.
LINGER_S: Final = 3.0

# Bytes on their way to the technician; beyond it the board is not read, so nothing grows.
_TO_CLIENT_MAX: Final = 65_536

# Bytes taken from the technician before the board has taken them: a packet of mpremote.
_FROM_CLIENT_SIZE: Final = 1_024

# RFC 2217's longest subnegotiation is a handful of bytes. More is no technician.
_SUBNEGOTIATION_MAX: Final = 64

_CTRL_C: Final = 3


class LendEnd(enum.Enum):
    """Why the lending ended."""

    LEFT = "the technician left"
    LIMIT = "the time limit passed"
    UNUSED = "nobody came"
    TAKEN_BACK = "the bridge took the port back"
    PORT_LOST = "the port was lost"


class LendReport(msgspec.Struct, frozen=True):
    """What happened to the port while it was lent.

    `broke_in` says that the technician sent Ctrl-C, which stops the firmware.
    """

    end: LendEnd
    sessions: int
    to_board_bytes: int
    from_board_bytes: int
    broke_in: bool


class _LentLine:
    """The port as the technician's RFC 2217 sees it: what would break the lending is refused.

    Modem lines that a pseudo-terminal does not have read as they do on a cable without handshake.
    """

    def __init__(self, port: SerialPort) -> None:
        self._port = port
        self._line = port.line
        self.xonxoff = False
        self.rtscts = False
        self.break_condition = False

    @property
    def baudrate(self) -> int:
        return self._line.baudrate

    @baudrate.setter
    def baudrate(self, baudrate: int) -> None:
        self._port.set_baudrate(baudrate)

    # The frame format is the board's: asking for another one is answered with this one.

    @property
    def bytesize(self) -> int:
        return self._line.bytesize

    @bytesize.setter
    def bytesize(self, _bits: int) -> None:
        pass

    @property
    def parity(self) -> str:
        return self._line.parity

    @parity.setter
    def parity(self, _parity: str) -> None:
        pass

    @property
    def stopbits(self) -> float:
        return self._line.stopbits

    @stopbits.setter
    def stopbits(self, _bits: float) -> None:
        pass

    def _set_line(self, name: str, value: bool) -> None:
        try:
            setattr(self._line, name, value)
        except OSError as error:
            if error.errno not in (errno.ENOTTY, errno.EINVAL):
                raise

    def _get_line(self, name: str, missing: bool) -> bool:
        try:
            return bool(getattr(self._line, name))
        except OSError:
            return missing

    dtr = property(None, lambda self, value: self._set_line("dtr", value))
    rts = property(None, lambda self, value: self._set_line("rts", value))
    cts = property(lambda self: self._get_line("cts", True))
    dsr = property(lambda self: self._get_line("dsr", True))
    cd = property(lambda self: self._get_line("cd", True))
    ri = property(lambda self: self._get_line("ri", False))

    def reset_input_buffer(self) -> None:
        self._line.reset_input_buffer()

    def reset_output_buffer(self) -> None:
        self._line.reset_output_buffer()


class _Session:
    """One technician: telnet and RFC 2217 on one side, the open port on the other."""

    def __init__(self, port: SerialPort, writer: asyncio.StreamWriter) -> None:
        self._port = port
        self._writer = writer
        self._draining: asyncio.Task[None] | None = None
        # The stubs ask for two serial ports; it needs their attributes, and write().
        self._manager = rfc2217.PortManager(cast(Any, _LentLine(port)), cast(Any, writer))
        self.to_board_bytes = 0
        self.broke_in = False

    def from_board(self, data: bytes) -> None:
        """Pass bytes on, and leave further ones in the kernel while too many are on their way."""
        self._writer.write(b"".join(self._manager.escape(data)))
        if self._writer.transport.get_write_buffer_size() > _TO_CLIENT_MAX and not self._draining:
            self._port.pause_reading()
            self._draining = asyncio.create_task(self._drain())

    async def _drain(self) -> None:
        with contextlib.suppress(OSError):
            await self._writer.drain()
        self._draining = None
        self._port.resume_reading()

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Pass the technician's bytes on until they leave. Raises `LinkLost`."""
        while data := await reader.read(_FROM_CLIENT_SIZE):
            try:
                keys = b"".join(self._manager.filter(data))
            except OSError as error:
                raise LinkLost(f"{self._port.path}: {error}") from error
            except Exception as error:
                _LOG.warning("the technician's client speaks no RFC 2217: %r", error)
                return
            if len(self._manager.suboption or b"") > _SUBNEGOTIATION_MAX:
                _LOG.warning("the technician's client speaks no RFC 2217")
                return
            self.to_board_bytes += len(keys)
            self.broke_in = self.broke_in or _CTRL_C in keys
            if keys:
                self._port.write(keys)
                await self._port.drained()

    def end(self) -> None:
        if self._draining is not None:
            self._draining.cancel()
        self._port.resume_reading()


class Lender:
    """Lends one open port. `run` returns when it is back."""

    def __init__(self, port: SerialPort) -> None:
        self._port = port
        self._session: _Session | None = None
        self._serving: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._end: LendEnd | None = None
        self._sessions = 0
        self._to_board = 0
        self._from_board = 0
        self._broke_in = False
        self._server: asyncio.Server | None = None

    async def listen(self, tcp_port: int = 0) -> int:
        """Open the door on loopback; return its number. Raises `LinkError` when it is taken."""
        try:
            self._server = await asyncio.start_server(self._arrive, LOOPBACK, tcp_port)
        except OSError as error:
            raise LinkError(f"port {tcp_port} of {LOOPBACK} cannot be used: {error}") from error
        number: int = self._server.sockets[0].getsockname()[1]
        return number

    async def run(self, limit_s: float) -> LendReport:
        """Lend until the technician leaves, `limit_s` pass, or `take_back`; then report."""
        self._port.attach(self._from_port, self._port_lost, limited=False)
        try:
            async with asyncio.timeout(limit_s):
                await self._until_left()
        except TimeoutError:
            self._finish(LendEnd.LIMIT if self._sessions else LendEnd.UNUSED)
        finally:
            await self._shut()
        return LendReport(
            self._end or LendEnd.LEFT,
            self._sessions,
            self._to_board,
            self._from_board,
            self._broke_in,
        )

    def take_back(self) -> None:
        """End the lending now."""
        self._finish(LendEnd.TAKEN_BACK)

    async def _until_left(self) -> None:
        while self._end is None:
            self._changed.clear()
            waiting_for_next = self._sessions > 0 and self._session is None
            try:
                async with asyncio.timeout(LINGER_S if waiting_for_next else None):
                    await self._changed.wait()
            except TimeoutError:
                self._finish(LendEnd.LEFT)

    async def _arrive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._session is not None or self._end is not None:
            writer.close()  # one technician at a time
            return
        self._session = _Session(self._port, writer)
        self._serving = asyncio.current_task()
        self._sessions += 1
        self._changed.set()
        try:
            await self._session.serve(reader)
        except LinkLost:
            self._finish(LendEnd.PORT_LOST)
        except (OSError, asyncio.CancelledError):
            pass  # the technician is gone, or the lending is over
        finally:
            self._session.end()
            self._to_board += self._session.to_board_bytes
            self._broke_in = self._broke_in or self._session.broke_in
            self._session = self._serving = None
            writer.close()
            self._changed.set()

    def _from_port(self, data: bytes) -> None:
        self._from_board += len(data)
        if self._session is not None:
            self._session.from_board(data)

    def _port_lost(self, _reason: str) -> None:
        self._finish(LendEnd.PORT_LOST)

    def _finish(self, end: LendEnd) -> None:
        self._end = self._end or end
        self._changed.set()

    async def _shut(self) -> None:
        if self._server is not None:
            self._server.close()
        if self._serving is not None:
            serving = self._serving
            serving.cancel()
            await asyncio.wait((serving,))
        self._port.restore()
