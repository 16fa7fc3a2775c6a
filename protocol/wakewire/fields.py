"""The elements of a message: reading one of a type and range, comparing and showing all by name."""

from wakewire.errors import MessageError
from wakewire.host_limits import TEXT_MAX
from wakewire.limits import BOOT_ID_BYTES


class Value:
    """Equality and a readable form over the slots of a message."""

    __slots__: tuple[str, ...] = ()

    def _values(self) -> list[object]:
        return [getattr(self, name) for name in type(self).__slots__]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Value)
            and type(self) is type(other)
            and self._values() == other._values()
        )

    __hash__ = None  # type: ignore[assignment]  # values with lists inside are no keys

    def __repr__(self) -> str:
        named = [f"{name}={getattr(self, name)!r}" for name in type(self).__slots__]
        return type(self).__name__ + "(" + ", ".join(named) + ")"


def _element(fields: list[object], index: int, name: str) -> object:
    if index >= len(fields):
        raise MessageError(name + ": missing")
    return fields[index]


def read_number(fields: list[object], index: int, name: str, most: int, least: int = 0) -> int:
    """Return an integer of a range; ``least`` is 0 unless told. Raises MessageError."""
    value = _element(fields, index, name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise MessageError(name + ": not a number")
    if not least <= value <= most:
        raise MessageError(name + ": out of range")
    return value


def read_text(fields: list[object], index: int, name: str) -> str:
    """Return a text of at most ``TEXT_MAX`` bytes. Raises MessageError."""
    value = _element(fields, index, name)
    if not isinstance(value, str):
        raise MessageError(name + ": not a text")
    if len(value.encode()) > TEXT_MAX:
        raise MessageError(name + ": too long")
    return value


def read_octets(fields: list[object], index: int, name: str) -> bytes:
    """Return a byte string. Raises MessageError."""
    value = _element(fields, index, name)
    if not isinstance(value, bytes):
        raise MessageError(name + ": not a byte string")
    return value


def read_boot_id(fields: list[object], index: int) -> bytes:
    """Return a boot id. Raises MessageError."""
    value = read_octets(fields, index, "boot_id")
    if len(value) != BOOT_ID_BYTES:
        raise MessageError("boot_id: not 8 bytes")
    return value


def read_array(fields: list[object], index: int, name: str) -> list[object]:
    """Return an array. Raises MessageError."""
    value = _element(fields, index, name)
    if not isinstance(value, list):
        raise MessageError(name + ": not an array")
    return value
