"""Time on a board: a clock, and the countdown on it that wakes the host.

Nothing here reads a clock. The shell feeds `advance` with the board's millisecond ticks, often
enough: every few seconds; the hard limit is `_TICKS_HALF`, 6.2 days.
"""

from binascii import crc32

from micropython import const

# Ticks are counted modulo 2^30 ms on 32-bit boards. Masking the difference gives the same step on
# builds with wider ticks, so the arithmetic is one and the same everywhere.
_TICKS_MASK = const(0x3FFFFFFF)
_TICKS_HALF = const(0x20000000)


class Countdown:
    """A clock with one countdown: armed; or expired, while it still has its token; or idle.

    The time since the start is `s` and `ms` beside it: one count of milliseconds would leave the
    small ints of a 32-bit board after 12.4 days and allocate at every step from then on. What is
    left always fits, and is exact, as every step is taken off it.
    """

    def __init__(self, ticks_ms: int) -> None:
        self.s = self.ms = self.step_ms = 0
        self.ticks_ms = ticks_ms
        self.set(0, 0, 0)

    def set(self, token: int, duration_ms: int, flags: int) -> None:
        """Count that long down from now; with no time left be expired, without a token idle."""
        self.token = token
        self.duration_ms = self.left_ms = duration_ms
        self.flags = flags
        self.armed = duration_ms > 0

    def advance(self, ticks_ms: int) -> bool:
        """Move on, by `step_ms`, to that reading of the ticks; True when the countdown runs out.

        Ticks that ran backwards move nothing.
        """
        step_ms = (ticks_ms - self.ticks_ms) & _TICKS_MASK
        self.ticks_ms = ticks_ms
        if step_ms >= _TICKS_HALF:
            step_ms = 0
        self.step_ms = step_ms
        ms = self.ms + step_ms
        self.s += ms // 1000
        self.ms = ms % 1000
        if not self.armed:
            return False
        self.left_ms = max(0, self.left_ms - step_ms)
        self.armed = self.left_ms > 0
        return not self.armed

    def checkpoint(self) -> bytes:
        """What is left, in twelve bytes: as many as the backup registers of the smallest port hold.

        From the lowest: the token in 32 bits, the seconds left in 20, the ticks in units of 1.024 s
        in 20, and after ten bytes a checksum. An expired countdown has no time left, an idle one
        no token. `backup` reads it.
        """
        left_s = (self.left_ms + 999) // 1000
        units = self.ticks_ms >> 10 & 0xFFFFF
        body = (self.token | left_s << 32 | units << 52).to_bytes(10, "little")
        return body + (crc32(body) & 0xFFFF).to_bytes(2, "little")
