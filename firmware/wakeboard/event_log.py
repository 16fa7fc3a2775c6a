"""The wake events of this boot: a ring with sequence numbers that knows what it has lost."""

import struct

from micropython import const

RING_LEN = 12  # events kept, in 144 bytes: a host asleep for a week finds a few

_RECORD_LEN = const(12)  # source, flags, milliseconds, seconds, token


class EventLog:
    """Events numbered from 1, of which the newest `RING_LEN` can be read."""

    def __init__(self) -> None:
        self.ring = bytearray(RING_LEN * _RECORD_LEN)
        self.last_seq = 0

    def append(self, source: int, s: int, ms: int, token: int, flags: int) -> None:
        """Log an event that happened `s` seconds and `ms` after the start."""
        at = self.last_seq % RING_LEN * _RECORD_LEN
        struct.pack_into("<BBHII", self.ring, at, source, flags, ms, s, token)
        self.last_seq += 1

    def oldest_seq(self) -> int:
        """The number of the oldest event still here; 1 when there was none yet."""
        return max(1, self.last_seq - RING_LEN + 1)

    def read(self, seq: int) -> list[int]:
        """The event of that number, which must still be here, as the wire lists it."""
        at = (seq - 1) % RING_LEN * _RECORD_LEN
        source, flags, ms, s, token = struct.unpack_from("<BBHII", self.ring, at)
        return [seq, source, s * 1000 + ms, token, flags]
