"""Light sleep between two looks at the stream, for boards that run on a battery.

Off unless `board.json` asks for it: a sleeping board hears nothing, so that a host, or a technician
who wants to break in, has to try until it listens. It sleeps only while the host is not awake, and
never longer than until the next deadline; a week is many short sleeps, far below any port's limit.
"""

import machine
from micropython import const

from wakeboard.link import Link

_LISTEN_MS = const(500)
_TICKS_MASK = const(0x3FFFFFFF)


class SleepyLink(Link):
    """A link that sleeps for a part of the time it waits."""

    def __init__(self, port, streams, line):
        """`line` is the wake line, which knows whether the host is awake."""
        super().__init__(*streams)
        self.line = line
        self._port_ticks_ms = port.ticks_ms
        self._sleep = getattr(port, "sleep", _sleep)
        self._sleep_max_ms = port.sleep_max_ms
        self._uncounted_ms = 0

    def ticks_ms(self):
        """The port's ticks and the time that they did not count."""
        return (self._port_ticks_ms() + self._uncounted_ms) & _TICKS_MASK

    def receive(self, timeout_ms):
        """Listen, then sleep for the rest of the time."""
        payload = super().receive(min(timeout_ms, _LISTEN_MS))
        ms = min(timeout_ms - _LISTEN_MS, self._sleep_max_ms)
        if payload is None and ms > 0 and not self.line.awake_left_ms and self.line.left_ms < 0:
            self._uncounted_ms += self._sleep(ms)
        return payload


def _sleep(ms):
    machine.lightsleep(ms)
    return 0
