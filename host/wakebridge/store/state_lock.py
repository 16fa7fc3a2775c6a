"""One bridge per state directory: an advisory lock that names its holder."""

import fcntl
import os
from pathlib import Path

from wakebridge.store.errors import StateLocked, StateUnreadable


class StateLock:
    """Held from construction until `release`, and given back by the kernel when we die."""

    def __init__(self, directory: Path) -> None:
        path = directory / "bridge.lock"
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise StateUnreadable(f"{path} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._descriptor, 32).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise StateLocked(
                f"another bridge, process {holder or 'unknown'}, uses {directory}: stop it first"
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let another bridge use the directory."""
        os.close(self._descriptor)
