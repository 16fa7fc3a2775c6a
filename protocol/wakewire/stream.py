"""A host's side of the shared stream: frames in, and the console text around them kept apart."""

import re

from wakewire.framing import Decoder
from wakewire.host_limits import CONSOLE_MAX
from wakewire.limits import PAYLOAD_MAX

_ESCAPE = re.compile(rb"\x7d.", re.DOTALL)

# Bytes that no sender leaves raw in a frame: something on the way put them there.
_PASSED_OVER = bytes(range(0x20)) + b"\x7f"


class StreamDecoder(Decoder):
    """Takes a stream in chunks of any size; what is no frame is console text.

    Finds the same frames and counts the same faults as ``Decoder.push``, byte by byte, would. One
    instance is served with either, not both.
    """

    def __init__(self, payload_max: int = PAYLOAD_MAX) -> None:
        super().__init__(payload_max)
        self._console = bytearray()
        self._text = bytearray()  # this run as console text, until it proves to be a frame
        self._run = bytearray()  # this run as part of a frame, still escaped

    def feed(self, data: bytes) -> list[bytes]:
        """Take a chunk; return the payloads of the frames that it completes, in order.

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

    def take_console(self) -> bytes:
        """Return and forget the text outside frames, at most the newest ``CONSOLE_MAX`` bytes.

        A run that a flag opened is held back until it is known not to be a frame.
        """
        if not self._opened or self._hopeless():
            self._settle()
        text = bytes(self._console)
        self._console.clear()
        return text

    def _settle(self) -> None:
        self._console.extend(self._text)
        self._text.clear()
        del self._console[:-CONSOLE_MAX]

    def _hold(self, piece: bytes) -> None:
        """Keep a flagless piece, as text and as part of a run, both bounded."""
        if not piece:
            return
        self._text.extend(piece)
        del self._text[:-CONSOLE_MAX]
        room = 2 * self._limit + 2 - len(self._run)
        self._run.extend(piece.translate(None, _PASSED_OVER)[:room])

    def _hopeless(self) -> bool:
        """Say whether this run is too long for a frame, even if every byte of it is escaped."""
        return len(self._run) > 2 * self._limit + 1

    def _close(self) -> bytes | None:
        """End the run at a flag; return its payload when it is a frame."""
        escapes = len(self._run) - len(self._run.rstrip(b"\x7d"))
        cut = escapes % 2 == 1
        run = _ESCAPE.sub(lambda escape: bytes((escape[0][1] ^ 0x20,)), self._run)
        size = self._size or len(run) - cut  # a size is set before the first flag only
        whole = self._judge(run, size, cut)
        if whole:
            self._text.clear()
        else:
            self._settle()
        self._run.clear()
        self._size = 0
        return bytes(run[: size - 4]) if whole else None
