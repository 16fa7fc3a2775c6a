"""The serial port: opened for this process alone, never blocking the event loop.

The port is always configured by pyserial; asyncio watches its file descriptor. It is never opened
at 1200 baud, which sends many boards into their bootloader, and DTR and RTS stay asserted.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import termios
from collections.abc import Callable
from typing import Final

import serial

from wakebridge.board.errors import LinkLost, PortBusy, PortMissing, PortUnavailable
from wakebridge.board.port_search import BY_ID_GLOB, find_port, holders_of

BAUDRATE: Final = 115_200
_BOOTLOADER_BAUDRATE: Final = 1_200

_READ_SIZE: Final = 4_096

# A board that sends more than this is possessed: it is read no further until the window is over.
# 40 kB/s is more than three times what 115 200 baud carry, and leaves the process its time.
_READ_WINDOW_S: Final = 0.1
_READ_WINDOW_BYTES: Final = 4_096

# Bytes that wait for the port to take them. Stop-and-wait needs one frame; this is more than a
# dozen, so a port that lets it fill does not take bytes any more.
BACKLOG_MAX: Final = 4_096

# The kernel's majors of pseudo-terminals (Documentation/admin-guide/devices.txt).
_PTY_MAJORS: Final = range(136, 144)

# Errors of read and write that mean "the device is gone" need no list: every OSError does. These
# two are the ones that mean "not now".
_NOT_NOW: Final = (errno.EAGAIN, errno.EINTR)


class SerialPort:
    """An open port. Give it back with `close`.

    `attach` says who gets the bytes and who is told, once, when the port is lost. Everything but
    `open` belongs to the event loop's thread.
    """

    def __init__(self, line: serial.Serial, path: str) -> None:
        self.path = path
        self.line = line
        self._baudrate = line.baudrate
        self._fd = line.fileno()
        self._loop = asyncio.get_running_loop()
        self._on_data: Callable[[bytes], None] | None = None
        self._on_lost: Callable[[str], None] | None = None
        self._reading = False
        self._paused = False
        self._limited = True
        self._read_window_ends_s = 0.0
        self._read_in_window = 0
        self._throttle: asyncio.TimerHandle | None = None
        self._backlog = bytearray()
        self._drained = asyncio.Event()
        self._drained.set()
        self._lost: str | None = None

    def attach(
        self,
        on_data: Callable[[bytes], None],
        on_lost: Callable[[str], None],
        *,
        limited: bool = True,
    ) -> None:
        """Start reading; earlier callbacks get nothing any more.

        `limited` reads no faster than a board with something to say would send.
        """
        self._on_data, self._on_lost = on_data, on_lost
        self._limited, self._paused = limited, False
        if self._lost is not None:
            self._loop.call_soon(on_lost, self._lost)
        self._watch()

    def pause_reading(self) -> None:
        """Leave bytes in the kernel, which makes a USB device wait."""
        self._paused = True
        self._watch()

    def resume_reading(self) -> None:
        """Read again after `pause_reading`."""
        self._paused = False
        self._watch()

    def _watch(self) -> None:
        """Let the loop watch for bytes exactly when they are wanted."""
        wanted = self._lost is None and not self._paused and self._throttle is None
        if wanted and not self._reading:
            self._loop.add_reader(self._fd, self._read)
        elif self._reading and not wanted:
            self._loop.remove_reader(self._fd)
        self._reading = wanted

    def _read(self) -> None:
        try:
            data = os.read(self._fd, _READ_SIZE)
        except OSError as error:
            if error.errno not in _NOT_NOW:
                self._lose(error.strerror or str(error))
            return
        if not data:  # VMIN is 1: an empty read is a hang-up
            self._lose("it hung up")
            return
        if self._limited:
            self._limit_rate(len(data))
        if self._on_data is not None:
            self._on_data(data)

    def _limit_rate(self, size: int) -> None:
        now_s = self._loop.time()
        if now_s >= self._read_window_ends_s:
            self._read_window_ends_s = now_s + _READ_WINDOW_S
            self._read_in_window = 0
        self._read_in_window += size
        if self._read_in_window >= _READ_WINDOW_BYTES and self._throttle is None:
            self._throttle = self._loop.call_at(self._read_window_ends_s, self._unthrottle)
            self._watch()

    def _unthrottle(self) -> None:
        self._throttle = None
        self._watch()

    def write(self, data: bytes) -> None:
        """Write without waiting; what the port does not take yet waits in a bounded backlog.

        Raises `LinkLost` when the port is gone or has not taken anything for too long.
        """
        if self._lost is not None:
            raise LinkLost(self._lost)
        if not self._backlog:
            data = data[self._write_some(data) :]
        if not data:
            return
        if len(self._backlog) + len(data) > BACKLOG_MAX:
            raise LinkLost(self._lose("it does not take any bytes"))
        if not self._backlog:
            self._loop.add_writer(self._fd, self._flush)
            self._drained.clear()
        self._backlog += data

    def _write_some(self, data: bytes | bytearray) -> int:
        try:
            return os.write(self._fd, data)
        except OSError as error:
            if error.errno in _NOT_NOW:
                return 0
            raise LinkLost(self._lose(error.strerror or str(error))) from error

    def _flush(self) -> None:
        with contextlib.suppress(LinkLost):  # told through on_lost
            del self._backlog[: self._write_some(self._backlog)]
        if not self._backlog:
            self._loop.remove_writer(self._fd)
            self._drained.set()

    @property
    def backlog(self) -> int:
        """How many bytes the port has not taken yet."""
        return len(self._backlog)

    async def drained(self) -> None:
        """Return when nothing waits to be written. Raises `LinkLost`."""
        await self._drained.wait()
        if self._lost is not None:
            raise LinkLost(self._lost)

    def set_baudrate(self, baudrate: int) -> None:
        """Change the speed. Raises ValueError for one the port lacks, and for 1200 baud."""
        if baudrate == _BOOTLOADER_BAUDRATE:
            raise ValueError("1200 baud would send the board into its bootloader")
        if baudrate != self.line.baudrate:
            self.line.baudrate = baudrate
            _block_for_one_byte(self._fd)

    def restore(self) -> None:
        """Bring speed and modem lines back to what they were when the port was opened."""
        with contextlib.suppress(OSError, termios.error, ValueError):
            self.set_baudrate(self._baudrate)
            self.line.dtr = self.line.rts = True

    def _lose(self, why: str) -> str:
        """Give the port up, tell so once, and return the sentence."""
        if self._lost is None:
            self._lost = f"{self.path} is lost: {why}"
            self._stop()
            if self._on_lost is not None:
                self._on_lost(self._lost)
        return self._lost

    def _stop(self) -> None:
        if self._throttle is not None:
            self._throttle.cancel()
            self._throttle = None
        self._watch()
        self._loop.remove_writer(self._fd)
        self._backlog.clear()
        self._drained.set()

    def close(self) -> None:
        """Give the port back; nothing is told any more."""
        self._on_data = self._on_lost = None
        if self._lost is None:
            self._lost = f"{self.path} was closed"
        self._stop()
        if self.line.is_open:
            with contextlib.suppress(OSError, termios.error):
                # What the board never took must not make close() wait for it.
                termios.tcflush(self._fd, termios.TCIOFLUSH)
                fcntl.ioctl(self._fd, termios.TIOCNXCL)
            self.line.close()


def _block_for_one_byte(fd: int) -> None:
    """Make an empty read mean a hang-up: pyserial lets it also mean that there is no byte yet."""
    attributes = termios.tcgetattr(fd)
    attributes[6][termios.VMIN] = 1
    termios.tcsetattr(fd, termios.TCSANOW, attributes)


def _is_pseudo_terminal(fd: int) -> bool:
    """Whether TIOCEXCL must be left alone, because it would outlive a process that is killed.

    A device forgets it with the last close; a pseudo-terminal keeps it as long as its other end is
    open, and would let nobody in again but root.
    """
    return os.major(os.fstat(fd).st_rdev) in _PTY_MAJORS


def _open_line(path: str, baudrate: int) -> serial.Serial:
    if baudrate == _BOOTLOADER_BAUDRATE:
        raise PortUnavailable("1200 baud would send the board into its bootloader")
    try:
        line = serial.Serial(path, baudrate, timeout=0, exclusive=True)
    except serial.SerialException as error:
        raise _explain(path, error) from error
    try:
        if not _is_pseudo_terminal(line.fileno()):
            fcntl.ioctl(line.fileno(), termios.TIOCEXCL)
        _block_for_one_byte(line.fileno())
    except (OSError, termios.error) as error:
        line.close()
        raise PortUnavailable(f"{path} cannot be set up: {error}") from error
    return line


def _explain(path: str, error: serial.SerialException) -> PortUnavailable:
    if error.errno in (errno.EBUSY, errno.EAGAIN):
        holders = holders_of(path)
        by_whom = ", ".join(holders) if holders else "a process that this user may not see"
        return PortBusy(f"{path} is held by {by_whom}")
    if error.errno == errno.EACCES:
        return PortUnavailable(f"{path} may not be opened by this user")
    if error.errno in (errno.ENOENT, errno.ENXIO, errno.ENODEV, errno.EIO):
        return PortMissing(f"there is no serial port {path}")
    return PortUnavailable(f"{path} cannot be opened: {error}")


class SerialOpener:
    """Finds and opens the board's port each time it is called.

    The name is looked up anew every time: behind a by-id link the device changes when it is
    plugged in again (case A11).
    """

    def __init__(
        self, named: str | None, *, pattern: str = BY_ID_GLOB, baudrate: int = BAUDRATE
    ) -> None:
        self._named = named
        self._pattern = pattern
        self._baudrate = baudrate

    async def __call__(self) -> SerialPort:
        """Return the open port. Raises `PortUnavailable`."""
        return await open_port(find_port(self._named, self._pattern), self._baudrate)


async def open_port(path: str, baudrate: int = BAUDRATE) -> SerialPort:
    """Open the port for this process alone: a lock that others heed, and TIOCEXCL on devices.

    Opening can take seconds when a driver is in trouble, so it happens in a thread. Raises
    `PortUnavailable`; when another process holds the port, `PortBusy` with its name.
    """
    opening = asyncio.ensure_future(asyncio.to_thread(_open_line, path, baudrate))
    try:
        line = await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_unwanted)
        raise
    return SerialPort(line, path)


def _close_unwanted(opening: "asyncio.Future[serial.Serial]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
