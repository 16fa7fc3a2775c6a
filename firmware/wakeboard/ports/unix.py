"""The board on the desk: MicroPython's unix port behind a pseudo-terminal.

Ticks: CLOCK_MONOTONIC, which stands still while the desk itself is suspended; WAKEBOARD_CLOCK_PPM
or the file WAKEBOARD_CLOCK_PPM_FILE lets it run fast (positive) or slow, in parts per million.
Backup: the file WAKEBOARD_BACKUP, which whoever plays the power supply deletes at a power loss.
Wake line: each level is written as a line to the FIFO WAKEBOARD_WAKE_LINE, whatever pin is set.
Reset cause and restart: from the desk's own `machine` module; without one unknown, and an exit.
Stream: standard input and output.
Not possible: pins, UARTs, sleep.
"""

import os
import sys
import termios
import time

import machine
from micropython import const

from wakeboard import ports

_CLOCK_CRYSTAL = const(1)
_PPM_CHECK_US = const(500000)  # how often the file with the clock's rate is read again
_LFLAG = const(3)
_INTERRUPTS = const(0x81)  # ISIG and NOFLSH, as Linux numbers them


class Port(ports.Port):
    """The unix port; its hardware is in the environment."""

    clock_quality = _CLOCK_CRYSTAL

    def __init__(self):
        self._ppm = float(os.getenv("WAKEBOARD_CLOCK_PPM") or 0)
        self._ppm_file = os.getenv("WAKEBOARD_CLOCK_PPM_FILE")
        self._raw_us = self._checked_us = time.ticks_us()
        self._us = time.ticks_diff(self._raw_us, 0) * 1.0  # as absolute as the ticks
        self._read_ppm()

    def ticks_ms(self):
        """Ticks at the wanted rate; a change of the rate makes them no jump."""
        raw_us = time.ticks_us()
        self._us += time.ticks_diff(raw_us, self._raw_us) * (1 + self._ppm / 1000000)
        self._raw_us = raw_us
        if time.ticks_diff(raw_us, self._checked_us) > _PPM_CHECK_US:
            self._checked_us = raw_us
            self._read_ppm()
        return int(self._us) // 1000

    def _read_ppm(self):
        if self._ppm_file:
            try:
                with open(self._ppm_file) as file:
                    self._ppm = float(file.read())
            except (OSError, ValueError):
                pass  # it is being written: the rate stays as it was

    def other_store(self):
        """The file of the desk's backup memory, which wears nothing."""
        path = os.getenv("WAKEBOARD_BACKUP")
        return self.file_store(path, False) if path else None

    def wake_line(self, settings):
        """The FIFO that whoever watches the line reads; without one there is no line."""
        path = os.getenv("WAKEBOARD_WAKE_LINE")
        if not path:
            return super().wake_line(settings)

        def level(active):
            with open(path, "wb") as line:
                line.write(b"1\n" if active else b"0\n")

        return level

    def break_in(self, wanted):
        """Switch the terminal's interrupt character, which the raw REPL of this port leaves off."""
        mode = termios.tcgetattr(0)
        mode[_LFLAG] = _INTERRUPTS if wanted else 0
        termios.tcsetattr(0, termios.TCSANOW, mode)

    def restart(self):
        """Reset the desk board; without a desk end the process."""
        return machine.reset if hasattr(machine, "reset") else sys.exit
