"""What a bad cable does to bytes. Pure: bytes in, bytes out."""

from typing import Literal

Direction = Literal["to_host", "to_board"]
"""Which half of the line a fault is on."""


class LineFaults:
    """The faults of one direction of the line; none to begin with."""

    def __init__(self) -> None:
        self.muted = False
        self._cut_bytes = 0
        self._garble_bytes = 0

    def cut(self, count: int) -> None:
        """Lose the next `count` bytes."""
        self._cut_bytes += count

    def garble(self, count: int) -> None:
        """Flip one bit in each of the next `count` bytes, bit 0 first, then 1 and so on."""
        self._garble_bytes += count

    def apply(self, data: bytes) -> bytes:
        """Return what arrives of `data`."""
        if self.muted:
            return b""
        if self._cut_bytes:
            lost = min(self._cut_bytes, len(data))
            self._cut_bytes -= lost
            data = data[lost:]
        if self._garble_bytes:
            hit = min(self._garble_bytes, len(data))
            self._garble_bytes -= hit
            data = (
                bytes(byte ^ (1 << index % 8) for index, byte in enumerate(data[:hit])) + data[hit:]
            )
        return data
