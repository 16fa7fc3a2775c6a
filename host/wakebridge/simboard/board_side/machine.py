"""The parts of `machine` that every board has and the unix MicroPython lacks.

Lies on the desk board's `sys.path` only. A reset is asked of the desk, which owns the process.
"""
# mypy: ignore-errors
# ruff: noqa: F403, PTH123 -- MicroPython: this extends a builtin module, there is no pathlib

import os
import sys
import time

_path = sys.path
sys.path = ()
try:
    from machine import *
finally:
    sys.path = _path
    del _path

PWRON_RESET = 1
HARD_RESET = 2
WDT_RESET = 3
DEEPSLEEP_RESET = 4
SOFT_RESET = 5

_CAUSES = {"power_on": 1, "hard": 2, "watchdog": 3, "deep_sleep": 4, "soft": 5}


def reset():
    """Restart the board as its reset button does."""
    with open("/desk/requests", "wb") as desk:
        desk.write(b"reset\n")
    while True:  # the desk ends this process; nothing of the program runs on
        time.sleep(1)


def reset_cause():
    """Return why the board started, as one of the constants above."""
    return _CAUSES.get(os.getenv("WAKEBOARD_RESET_CAUSE"), 0)


def unique_id():
    """Return the bytes that tell this board from others."""
    import binascii

    return binascii.unhexlify(os.getenv("WAKEBOARD_UNIQUE_ID"))


class RTC:
    """A calendar that starts with the host's and can be set, for `mpremote rtc`."""

    _offset_s = 0

    def datetime(self, when=None):
        """Return the calendar, or set it, as (year, month, day, weekday, h, min, s, subsecond)."""
        if when is None:
            now = time.gmtime(int(time.time()) + RTC._offset_s)
            return (now[0], now[1], now[2], now[6], now[3], now[4], now[5], 0)
        wanted = time.mktime((when[0], when[1], when[2], when[4], when[5], when[6], 0, 0))
        RTC._offset_s = int(wanted) - int(time.mktime(time.gmtime()))
        return None
