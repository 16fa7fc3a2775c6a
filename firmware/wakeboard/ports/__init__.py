"""What MicroPython ports have in common, found by looking at what is there.

Each file beside this one states where its port differs. The rest of the firmware asks `find()`
for the port it runs on and knows no port by name.
"""

import os
import sys
import time

import machine
from wakeboard.backup import SIZE
from wakewire.codes import (
    CLOCK_UNKNOWN,
    RESET_DEEP_SLEEP,
    RESET_HARD,
    RESET_POWER_ON,
    RESET_SOFT,
    RESET_UNKNOWN,
    RESET_WATCHDOG,
)

# sys.platform, where it is not the name of the port
_PLATFORMS = {"linux": "unix", "darwin": "unix", "pyboard": "stm32"}

_RESET_NAMES = (
    ("PWRON_RESET", RESET_POWER_ON),
    ("HARD_RESET", RESET_HARD),
    ("WDT_RESET", RESET_WATCHDOG),
    ("DEEPSLEEP_RESET", RESET_DEEP_SLEEP),
    ("SOFT_RESET", RESET_SOFT),
)


def find():
    """The port this firmware runs on; one without a file here gets what all have in common."""
    name = _PLATFORMS.get(sys.platform, sys.platform)
    try:
        port = __import__("wakeboard.ports." + name, None, None, ("Port",)).Port()
    except ImportError:
        port = Port()
    port.name = name
    return port


class FileBackup:
    """The checkpoint in a small file: survives everything, but wears the flash."""

    wears = True

    def __init__(self, path="wakeboard.bak"):
        self._path = path

    def load(self):
        """The stored bytes, b"" when there are none."""
        try:
            with open(self._path, "rb") as file:
                return file.read()
        except OSError:
            return b""

    def save(self, record):
        """Store the bytes."""
        with open(self._path, "wb") as file:
            file.write(record)


class RegisterBackup:
    """The checkpoint in memory that a reset leaves alone: part of a `machine.mem_backup` region."""

    wears = False

    def __init__(self, region, first):
        self._region = region
        self._first = first  # item of the region
        self._width = region.itemsize  # bytes of one item: registers are written whole

    def load(self):
        """The stored bytes."""
        record = bytearray()
        for at in range(SIZE // self._width):
            record.extend(self._region[self._first + at].to_bytes(self._width, "little"))
        return bytes(record)

    def save(self, record):
        """Store the bytes."""
        for at in range(0, SIZE, self._width):
            item = int.from_bytes(record[at : at + self._width], "little")
            self._region[self._first + at // self._width] = item


class Port:
    """A port of which nothing else is known."""

    name = ""
    clock_quality = CLOCK_UNKNOWN
    first_register = 0  # of the backup registers that nobody else uses
    sleep_max_ms = 0  # longest light sleep in one go; 0: there is none

    def ticks_ms(self):
        """Milliseconds modulo a power of two, from what runs on while the board is awake."""
        return time.ticks_ms()

    def unique_id(self):
        """The chip's id, at most 16 bytes."""
        return machine.unique_id()[:16]

    def model(self):
        """The board's name, at most 32 characters."""
        return getattr(sys.implementation, "_machine", self.name)[:32]

    def boot_id(self):
        """Eight bytes that no other boot has."""
        return os.urandom(8)

    def reset_cause(self):
        """Why the board started, as a number of ours: those of the ports differ."""
        cause = machine.reset_cause()
        for name, code in _RESET_NAMES:
            if getattr(machine, name, None) == cause:
                return code
        return RESET_UNKNOWN

    def backup(self):
        """Where the checkpoint goes: backup registers, else what the port adds, else a file."""
        for region in machine.mem_backup(-1) if hasattr(machine, "mem_backup") else ():
            items = SIZE // region.itemsize
            # The start of byte memory is what others take first; registers have set users.
            first = len(region) - items if region.itemsize == 1 else self.first_register
            if first >= 0 and first + items <= len(region):
                return RegisterBackup(region, first)
        return self.other_backup() or FileBackup()

    def other_backup(self):
        """What the port offers for the checkpoint beside `mem_backup`, None for nothing."""
        return None

    def wake_line(self, config):
        """A function that sets the wake line active (1) or lets go of it (0).

        Raises ValueError or TypeError for a pin that the board does not have.
        """
        if config.wake_pin is None:
            return no_line
        if config.wake_active == "high":
            return machine.Pin(config.wake_pin, machine.Pin.OUT, value=0).value
        pin = machine.Pin(config.wake_pin, machine.Pin.OPEN_DRAIN, value=1)
        return lambda level: pin.value(1 - level)

    def streams(self, config):
        """Reader and writer of the link; ValueError for a UART that the board does not have."""
        if config.uart:
            uart = self.uart(*config.uart)
            return uart, uart
        return getattr(sys.stdin, "buffer", sys.stdin), getattr(sys.stdout, "buffer", sys.stdout)

    def uart(self, number, baud, *pins):
        """Open a UART, on its TX and RX pin where these are given."""
        if pins:
            return machine.UART(number, baud, tx=machine.Pin(pins[0]), rx=machine.Pin(pins[1]))
        return machine.UART(number, baud)

    def sleep(self, ms):
        """Sleep lightly for `ms`; the milliseconds that the ticks did not count meanwhile."""
        machine.lightsleep(ms)
        return 0

    def break_in(self, wanted):
        """Let Ctrl-C stop a program that a raw REPL runs, or not; on boards it always does."""

    def restart(self):
        """Start the firmware anew. Does not return."""
        machine.reset()


def no_line(level):
    """No pin is configured: nothing to set."""
