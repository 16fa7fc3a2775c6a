"""Frames on a stream that is shared with a console: RFC 1662 asynchronous framing, FCS-32.

A frame is ``7E body 7E``, its body being payload and CRC-32 (little-endian) with every byte
00..1F, 7D, 7E and 7F sent as ``7D`` and the byte XOR 20. So no frame holds a byte that a
MicroPython console acts upon, in either direction.
"""

from binascii import crc32

from wakewire.errors import FrameError
from wakewire.limits import CONSOLE_MAX, PAYLOAD_MAX

try:
    from micropython import const  # type: ignore[import-not-found]  # only MicroPython has it
except ImportError:

    def const(value: int) -> int:
        """Stand in for the compiler hint of MicroPython."""
        return value


_FLAG = const(0x7E)
_ESCAPE = const(0x7D)
_FLIP = const(0x20)
_FCS_BYTES = const(4)

# The CRC-32 of any bytes followed by their own CRC-32 in little-endian order (RFC 1662, C.3).
_RESIDUE = const(0x2144DF1C)


def encode(payload: bytes | bytearray | memoryview) -> bytes:
    """Return the frame of a payload, both flags included.

    Raises FrameError when the payload is empty or longer than ``PAYLOAD_MAX``.
    """
    if not 0 < len(payload) <= PAYLOAD_MAX:
        raise FrameError(f"payload of {len(payload)} bytes")
    out = bytearray(2 * (len(payload) + _FCS_BYTES) + 2)
    out[0] = _FLAG
    end = 1
    for part in (payload, crc32(payload).to_bytes(_FCS_BYTES, "little")):
        for byte in part:
            if byte < 0x20 or 0x7D <= byte <= 0x7F:
                out[end] = _ESCAPE
                out[end + 1] = byte ^ _FLIP
                end += 2
            else:
                out[end] = byte
                end += 1
    out[end] = _FLAG
    return bytes(memoryview(out)[: end + 1])


class Decoder:
    """Finds frames in a stream; what is no frame is console text.

    Every run of bytes between two flags is tried, so whatever came before, the next whole frame is
    found. Raw bytes 00..1F and 7F are no part of a frame and are passed over (RFC 1662, 4.2).

    A run that fails is counted as a broken frame in one of ``crc_errors``, ``overlong`` and
    ``malformed`` when the flag before it opened it. A flag opens a run unless it closed a frame,
    whole or broken; text after a closing flag is no fault.

    An instance serves one of two modes, ``push`` on a board or ``feed`` on a host; both find the
    same frames and count the same faults.
    """

    def __init__(self, payload_max: int = PAYLOAD_MAX) -> None:
        self.frames = 0
        self.crc_errors = 0
        self.overlong = 0
        self.malformed = 0
        self._limit = payload_max + _FCS_BYTES
        # Bytes of this run, escapes not counted, up to limit + 1. Before the first flag there is
        # no run: it starts as one that is too long already.
        self._size = self._limit + 1
        self._opened = False
        self._bad = False
        self._escaped = False
        self._buffer = bytearray(self._limit)
        self._view = memoryview(self._buffer)
        # feed only: console text, where in it this run began, and this run still escaped
        self._console = bytearray()
        self._mark = 0
        self._run = bytearray()

    def push(self, byte: int) -> memoryview | None:
        """Take one byte; return the payload of the frame that it completes.

        The view is valid until the next call. Allocates nothing unless a frame is complete.
        """
        size = self._size
        if byte == _FLAG:
            whole = self._judge(self._view, size, self._bad or self._escaped)
            self._size = 0
            self._bad = self._escaped = False
            return self._view[: size - _FCS_BYTES] if whole else None
        if byte < 0x20 or byte == 0x7F:
            return None
        if byte == _ESCAPE:
            self._bad = self._bad or self._escaped
            self._escaped = True
            return None
        if self._escaped:
            self._escaped = False
            byte ^= _FLIP
        if size < self._limit:
            self._buffer[size] = byte
        if size <= self._limit:
            self._size = size + 1
        return None

    def _judge(self, run: bytearray | memoryview, size: int, bad: bool) -> bool:
        """Say whether the run that a flag just ended is a frame; count it."""
        if not size and not bad:
            self._opened = True
            return False
        if size > self._limit:
            fault = 0
        elif bad or size <= _FCS_BYTES:
            fault = 1
        elif crc32(run[:size]) != _RESIDUE:
            fault = 2
        else:
            self.frames += 1
            self._opened = False
            return True
        if self._opened:
            if fault == 0:
                self.overlong += 1
            elif fault == 1:
                self.malformed += 1
            else:
                self.crc_errors += 1
        self._opened = not self._opened
        return False

    def feed(self, data: bytes) -> list[bytes]:
        """Take a chunk of any size; return the payloads of the frames it completes, in order.

        Never raises. Costs Python work per flag and per escape, not per byte.
        """
        payloads: list[bytes] = []
        start = 0
        while True:
            end = data.find(b"\x7e", start)
            if end < 0:
                self._hold(data[start:])
                return payloads
            self._hold(data[start:end])
            payload = self._close()
            if payload is not None:
                payloads.append(payload)
            start = end + 1

    def _hold(self, piece: bytes) -> None:
        """Keep a flagless piece, as text and as part of a run, both bounded."""
        if not piece:
            return
        self._console.extend(piece)
        surplus = len(self._console) - CONSOLE_MAX
        if surplus > 0:
            self._console = self._console[surplus:]
            self._mark = max(0, self._mark - surplus)
        run = piece.translate(None, _PASSED_OVER)
        self._size = min(self._limit + 1, self._size + len(run) - run.count(b"\x7d"))
        if len(self._run) + len(run) > 2 * self._limit:
            # Longer than every byte escaped: too long, or an escape is escaped.
            self._bad = True
        if self._hopeless():
            self._run = bytearray()
        else:
            self._run.extend(run)

    def _hopeless(self) -> bool:
        return self._bad or self._size > self._limit

    def _close(self) -> bytes | None:
        """End the run at a flag; return its payload when it is a frame."""
        size = self._size
        parts = self._run.split(b"\x7d")
        run = parts[0]
        for part in parts[1:]:
            if part:
                run.append(part[0] ^ _FLIP)
                run.extend(part[1:])
            else:
                self._bad = True
        whole = self._judge(run, size, self._bad)
        if whole:
            del self._console[self._mark :]
        self._mark = len(self._console)
        self._run = bytearray()
        self._size = 0
        self._bad = False
        return bytes(run[: size - _FCS_BYTES]) if whole else None

    def take_console(self) -> bytes:
        """Return and forget the text outside frames, at most ``CONSOLE_MAX`` bytes.

        A run that a flag opened is held back until it is known not to be a frame.
        """
        end = self._mark if self._opened and not self._hopeless() else len(self._console)
        text = bytes(self._console[:end])
        self._console = self._console[end:]
        self._mark = 0
        return text


_PASSED_OVER = bytes(range(0x20)) + b"\x7f"
