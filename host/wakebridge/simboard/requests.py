"""What the program on the desk board asks of its hardware, through a FIFO: resets."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from wakebridge.simboard import limits


class BoardRequests:
    """Listens on the FIFO at `path` and hands over each line."""

    def __init__(self, path: Path, on_request: Callable[[bytes], None]) -> None:
        self._path = path
        self._on_request = on_request
        path.unlink(missing_ok=True)
        os.mkfifo(path, 0o600)
        # Both directions, so that a board that goes away is no end of file.
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def _read(self) -> None:
        for line in os.read(self._fd, limits.READ_BYTES).splitlines():
            self._on_request(line)

    def close(self) -> None:
        """Stop listening and remove the FIFO."""
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)
        self._path.unlink(missing_ok=True)
