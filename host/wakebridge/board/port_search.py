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
    """Return who has the port open, as `command (pid n)`, as far as this user may see it."""
    try:
        device = Path(path).stat().st_rdev
    except OSError:
        return []
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid() and _has(process, device):
            try:
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").split()
            except OSError:
                continue
            command = b" ".join(words).decode(errors="replace")[:_COMMAND_MAX] or "?"
            found.append(f"{command} (pid {process.name})")
    return found


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
