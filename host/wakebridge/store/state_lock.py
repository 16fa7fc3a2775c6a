"""One bridge per state: advisory locks that name their holder, given back when it dies."""

import contextlib
import fcntl
import logging
import os
from pathlib import Path

from wakebridge import holders
from wakebridge.store import private_files
from wakebridge.store.errors import StateLocked, StateUnreadable
from wakebridge.store.routines_json import DIRECTORY

log = logging.getLogger(__name__)


class StateLock:
    """The state directory, held from construction until `release`.

    The lock is on a file in it, which holds the number of the process. Raises `StateLocked`, and
    `StateUnreadable` when there can be no such file.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / "bridge.lock"
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(path, flags, private_files.FILE_MODE)
            os.fchmod(self._descriptor, private_files.FILE_MODE)
        except OSError as error:
            raise StateUnreadable(private_files.sentence(path, error)) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._descriptor, 32).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise StateLocked(_taken(holder, directory)) from None
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let another bridge use the directory."""
        os.close(self._descriptor)


class RoutinesLock:
    """The directory of the routines' state, held from construction until `release`.

    The lock is on the directory itself, so that starting writes nothing into it (R31). One that
    cannot be opened or locked is nobody's: why, the store says when it loads. Raises `StateLocked`.
    """

    def __init__(self, config_dir: Path) -> None:
        self._descriptor: int | None = None
        try:
            with private_files.directory(config_dir, DIRECTORY, create=True) as folder:
                descriptor = os.dup(folder)
        except OSError:
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pids = holders.locking(os.fstat(descriptor))
            os.close(descriptor)
            raise StateLocked(_taken(", ".join(map(str, sorted(pids))), config_dir)) from None
        except OSError as error:
            log.warning("%s cannot be locked: %s", config_dir / DIRECTORY, error.strerror)
        self._descriptor = descriptor

    def release(self) -> None:
        """Let another bridge use the directory."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)


def _taken(holder: str, directory: Path) -> str:
    return f"another bridge, process {holder or 'unknown'}, uses {directory}: stop it first"
