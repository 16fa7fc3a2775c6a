"""Frames on the board's stream. Only the main loop sends: a callback would break a console."""

import select

from micropython import const

from wakewire import framing

# Bytes taken in one go before the loop looks at its deadlines again, whatever keeps coming.
_BATCH = const(256)

# How long a host that does not drain its end may hold up the loop, in ms.
_WRITE_WAIT_MS = const(20)


class Link:
    """A framed link over a stream that can be polled."""

    def __init__(self, reader, writer):
        self.decoder = framing.Decoder()
        self.frames_out = self.frames_dropped = 0
        self.reader = reader
        self.writer = writer
        self.byte = bytearray(1)
        self.readable = select.poll()
        self.readable.register(reader, select.POLLIN)
        self.writable = select.poll()
        self.writable.register(writer, select.POLLOUT)

    def receive(self, timeout_ms):
        """Wait for input at most so long; the payload of a frame, or None.

        Reads one byte after each poll, as a stream may block until all that was asked for came.
        Raises KeyboardInterrupt at the stream's end: nobody can reach this board any more.
        """
        for _ in range(_BATCH):
            for _ in self.readable.ipoll(timeout_ms):
                break
            else:
                return None
            if not self.reader.readinto(self.byte):
                raise KeyboardInterrupt
            payload = self.decoder.push(self.byte[0])
            if payload is not None:
                return payload
            timeout_ms = 0
        return None

    def send(self, payload):
        """Send a frame. One that the host does not take is dropped: it asks again."""
        frame = memoryview(framing.encode(payload))
        while frame:
            for _ in self.writable.ipoll(_WRITE_WAIT_MS):
                break
            else:
                self.frames_dropped += 1
                return
            frame = frame[self.writer.write(frame) or 0 :]
        self.frames_out += 1
