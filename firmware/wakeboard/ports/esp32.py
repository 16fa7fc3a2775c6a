"""ESP32 and its relatives.

Ticks: the 64-bit esp_timer, from the crystal while awake. In light sleep the RC oscillator takes
over, which may be off by percents; the ticks go on.
Backup: `machine.mem_backup` from MicroPython 1.29 on, before that `RTC().memory()`; both lie in RTC
memory and survive soft reset, reset, watchdog and deep sleep, not power loss nor the EN button.
Reset causes: all by name; brownout counts as power on.
Wake line: any output pin. Pins 34 to 39 of the first ESP32 are inputs only.
Sleep: light sleep up to 24.8 days; native USB does not survive it, a UART bridge loses what comes
meanwhile. Stream: the console (UART0, native USB), or a UART with its pins.
Not possible: to keep the countdown over a power loss; to sleep while native USB is the stream.
"""

import esp
import machine
from micropython import const

from wakeboard import ports

_CLOCK_CRYSTAL = const(1)


class Port(ports.Port):
    """The esp32 port."""

    clock_quality = _CLOCK_CRYSTAL
    sleep_max_ms = 0x7FFFFFFF

    def other_store(self):
        """RTC memory, as all versions have it."""
        memory = machine.RTC().memory
        return memory, bytes(memory()), False

    def streams(self, settings):
        """The same as everywhere, without the log lines of IDF amid the frames."""
        esp.osdebug(None)
        return super().streams(settings)
