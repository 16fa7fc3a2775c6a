"""What the firmware's pure modules import from MicroPython, for CPython."""


def const(value: int) -> int:
    """Return the value; MicroPython's compiler puts it where the name stands."""
    return value
