"""A host's side of the shared stream: frames in, and the console text around them kept apart."""

from wakewire.framing import Decoder
from wakewire.host_limits import CONSOLE_MAX
from wakewire.limits import PAYLOAD_MAX

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
        run = piece.translate(None, _PASSED_OVER)
        self._size = min(self._limit + 1, self._size + len(run) - run.count(b"\x7d"))
        if len(self._run) + len(run) > 2 * self._limit:
            # More than a run of escaped bytes: it is too long, or an escape is escaped.
            self._bad = True
        if self._hopeless():
            self._run.clear()
        else:
            self._run.extend(run)

    def _hopeless(self) -> bool:
        return self._bad or self._size > self._limit

    def _close(self) -> bytes | None:
        """End the run at a flag; return its payload when it is a frame."""
        size = self._size
        parts = self._run.split(b"\x7d")
        bad = self._bad or not all(parts[1:])
        for part in parts[1:]:
            if part:
                part[0] ^= 0x20
        run = b"".join(parts)
        whole = self._judge(run, size, bad)
        if whole:
            self._text.clear()
        else:
            self._settle()
        self._run.clear()
        self._size = 0
        self._bad = False
        return run[: size - 4] if whole else None
