"""What the firmware's pure modules import from MicroPython, for CPython."""

from typing import TypeVar

_T = TypeVar("_T")


def const(value: _T) -> _T:
    """Return the value; MicroPython's compiler puts it where the name stands."""
    return value
