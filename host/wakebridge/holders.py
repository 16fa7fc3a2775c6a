"""Who holds what we want: for the sentence with which a second bridge refuses to start.

Everything comes from /proc, as far as this user may see it, and may be out of date the moment it
is read: good enough to tell a person whom to stop, and for nothing else.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

# Characters of a command line that suffice to recognise who it is.
_COMMAND_MAX: Final = 80

_LISTENING: Final = "0A"  # the state of a socket in /proc/net/tcp


def command_of(pid: int) -> str | None:
    """Return a process as `command (pid n)`, None when it is gone or hidden."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").split()
    except OSError:
        return None
    command = b" ".join(words).decode(errors="replace")[:_COMMAND_MAX] or "?"
    return f"{command} (pid {pid})"


def locking(status: os.stat_result) -> set[int]:
    """Return the processes that hold a lock on a file or directory (proc_locks(5))."""
    major, minor = os.major(status.st_dev), os.minor(status.st_dev)
    name = f"{major:02x}:{minor:02x}:{status.st_ino}"
    # A process that waits for a lock has "->" in the second place.
    return {
        int(words[4])
        for words in _table("/proc/locks")
        if len(words) > 5 and words[1] != "->" and words[5] == name
    }


def listening(port: int) -> set[int]:
    """Return the processes that listen on a TCP port of any address."""
    sockets = {
        f"socket:[{words[9]}]"
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for words in _table(table)
        if len(words) > 9 and words[3] == _LISTENING and words[1].endswith(f":{port:04X}")
    }
    return {pid for pid in processes() if sockets and _has_one_of(pid, sockets)}


def processes() -> list[int]:
    """Return the ids of all other processes."""
    own = os.getpid()
    found = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in found if pid != own]


def _table(path: str) -> list[list[str]]:
    try:
        return [line.split() for line in Path(path).read_text(encoding="ascii").splitlines()]
    except OSError:
        return []


def _has_one_of(pid: int, sockets: set[str]) -> bool:
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # it was closed meanwhile
                if str(descriptor.readlink()) in sockets:
                    return True
    except OSError:
        return False  # it has ended, or is not ours to look into
    return False
