"""A board on the desk: the real firmware under MicroPython's unix port, as a serial port."""

from wakebridge.simboard.board import DeskBoard
from wakebridge.simboard.errors import (
    DeskError,
    DirectoryHeldError,
    FirmwareMissingError,
    InterpreterMissingError,
)
from wakebridge.simboard.wake_line import WakeLevel, WakeStream

__all__ = [
    "DeskBoard",
    "DeskError",
    "DirectoryHeldError",
    "FirmwareMissingError",
    "InterpreterMissingError",
    "WakeLevel",
    "WakeStream",
]
