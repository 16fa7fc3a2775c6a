"""The checkpoint: what is left of the countdown, in twelve bytes that survive a soft reset.

Twelve bytes are what the backup registers of the smallest port hold: the token, the remaining
seconds, the ticks at that moment in units of 1.024 s, and a checksum. `restore` reads them.
"""

import struct
from binascii import crc32

from micropython import const

_UNITS_MASK = const(0xFFFFF)  # of 2^30 ms that ticks count, in units of 2^10 ms


def pack(countdown, ticks_ms):
    """The checkpoint of a countdown. An expired one has no time left, an idle one no token."""
    left_s = (countdown.left_ms + 999) // 1000
    units = ticks_ms >> 10 & _UNITS_MASK
    high = left_s >> 16 | units >> 16 << 8
    body = struct.pack("<IHHH", countdown.token, left_s & 0xFFFF, units & 0xFFFF, high)
    return body + struct.pack("<H", crc32(body) & 0xFFFF)


def in_registers(region, items):
    """A function that stores a checkpoint in backup registers or RAM, which do not wear.

    `region` is a memoryview as long as a checkpoint, `items` the `struct` format of its items:
    registers take whole words only.
    """

    def save(record):
        at = 0
        for item in struct.unpack(items, record):
            region[at] = item
            at += 1

    return save
