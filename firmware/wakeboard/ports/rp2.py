"""RP2040 and RP2350.

Ticks: the 64-bit microsecond timer, from the crystal; it goes on in light sleep.
Backup: `machine.mem_backup` from MicroPython 1.29 on: watchdog scratch registers 0 to 3, which
survive soft reset, reset, watchdog and deep sleep, not power loss. Before 1.29 a file.
Reset causes: power on and watchdog only; `machine.reset()` and deep sleep look like the watchdog.
Wake line: any GPIO.
Sleep: light sleep up to 71.6 minutes in one go; USB stays, and ends a sleep early.
Stream: USB or a UART with its pins.
Not possible: to tell a reset from a watchdog; to keep the countdown over a power loss.
"""

from micropython import const

from wakeboard import ports

_CLOCK_CRYSTAL = const(1)


class Port(ports.Port):
    """The rp2 port."""

    clock_quality = _CLOCK_CRYSTAL
    sleep_max_ms = 4294966
