"""The serial port as the host sees it: a pseudo-terminal behind a stable by-id link."""

import asyncio
import fcntl
import os
import termios
import tty
from collections.abc import Callable
from pathlib import Path

from wakebridge.simboard import limits
from wakebridge.simboard.inotify import OpenWatch


class HostPort:
    """Plugged or not; carries bytes to and from whoever has the port open.

    Like a USB serial device it drops what the board writes while nobody has it open, holds it back
    for a moment when the host does not read, and forgets TIOCEXCL with the last close. The desk
    keeps no descriptor of the host's side, so that whoever holds the port is really a host.
    `on_input` gets what the host writes; `on_flow` is called with False when board output must
    pause and with True when it may flow again.
    """

    def __init__(
        self, link: Path, on_input: Callable[[bytes], None], on_flow: Callable[[bool], None]
    ) -> None:
        self.link = link
        self._on_input = on_input
        self._on_flow = on_flow
        self._loop = asyncio.get_running_loop()
        self._master = -1
        self._device = Path()
        self._watch: OpenWatch | None = None
        self._pending = bytearray()
        self._stall: asyncio.TimerHandle | None = None
        self._wants_input = True
        self._reading = False

    @property
    def plugged(self) -> bool:
        """Whether the port exists."""
        return self._master >= 0

    @property
    def host_count(self) -> int:
        """Return how many times some host process has the port open."""
        self._opens_changed()
        return self._watch.open_count if self._watch else 0

    def plug(self) -> None:
        """Make a new port appear behind the link; does nothing when there is one."""
        if self.plugged:
            return
        self._master, slave = os.openpty()
        tty.setraw(slave)
        self._device = Path(os.ttyname(slave))
        os.close(slave)
        os.set_blocking(self._master, False)
        self._watch = OpenWatch(self._device)
        self._loop.add_reader(self._watch.fileno(), self._opens_changed)
        self.link.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.link.with_name(self.link.name + ".new")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(self._device)
        fresh.replace(self.link)

    def unplug(self) -> None:
        """Take the port away; an open host gets end of file or EIO, as from a pulled cable."""
        self.link.unlink(missing_ok=True)
        self._discard()

    def _discard(self) -> None:
        if self._watch is None:
            return
        self._drop_pending()
        self._loop.remove_reader(self._watch.fileno())
        self._watch.close()
        self._watch = None
        self._watch_input()
        os.close(self._master)
        self._master = -1

    def read_input(self) -> None:
        """Take input from the host (again)."""
        self._wants_input = True
        self._watch_input()

    def pause_input(self) -> None:
        """Leave further input in the host's own buffer until `read_input`."""
        self._wants_input = False
        self._watch_input()

    def _watch_input(self) -> None:
        """Wait for input while a host is there; without one the terminal only reports that."""
        reading = self._wants_input and self._watch is not None and self._watch.open_count > 0
        if reading and not self._reading:
            self._loop.add_reader(self._master, self._read)
        elif self._reading and not reading:
            self._loop.remove_reader(self._master)
        self._reading = reading

    def write(self, data: bytes) -> None:
        """Send board output to the host; without one it is lost."""
        if not self.host_count:
            return
        if not self._pending:
            data = data[self._write_some(data) :]
        if not data:
            return
        self._pending += data
        if self._stall is None:
            self._loop.add_writer(self._master, self._flush)
            self._stall = self._loop.call_later(limits.TO_HOST_STALL_S, self._drop_pending)
        if len(self._pending) >= limits.TO_HOST_PENDING_BYTES:
            self._on_flow(False)

    def _write_some(self, data: bytes | bytearray) -> int:
        try:
            return os.write(self._master, data)
        except BlockingIOError:
            return 0

    def _flush(self) -> None:
        written = self._write_some(self._pending)
        del self._pending[:written]
        if not self._pending:
            self._drop_pending()
        elif written and self._stall is not None:
            self._stall.cancel()
            self._stall = self._loop.call_later(limits.TO_HOST_STALL_S, self._drop_pending)

    def _drop_pending(self) -> None:
        """Forget what waits for the host, and let the board write again."""
        self._pending.clear()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
            self._loop.remove_writer(self._master)
            self._on_flow(True)

    def _read(self) -> None:
        try:
            data = os.read(self._master, limits.READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # the last host has left; the watch is about to tell
            self._opens_changed()
            return
        self._on_input(data)

    def _opens_changed(self) -> None:
        if self._watch is None:
            return
        last_host_left = self._watch.update()
        if last_host_left:
            self._drop_pending()
            self._make_fresh(self._watch)
        self._watch_input()

    def _make_fresh(self, watch: OpenWatch) -> None:
        """Do what the last close of a real port does and that of a pseudo-terminal does not."""
        try:
            slave = os.open(self._device, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError:  # left with TIOCEXCL, which binds us too unless we are root
            self._discard()
            self.plug()
            return
        fcntl.ioctl(slave, termios.TIOCNXCL)
        if watch.open_count == 0:
            termios.tcflush(slave, termios.TCIFLUSH)
        os.close(slave)
        watch.update()  # our own open and close
