"""STM32: F4, F7, H5, H7, L4, WB and others, the Pyboard among them.

Ticks: SysTick, from a crystal or an RC oscillator as the board has it; it stops in light sleep,
whose length is then taken from the RTC.
Backup: `machine.mem_backup` from MicroPython 1.29 on: backup SRAM, or RTC registers from the second
on, as the first and the last have other users. They survive everything, with a battery on VBAT
power loss too. Before 1.29 a file.
Reset causes: all by name.
Wake line: any GPIO, by its name.
Sleep: light sleep up to 36.4 hours in one go; USB does not survive it.
Stream: USB or a UART, whose pins are fixed. USB that is open and not read blocks a write for half a
second per byte, so that nothing is written unless there is room.
Not possible: UART pins of one's choice; sleep while USB is the stream. Parts without a random
generator (F401, F411) draw the boot id from their clocks.
"""

import os
import time
from binascii import crc32

import machine

from wakeboard import ports


class Port(ports.Port):
    """The stm32 port."""

    first_register = 1
    sleep_max_ms = 131072000

    def boot_id(self):
        """Eight bytes from the random generator, else from clocks that no two boots share."""
        if hasattr(os, "urandom"):
            return os.urandom(8)
        clocks = (machine.unique_id(), time.time_ns(), time.ticks_us(), time.ticks_cpu())
        first = crc32(str(clocks).encode())
        second = crc32(str(time.ticks_cpu()).encode(), first)
        return first.to_bytes(4, "big") + second.to_bytes(4, "big")

    def uart(self, number, baud, *pins):
        """A UART on its own pins; ValueError for other ones."""
        if pins:
            raise ValueError
        return machine.UART(number, baud)

    def sleep(self, ms):
        """Sleep lightly; the milliseconds that the ticks did not count, by the RTC."""
        ticks_ms = time.ticks_ms()
        began_ns = time.time_ns()
        machine.lightsleep(ms)
        passed_ms = (time.time_ns() - began_ns) // 1000000
        return max(0, passed_ms - time.ticks_diff(time.ticks_ms(), ticks_ms))
