"""Which port is the board's, and who else has it open."""

import contextlib
import glob
import os
import stat
from pathlib import Path
from typing import Final

from wakebridge import holders
from wakebridge.board.errors import PortAmbiguous, PortMissing

BY_ID_GLOB: Final = "/dev/serial/by-id/*"


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

    When somebody has locked it, those alone: they are why it cannot be opened. Locks of other users
    are seen by everybody, what they have open is not.
    """
    try:
        status = Path(path).stat()
    except OSError:
        return []
    pids = holders.locking(status) - {os.getpid()}
    if not pids:
        pids = {pid for pid in holders.processes() if _has(pid, status.st_rdev)}
    return [each for pid in sorted(pids) if (each := holders.command_of(pid)) is not None]


def _has(pid: int, device: int) -> bool:
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            # Only what is open as a terminal: stat of anything else may block or lie.
            with contextlib.suppress(OSError):
                status = link.stat()
                if stat.S_ISCHR(status.st_mode) and status.st_rdev == device:
                    return True
    except OSError:
        return False
    return False
