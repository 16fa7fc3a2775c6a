"""Frames on a stream that is shared with a console: RFC 1662 asynchronous framing, FCS-32.

A frame is ``7E body 7E``, its body being payload and CRC-32 (little-endian) with every byte
00..1F, 7D, 7E and 7F sent as ``7D`` and the byte XOR 20. So no frame holds a byte that a
MicroPython console acts upon, in either direction.
"""

from binascii import crc32

from wakewire import PAYLOAD_MAX

# The CRC-32 of any bytes followed by their own CRC-32 in little-endian order (RFC 1662, C.3).
_RESIDUE = 0x2144DF1C


def encode(payload: bytes | bytearray | memoryview) -> bytes:
    """Return the frame of a payload, both flags included.

    Raises FrameError when the payload is empty or longer than ``PAYLOAD_MAX``.
    """
    if not 0 < len(payload) <= PAYLOAD_MAX:
        from wakewire.errors import FrameError  # late: a board never comes here

        raise FrameError("length")
    out = bytearray(2 * len(payload) + 10)
    out[0] = 0x7E
    end = 1
    for part in (payload, crc32(payload).to_bytes(4, "little")):
        for byte in part:
            if byte < 0x20 or 0x7D <= byte <= 0x7F:
                out[end] = 0x7D
                out[end + 1] = byte ^ 0x20
                end += 2
            else:
                out[end] = byte
                end += 1
    out[end] = 0x7E
    return bytes(memoryview(out)[: end + 1])


class Decoder:
    """Finds frames in a stream of bytes; a board's side, ``stream.StreamDecoder`` is a host's.

    Every run of bytes between two flags is tried, so whatever came before, the next whole frame is
    found. Raw bytes 00..1F and 7F are no part of a frame and are passed over (RFC 1662, 4.2).

    A run that fails is counted as a broken frame in one of ``crc_errors``, ``overlong`` and
    ``malformed`` when the flag before it opened it. A flag opens a run unless it closed a frame,
    whole or broken; text after a closing flag is no fault.
    """

    def __init__(self, payload_max: int = PAYLOAD_MAX) -> None:
        self.frames = 0
        self.crc_errors = 0
        self.overlong = 0
        self.malformed = 0
        self._limit = payload_max + 4
        self._view = memoryview(bytearray(self._limit))
        # Bytes of this run, escapes not counted, up to limit + 1. Before the first flag there is
        # no run: it starts as one that is too long already.
        self._size = self._limit + 1
        self._opened = self._escaped = False

    def push(self, byte: int) -> memoryview | None:
        """Take one byte; return the payload of the frame that it completes.

        The view is valid until the next call. Allocates nothing unless a run of bytes ends.
        """
        size = self._size
        if byte == 0x7E:
            whole = self._judge(self._view, size, self._escaped)
            self._size = 0
            self._escaped = False
            return self._view[: size - 4] if whole else None
        if byte < 0x20 or byte == 0x7F:
            return None
        if self._escaped:
            self._escaped = False
            byte ^= 0x20
        elif byte == 0x7D:
            self._escaped = True
            return None
        if size < self._limit:
            self._view[size] = byte
        if size <= self._limit:
            self._size = size + 1
        return None

    def _judge(self, run: bytes | memoryview, size: int, cut: bool) -> bool:
        """Say whether the run that a flag just ended is a frame; ``cut`` is amid an escape."""
        opened = self._opened
        self._opened = not opened
        if size > self._limit:
            self.overlong += opened
        elif cut or 0 < size < 5:
            self.malformed += opened
        elif not size:
            self._opened = True
        elif crc32(run[:size]) != _RESIDUE:
            self.crc_errors += opened
        else:
            self.frames += 1
            self._opened = False
            return True
        return False
