"""A countdown that survives a restart: its checkpoint, read back, and where it is kept.

Needed only while the firmware starts. `Countdown.checkpoint` says what a checkpoint holds.
"""

from binascii import crc32

from micropython import const

from wakeboard.countdown import Countdown

SIZE = 12  # bytes of a checkpoint

_LEFT_S_MAX = const(604800)
_APPROXIMATE = const(1)


def restore(countdown: Countdown, record: bytes) -> None:
    """Take a checkpoint over, marked as approximate; leave the countdown idle when it is not whole.

    The time since the checkpoint is told by the ticks, which go on over a soft reset on most ports.
    Where they began anew it is unknown and counts as none: the wake is late rather than lost.
    """
    body = record[:10]
    if len(record) != SIZE or (crc32(body) & 0xFFFF).to_bytes(2, "little") != record[10:]:
        return
    number = int.from_bytes(body, "little")
    token = number & 0xFFFFFFFF
    left_s = number >> 32 & 0xFFFFF
    if not token or left_s > _LEFT_S_MAX:
        return
    passed = (countdown.ticks_ms >> 10 & 0xFFFFF) - (number >> 52)
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
