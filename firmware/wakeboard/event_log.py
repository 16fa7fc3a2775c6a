"""The wake events of this boot: a ring with sequence numbers that says what it has lost."""

import struct

RING_LEN = 32  # events kept; what a host sleeping for a week may find, in 384 bytes

_RECORD = "<BBHII"  # source, flags, milliseconds, seconds, token
_RECORD_LEN = 12


class EventLog:
    """Events numbered from 1, the newest `RING_LEN` of them readable. Appending never fails."""

    def __init__(self) -> None:
        self._ring = bytearray(RING_LEN * _RECORD_LEN)
        self.last_seq = 0

    def append(self, source: int, s: int, ms: int, token: int, flags: int) -> int:
        """Log an event that happened `s` seconds and `ms` after the start; its number."""
        at = self.last_seq % RING_LEN * _RECORD_LEN
        struct.pack_into(_RECORD, self._ring, at, source, flags, ms, s, token)
        self.last_seq += 1
        return self.last_seq

    def oldest_seq(self) -> int:
        """The number of the oldest event still here; 1 when there was none yet."""
        return max(1, self.last_seq - RING_LEN + 1)

    def lost(self, after_seq: int) -> int:
        """How many events later than `after_seq` have been overwritten."""
        return max(0, self.oldest_seq() - 1 - after_seq)

    def read(self, seq: int) -> list[int]:
        """The event `seq`, which must still be here, as the wire lists it."""
        at = (seq - 1) % RING_LEN * _RECORD_LEN
        source, flags, ms, s, token = struct.unpack_from(_RECORD, self._ring, at)
        return [seq, source, s * 1000 + ms, token, flags]
