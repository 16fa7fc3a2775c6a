"""The line that wakes the host: one pulse per expired countdown, never into a live host."""

from micropython import const

# A host that was heard lately is asked for a sign of life first. It confirms the pushed event
# within milliseconds when it is awake; when it has just gone to sleep, the wake is late by this.
_CONFIRM_MS = const(2000)

# Who started the board may be its host, and needs as long until its port is back and it speaks.
_GREETING_MS = const(10000)

# While the loop stood still, which makes a longer step than its waits, nobody could be heard.
_LISTENED_MAX_MS = const(6000)


class WakeLine:
    """Decides when to pulse, and times the pulse."""

    def __init__(self, level: object, pulse_ms: int, awake_ms: int) -> None:
        """`level` sets the line (1: wake), None: there is none.

        A host counts as awake for `awake_ms` after each request, and for a moment after a start.
        """
        self.level = level
        self.pulse_ms = pulse_ms
        self.awake_ms = awake_ms
        self.awake_left_ms = min(awake_ms, _GREETING_MS)
        self.pulses = self.unanswered = 0
        self.set(0)

    def set(self, active: int) -> None:
        """Begin a pulse (1), or let go of the line (0)."""
        self.active = active
        # until something is due; negative: nothing is
        self.left_ms = self.pulse_ms if active else -1
        if self.level:
            self.level(active)
            self.pulses += active
            self.unanswered += active

    def heard(self) -> None:
        """The host sent a request: it is awake, and what it was to be woken for reached it."""
        self.awake_left_ms = self.awake_ms
        self.unanswered = 0
        if not self.active:
            self.left_ms = -1

    def wake(self) -> None:
        """Wake the host, unless it turns out to be awake."""
        if self.awake_left_ms > 0:
            self.left_ms = _CONFIRM_MS
        else:
            self.set(1)

    def count(self, ms: int) -> None:
        """Let time pass, and do what falls due."""
        self.awake_left_ms = max(0, self.awake_left_ms - min(ms, _LISTENED_MAX_MS))
        if self.left_ms >= 0:
            self.left_ms -= ms
            if self.left_ms <= 0:
                self.set(1 - self.active)
