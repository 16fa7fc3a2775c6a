"""The wire once more, from the standards and other people's code, to check wakewire against.

CBOR comes from cbor2, the frame check sequence bit by bit from its polynomial, and the framing from
the rule that every run of bytes between two flags is tried. Slow and plain on purpose.
"""

from collections.abc import Iterator

import cbor2

PAYLOAD_MAX = 192
DEPTH_MAX = 4


class Refused(Exception):  # noqa: N818 - a verdict, not a fault
    """The bytes are outside the subset."""


def fcs32(data: bytes) -> int:
    """The CRC-32 of RFC 1662, reflected polynomial EDB88320, one bit after the other."""
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0xEDB88320 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


def frame(payload: bytes) -> bytes:
    """The frame of a payload."""
    check = fcs32(payload)
    body = payload + bytes(check >> shift & 0xFF for shift in (0, 8, 16, 24))
    escaped = b""
    for byte in body:
        special = byte <= 0x1F or byte in (0x7D, 0x7E, 0x7F)
        escaped += bytes([0x7D, byte ^ 0x20]) if special else bytes([byte])
    return b"\x7e" + escaped + b"\x7e"


def payloads(stream: bytes, payload_max: int = PAYLOAD_MAX) -> list[bytes]:
    """The payloads of the frames in a stream."""
    return [payload for run in stream.split(b"\x7e")[1:-1] if (payload := _read(run, payload_max))]


def console(stream: bytes) -> tuple[bytes, bytes]:
    """What is no frame in a stream: up to the last flag, and after it."""
    first, *runs, last = stream.split(b"\x7e") if b"\x7e" in stream else (b"", stream)
    return b"".join([first, *(run for run in runs if not _read(run, PAYLOAD_MAX))]), last


def _read(run: bytes, payload_max: int) -> bytes | None:
    """The payload of a run between two flags, None when it is no frame."""
    kept = iter([byte for byte in run if byte >= 0x20 and byte != 0x7F])
    body = bytearray()
    for byte in kept:
        if byte == 0x7D:
            escaped = next(kept, None)
            if escaped is None:
                return None
            body.append(escaped ^ 0x20)
        else:
            body.append(byte)
    payload, check = bytes(body[:-4]), int.from_bytes(body[-4:], "little")
    fits = 0 < len(payload) <= payload_max
    return payload if fits and fcs32(payload) == check else None


def encode(value: object) -> bytes:
    """The deterministic encoding of a value (RFC 8949, section 4.2.1)."""
    return bytes(cbor2.dumps(value, canonical=True))


def decode(payload: bytes) -> object:
    """The value of a payload that lies within the subset. Raises Refused."""
    if len(payload) > PAYLOAD_MAX:
        raise Refused
    try:
        value: object = cbor2.loads(payload)
    except Exception as error:  # whatever a tag makes of its content
        raise Refused from error
    # loads stops after one item: bytes after it, like longer forms, show in what it encodes to.
    if not all(_within(item) for item in _walk(value, 0)) or encode(value) != payload:
        raise Refused
    return value


def _within(item: object) -> bool:
    if isinstance(item, bool) or item is None:
        return True
    if isinstance(item, int):
        return -(2**64) <= item < 2**64
    return isinstance(item, (bytes, str, list))


def _walk(value: object, depth: int) -> Iterator[object]:
    yield value
    if isinstance(value, list):
        if depth == DEPTH_MAX:
            raise Refused
        for item in value:
            yield from _walk(item, depth + 1)
