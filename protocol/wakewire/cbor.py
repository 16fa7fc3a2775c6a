"""The CBOR of the wire: a deterministic, bounded subset of RFC 8949.

Integers of -2^64..2^64-1, byte strings, UTF-8 text, arrays, false, true and null, each in its
shortest form (section 4.2.1). No maps, tags, floats, undefined or indefinite lengths. One item of
at most ``PAYLOAD_MAX`` bytes and ``DEPTH_MAX`` nested arrays, with nothing after it.
"""

from wakewire import DEPTH_MAX, PAYLOAD_MAX, CborError


def encode(value: object) -> bytes:
    """Return the one encoding of a value.

    Takes None, bool, int, bytes, bytearray, memoryview, str, list and tuple. Raises CborError for
    anything else, an integer beyond 64 bits, arrays nested too deep and a result too long.
    """
    out = bytearray()
    _write(out, value, DEPTH_MAX)
    if len(out) > PAYLOAD_MAX:
        raise CborError("length")
    return bytes(out)


def _write(out: bytearray, value: object, depth: int) -> None:
    if value is None:
        out.append(0xF6)
    elif isinstance(value, bool):
        out.append(0xF4 + value)
    elif isinstance(value, int):
        if value < 0:
            _head(out, 0x20, -1 - value)
        else:
            _head(out, 0x00, value)
    elif isinstance(value, str):
        try:
            raw = value.encode()
        except UnicodeError:  # a surrogate, which only CPython's strings can hold
            raise CborError("text") from None
        _head(out, 0x60, len(raw))
        out.extend(raw)
    elif isinstance(value, (bytes, bytearray, memoryview)):
        _head(out, 0x40, len(value))
        out.extend(value)
    elif isinstance(value, (list, tuple)) and depth:
        _head(out, 0x80, len(value))
        for item in value:
            _write(out, item, depth - 1)
    else:
        raise CborError("type or depth")


def _head(out: bytearray, major: int, number: int) -> None:
    if number < 24:
        out.append(major | number)
        return
    width = 0
    # Compared by shifts: on a 32-bit board 2^32 would be an object on the heap.
    while number >> (8 << width):
        width += 1
    if width > 3:
        raise CborError("range")
    out.append(major | 24 + width)
    out.extend(number.to_bytes(1 << width, "big"))


def decode(data: bytes | bytearray | memoryview) -> object:
    """Return the value of exactly one item.

    Arrays become lists. Raises CborError for everything that ``encode`` would not have written;
    no length or count is believed before it is compared with the bytes that are there.
    """
    if len(data) > PAYLOAD_MAX:
        raise CborError("length")
    value, end = _read(data, 0, DEPTH_MAX)
    if end != len(data):
        raise CborError("length")
    return value


def _read(data: bytes | bytearray | memoryview, at: int, depth: int) -> tuple[object, int]:
    """Return the item at an index and the index after it."""
    left = len(data) - at - 1
    if left < 0:
        raise CborError("length")
    head = data[at]
    at += 1
    if 0xF4 <= head <= 0xF6:
        return (False, True, None)[head - 0xF4], at
    major = head >> 5
    number = head & 31
    if number > 27 or major > 4:
        raise CborError("type")
    if number > 23:
        width = 1 << number - 24
        left -= width
        if left < 0:
            raise CborError("length")
        number = int.from_bytes(data[at : at + width], "big")
        at += width
        if number < 24 or (width > 1 and not number >> 4 * width):
            raise CborError("form")
    if major == 0:
        return number, at
    if major == 1:
        return -1 - number, at
    if number > left:  # every item of an array takes at least one byte
        raise CborError("length")
    if major < 4:
        end = at + number
        raw = bytes(data[at:end])
        if major == 2:
            return raw, end
        from wakewire.text import read_text  # late: no request to a board holds text

        return read_text(raw), end
    if not depth:
        raise CborError("depth")
    items: list[object] = []
    while number:
        item, at = _read(data, at, depth - 1)
        items.append(item)
        number -= 1
    return items, at
