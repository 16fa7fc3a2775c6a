"""Frames on the board's stream. Only the main loop sends: output from callbacks breaks a console."""

import select

from wakewire import framing

# Bytes taken in one go before the loop looks at its deadlines again, whatever keeps coming.
_BATCH = 256

# How long a host that does not drain its end may hold up the loop, in ms.
_WRITE_WAIT_MS = 20


class Link:
    """A framed link over a stream that can be polled."""

    def __init__(self, reader, writer) -> None:
        self.decoder = framing.Decoder()
        self.frames_out = 0
        self.frames_dropped = 0
        self._reader = reader
        self._writer = writer
        self._byte = bytearray(1)
        self._readable = select.poll()
        self._readable.register(reader, select.POLLIN)
        self._writable = select.poll()
        self._writable.register(writer, select.POLLOUT)

    def receive(self, timeout_ms: int):
        """Wait for input at most `timeout_ms`; the payload of a frame, or None.

        Reads one byte after each poll, as a stream may block until all that was asked for came.
        """
        for _ in range(_BATCH):
            for _ in self._readable.ipoll(timeout_ms):
                break
            else:
                return None
            if not self._reader.readinto(self._byte):
                raise EOFError
            payload = self.decoder.push(self._byte[0])
            if payload is not None:
                return payload
            timeout_ms = 0
        return None

    def send(self, payload: bytes) -> bool:
        """Send a frame; False when the host does not take it, which is no fault: it asks again."""
        frame = memoryview(framing.encode(payload))
        while frame:
            for _ in self._writable.ipoll(_WRITE_WAIT_MS):
                break
            else:
                self.frames_dropped += 1
                return False
            frame = frame[self._writer.write(frame) or 0 :]
        self.frames_out += 1
        return True
