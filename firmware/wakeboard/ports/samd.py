"""Microchip SAMD51.

Ticks: SysTick; from a 32 kHz crystal where the board has one, else from the DFLL.
Backup: `machine.mem_backup` from MicroPython 1.29 on: backup RAM, which survives everything, with a
battery power loss too. Before 1.29 a file.
Reset causes: by name.
Wake line: any GPIO, by its name.
Sleep: light sleep up to 24.8 days, at 200 kHz; USB does not survive it.
Stream: USB, whose ring holds 128 bytes, or a UART with its pins.
Not possible: the SAMD21: it has neither `select` nor CRC-32, nor room for this firmware.
"""

from wakeboard import ports


class Port(ports.Port):
    """The samd port."""

    sleep_max_ms = 0x7FFFFFFF
