"""A countdown from before a restart, as far as its checkpoint tells."""

import struct
from binascii import crc32

from micropython import const

SIZE = 12  # bytes of a checkpoint; `backup` describes it

_LEFT_S_MAX = const(604800)
_UNITS_MASK = const(0xFFFFF)
_APPROXIMATE = const(1)


def restore(countdown, record, ticks_ms):
    """Take the countdown over, marked as approximate; nothing when the checkpoint is not whole.

    The time since the checkpoint is told by the ticks, which go on over a soft reset on most ports.
    Where they began anew it is unknown and counts as none: the wake is late rather than lost.
    """
    if len(record) != SIZE:
        return
    token, left_low, units_low, high, checksum = struct.unpack("<IHHHH", record)
    left_s = left_low | (high & 0xFF) << 16
    if not token or left_s > _LEFT_S_MAX or crc32(record[:10]) & 0xFFFF != checksum:
        return
    passed = (ticks_ms >> 10 & _UNITS_MASK) - (units_low | high >> 8 << 16)
    countdown.set(token, left_s * 1000, _APPROXIMATE)
    if passed > 0:
        countdown.left_ms = max(0, countdown.left_ms - (passed << 10))


def in_file(path):
    """A function that stores a checkpoint in that file, or raises OSError.

    A file survives a power loss, too, but wears flash memory. A torn one fails the checksum.
    """

    def save(record):
        with open(path, "wb") as file:
            file.write(record)

    return save
