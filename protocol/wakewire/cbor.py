"""The CBOR of the wire: a deterministic, bounded subset of RFC 8949.

Integers of -2^64..2^64-1, byte strings, UTF-8 text, arrays, false, true and null, each in its
shortest form (section 4.2.1). No maps, tags, floats, undefined or indefinite lengths. One item of
at most ``PAYLOAD_MAX`` bytes and ``DEPTH_MAX`` nested arrays, with nothing after it.
"""

from wakewire.errors import CborError
from wakewire.limits import DEPTH_MAX, PAYLOAD_MAX


def encode(value: object) -> bytes:
    """Return the one encoding of a value.

    Takes None, bool, int, bytes, bytearray, memoryview, str, list and tuple. Raises CborError for
    anything else, an integer beyond 64 bits, arrays nested too deep and a result too long.
    """
    out = bytearray()
    _write(out, value, DEPTH_MAX)
    if len(out) > PAYLOAD_MAX:
        raise CborError("too long")
    return bytes(out)


def _write(out: bytearray, value: object, depth: int) -> None:
    if value is None:
        out.append(0xF6)
    elif value is True:
        out.append(0xF5)
    elif value is False:
        out.append(0xF4)
    elif isinstance(value, int):
        if value < 0:
            _head(out, 0x20, -1 - value)
        else:
            _head(out, 0x00, value)
    elif isinstance(value, str):
        raw = _octets(value)
        _head(out, 0x60, len(raw))
        out.extend(raw)
    elif isinstance(value, (bytes, bytearray, memoryview)):
        _head(out, 0x40, len(value))
        out.extend(value)
    elif isinstance(value, (list, tuple)):
        if not depth:
            raise CborError("too deep")
        _head(out, 0x80, len(value))
        for item in value:
            _write(out, item, depth - 1)
    else:
        raise CborError("bad type")


def _octets(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeError:  # CPython's strings can hold surrogates
        pass
    raise CborError("bad text")


def _head(out: bytearray, major: int, number: int) -> None:
    if number < 24:
        out.append(major | number)
        return
    # Compared by shifts: on a 32-bit board 2^32 and 2^64 would be objects on the heap.
    for width in range(4):
        if not number >> (8 << width):
            out.append(major | (24 + width))
            out.extend(number.to_bytes(1 << width, "big"))
            return
    raise CborError("integer beyond 64 bits")


def decode(data: bytes | bytearray | memoryview) -> object:
    """Return the value of exactly one item.

    Arrays become lists. Raises CborError for everything that ``encode`` would not have written;
    no length or count is believed before it is compared with the bytes that are there.
    """
    if len(data) > PAYLOAD_MAX:
        raise CborError("too long")
    reader = _Reader(data)
    value = reader.item(DEPTH_MAX)
    if reader.left():
        raise CborError("trailing bytes")
    return value


class _Reader:
    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._data = data
        self._at = 0

    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes | bytearray | memoryview:
        if size > self.left():
            raise CborError("truncated")
        self._at += size
        return self._data[self._at - size : self._at]

    def item(self, depth: int) -> object:
        head = self.take(1)[0]
        major = head >> 5
        if major == 7:
            if 0xF4 <= head <= 0xF6:
                return (False, True, None)[head - 0xF4]
            raise CborError("bad type")
        number = self._number(head & 31)
        if major == 0:
            return number
        if major == 1:
            return -1 - number
        if major == 2:
            return bytes(self.take(number))
        if major == 3:
            return _text(self.take(number))
        if major != 4:
            raise CborError("bad type")
        if not depth:
            raise CborError("too deep")
        if number > self.left():  # every item takes at least one byte
            raise CborError("truncated")
        return [self.item(depth - 1) for _ in range(number)]

    def _number(self, info: int) -> int:
        if info < 24:
            return info
        if info > 27:
            raise CborError("bad length")
        width = 1 << (info - 24)
        number = int.from_bytes(self.take(width), "big")
        if number < 24 or (width > 1 and not number >> (4 * width)):
            raise CborError("not shortest")
        return number


def _text(raw: bytes | bytearray | memoryview) -> str:
    try:
        text = str(raw, "utf-8")
        # MicroPython lets overlong forms, surrogates and numbers beyond U+10FFFF through.
        for char in text:
            code = ord(char)
            if 0xD800 <= code < 0xE000 or chr(code) != char:
                break
        else:
            return text
    except ValueError:  # UnicodeError is one
        pass
    raise CborError("bad text")
