"""Which port is the board's, and who else has it open."""

import contextlib
import glob
import os
import stat
from pathlib import Path
from typing import Final

from wakebridge.board.errors import PortAmbiguous, PortMissing

BY_ID_GLOB: Final = "/dev/serial/by-id/*"

# Characters of a command line that suffice to recognise who holds the port.
_COMMAND_MAX: Final = 80


def find_port(named: str | None, pattern: str = BY_ID_GLOB) -> str:
    """Return the path to open: the named one, else the only one that matches `pattern`.

    Raises `PortMissing` or, listing the candidates, `PortAmbiguous`.
    """
    if named is not None:
        if not Path(named).exists():
            raise PortMissing(f"there is no serial port {named}")
        return named
    candidates = sorted(glob.glob(pattern))  # noqa: PTH207 - the pattern may be absolute
    if not candidates:
        raise PortMissing(f"no serial port matches {pattern}")
    if len(candidates) > 1:
        raise PortAmbiguous(
            "several serial ports could be the board; name one of: " + ", ".join(candidates)
        )
    return candidates[0]


def holders_of(path: str) -> list[str]:
    """Return who has the port open, as `command (pid n)`, as far as this user may see it.

    When some of them have locked it, those alone: they are why it cannot be opened.
    """
    try:
        status = Path(path).stat()
    except OSError:
        return []
    found = {
        int(process.name): words
        for process in Path("/proc").iterdir()
        if process.name.isdigit()
        and int(process.name) != os.getpid()
        and _has(process, status.st_rdev)
        and (words := _command(process)) is not None
    }
    locking = found.keys() & _locking(status)
    return [f"{words} (pid {pid})" for pid, words in found.items() if not locking or pid in locking]


def _command(process: Path) -> str | None:
    try:
        words = (process / "cmdline").read_bytes().replace(b"\0", b" ").split()
    except OSError:
        return None
    return b" ".join(words).decode(errors="replace")[:_COMMAND_MAX] or "?"


def _locking(status: os.stat_result) -> set[int]:
    """Return the processes that hold a lock on a file (proc_locks(5))."""
    major, minor = os.major(status.st_dev), os.minor(status.st_dev)
    name = f"{major:02x}:{minor:02x}:{status.st_ino}"
    try:
        lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    except OSError:
        return set()
    # A process that waits for a lock has "->" in the second place.
    return {int(words[4]) for words in lines if words[1] != "->" and words[5] == name}


def _has(process: Path, device: int) -> bool:
    try:
        for link in (process / "fd").iterdir():
            # Only what is open as a terminal: stat of anything else may block or lie.
            with contextlib.suppress(OSError):
                status = link.stat()
                if stat.S_ISCHR(status.st_mode) and status.st_rdev == device:
                    return True
    except OSError:
        return False
    return False
