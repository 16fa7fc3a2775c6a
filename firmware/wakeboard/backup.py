"""The checkpoint: what is left of the countdown, in twelve bytes that survive a soft reset.

Twelve bytes are what the backup registers of the smallest port hold: the token, the remaining
seconds, the ticks at that moment in units of 1.024 s, and a checksum. Ticks go on over a soft
reset on most ports, so that a restored countdown has lost the time in between, too.
"""

import struct
from binascii import crc32

from wakeboard.countdown import Countdown
from wakewire.codes import STATE_ARMED, STATE_IDLE

SIZE = 12

_MAGIC = b"wb1"
_TICKS_SHIFT = 10
_TICKS_MASK = 0xFFFFF  # of 2^30 ms that ticks count, in units of 2^10 ms


def pack(countdown: Countdown, ticks_ms: int) -> bytes:
    """The checkpoint of a countdown; an idle one is all zeroes, an expired one has no time left."""
    if countdown.state == STATE_IDLE:
        return bytes(SIZE)
    left_s = 0
    if countdown.state == STATE_ARMED:
        left_s = max(1, (countdown.remaining_ms() + 999) // 1000)
    units = (ticks_ms >> _TICKS_SHIFT) & _TICKS_MASK
    # 20 bits of seconds and 20 bits of ticks, in five bytes; the sixth is spare
    body = struct.pack("<IHHH", countdown.token, left_s & 0xFFFF, units & 0xFFFF,
                       left_s >> 16 | units >> 16 << 8)
    return body + struct.pack("<H", crc32(_MAGIC + body) & 0xFFFF)


def restore(countdown: Countdown, record: bytes, ticks_ms: int) -> bool:
    """Take over a countdown from a checkpoint; False when there is none worth the name.

    The time since the checkpoint is taken from the ticks when these went on; when they started
    again it is unknown and counts as none, so that the wake is late, never lost.
    """
    if len(record) != SIZE:
        return False
    body = bytes(record[:10])
    token, left_low, units_low, high, checksum = struct.unpack("<IHHHH", record)
    if not token or crc32(_MAGIC + body) & 0xFFFF != checksum:
        return False
    left_s = left_low | (high & 0xFF) << 16
    if not left_s:
        countdown.restore_expired(token)
        return True
    then = units_low | high >> 8 << 16
    now = (ticks_ms >> _TICKS_SHIFT) & _TICKS_MASK
    gone_ms = (now - then) << _TICKS_SHIFT if now > then else 0
    countdown.restore(token, max(0, left_s * 1000 - gone_ms))
    return True
