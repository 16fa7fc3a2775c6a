"""What MicroPython ports have in common, found by looking at what is there.

Each file beside this one states where its port differs. The rest of the firmware asks `find()`
for the port it runs on and knows no port by name. A port is needed only while the firmware
starts: what it hands out must not lead back to it, so that its code can be let go.
"""

import os
import struct
import sys
import time

import machine
from micropython import const

from wakeboard.backup import SIZE, in_file

_CLOCK_UNKNOWN = const(0)

# sys.platform, where it is not the name of the port
_PLATFORMS = const((("linux", "unix"), ("darwin", "unix"), ("pyboard", "stm32")))

# The place of a name is the number of the cause on the wire; the numbers of the ports differ.
_RESETS = const(("", "PWRON_RESET", "HARD_RESET", "WDT_RESET", "DEEPSLEEP_RESET", "SOFT_RESET"))


def find():
    """The port this firmware runs on; one without a file here gets what all have in common."""
    name = dict(_PLATFORMS).get(sys.platform, sys.platform)
    try:
        port = __import__("wakeboard.ports." + name, None, None, ("Port",)).Port()
    except ImportError:
        port = Port()
    port.name = name
    return port


class Port:
    """A port of which nothing else is known."""

    name = ""
    clock_quality = _CLOCK_UNKNOWN
    first_register = 0  # of the backup registers that nobody else uses

    ticks_ms = staticmethod(time.ticks_ms)

    def unique_id(self):
        """The chip's id, at most 16 bytes; empty when there is none."""
        return machine.unique_id()[:16] if hasattr(machine, "unique_id") else b""

    def model(self):
        """The board's name, at most 32 characters."""
        return getattr(sys.implementation, "_machine", self.name)[:32]

    def boot_id(self):
        """Eight bytes that no other boot has."""
        return os.urandom(8)

    def reset_cause(self):
        """Why the board started, in the wire's numbers; 0 when it does not tell."""
        if hasattr(machine, "reset_cause"):
            cause = machine.reset_cause()
            for code, name in enumerate(_RESETS):
                if getattr(machine, name, None) == cause:
                    return code
        return 0

    def store(self):
        """Where the checkpoint goes, what is there now, and whether writing wears it."""
        for region in machine.mem_backup(-1) if hasattr(machine, "mem_backup") else ():
            count = SIZE // region.itemsize
            # The start of byte memory is what others take first; registers have their set users.
            first = len(region) - count if region.itemsize == 1 else self.first_register
            if first >= 0 and first + count <= len(region):
                items = "%dB" % count if region.itemsize == 1 else "<%dI" % count
                from wakeboard.loop import in_registers  # late: it is there for the first start

                part = region[first : first + count]
                return in_registers(part, items), struct.pack(items, *part), False
        return self.other_store() or self.file_store("wakeboard.bak", True)

    def other_store(self):
        """The same for what the port offers beside backup memory; None: nothing."""

    def file_store(self, path, wears):
        """The same for a file."""
        try:
            with open(path, "rb") as file:
                record = file.read()
        except OSError:
            record = b""
        return in_file(path), record, wears

    def wake_line(self, settings):
        """A function that sets the wake line; None when there is none.

        Raises ValueError or TypeError for a pin that the board does not have.
        """
        if settings["wake_pin"] is None:
            return None
        low = settings["wake_active"] == "low"
        mode = machine.Pin.OPEN_DRAIN if low else machine.Pin.OUT
        pin = machine.Pin(settings["wake_pin"], mode, value=int(low))
        return machine.Signal(pin, invert=low).value

    def streams(self, settings):
        """Reader and writer of the link; ValueError for a UART that the board does not have."""
        kind, *numbers = settings["stream"].split(":")
        if kind == "uart":
            uart = self.uart(*[int(number) for number in numbers])
            return uart, uart
        if kind != "repl" or numbers:
            raise ValueError
        return getattr(sys.stdin, "buffer", sys.stdin), getattr(sys.stdout, "buffer", sys.stdout)

    def uart(self, number, baud, *pins):
        """Open a UART, on its TX and RX pin where these are given."""
        if pins:
            return machine.UART(number, baud, tx=machine.Pin(pins[0]), rx=machine.Pin(pins[1]))
        return machine.UART(number, baud)

    def break_in(self, wanted):
        """Let Ctrl-C stop a program that a raw REPL runs, or not; on boards it always does."""

    def restart(self):
        """What starts the firmware anew, as a function."""
        return machine.reset
