"""One desk board per directory: a lock that tells who holds it."""

import fcntl
import os
from pathlib import Path

from wakebridge.simboard.errors import DirectoryHeldError


class DirectoryLock:
    """Holds `path` from `acquire` to `release`; the kernel lets go of it when the process dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def acquire(self) -> None:
        """Take the lock; DirectoryHeldError when another process has it."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(fd, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(fd)
            raise DirectoryHeldError(
                f"{self._path.parent} is in use by another desk board, process {holder}"
            ) from None
        os.ftruncate(fd, 0)
        os.write(fd, f"{os.getpid()}\n".encode("ascii"))
        self._fd = fd

    def release(self) -> None:
        """Give the lock back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
