"""Who has a file open: the kernel's inotify, of which the standard library has no binding."""

import ctypes
import os
import struct
from pathlib import Path

_IN_CLOSE_WRITE = 0x08
_IN_CLOSE_NOWRITE = 0x10
_IN_OPEN = 0x20
_EVENT = struct.Struct("iIII")  # wd, mask, cookie, name length (inotify(7))
_READ_BYTES = 4096


class OpenWatch:
    """Counts the opens of one file that happen after its creation.

    `fileno()` becomes readable when `open_count` may have changed; `update()` brings it up to date.
    Raises OSError when the kernel refuses the watch.
    """

    def __init__(self, path: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1 failed")
        mask = _IN_OPEN | _IN_CLOSE_WRITE | _IN_CLOSE_NOWRITE
        if libc.inotify_add_watch(self._fd, os.fsencode(path), mask) < 0:
            error = ctypes.get_errno()
            os.close(self._fd)
            raise OSError(error, f"cannot watch {path}")
        self.open_count = 0

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._fd

    def update(self) -> bool:
        """Take in what happened since the last call; return whether nobody had it open in between.

        That is: whether some close was the last one, even when there was another open since.
        """
        last_close = False
        while True:
            try:
                events = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return last_close
            offset = 0
            while offset < len(events):
                _, mask, _, name_length = _EVENT.unpack_from(events, offset)
                offset += _EVENT.size + name_length
                if mask & _IN_OPEN:
                    self.open_count += 1
                if mask & (_IN_CLOSE_WRITE | _IN_CLOSE_NOWRITE):
                    self.open_count = max(0, self.open_count - 1)
                    last_close |= self.open_count == 0

    def close(self) -> None:
        """Stop watching."""
        os.close(self._fd)
