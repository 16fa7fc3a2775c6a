"""NXP i.MX RT: the Teensy 4, the Seeed Arch Mix, the evaluation kits.

Ticks: a 64-bit timer at 1 MHz, from the 24 MHz crystal.
Backup: `machine.mem_backup` from MicroPython 1.29 on: three registers of the low-power domain. They
survive everything, with a battery power loss too. Before 1.29 a file.
Reset causes: by name; the wake from deep sleep has a number without one.
Wake line: any GPIO, by its name.
Sleep: none, as light sleep does not exist here.
Stream: USB or a UART, whose pins are fixed.
Not possible: light sleep; UART pins of one's choice.
"""

import machine
from micropython import const

from wakeboard import ports

_CLOCK_CRYSTAL = const(1)
_RESET_DEEP_SLEEP = const(4)
_PORT_DEEP_SLEEP = const(4)  # what reset_cause() says; it has no name


class Port(ports.Port):
    """The mimxrt port."""

    clock_quality = _CLOCK_CRYSTAL

    def reset_cause(self):
        """The same as everywhere, and the cause without a name."""
        if machine.reset_cause() == _PORT_DEEP_SLEEP:
            return _RESET_DEEP_SLEEP
        return super().reset_cause()

    def uart(self, number, baud, *pins):
        """A UART on its own pins; ValueError for other ones."""
        if pins:
            raise ValueError
        return machine.UART(number, baud)
