"""The line that wakes the host: one pulse per expired countdown, never into a live host."""

from wakeboard.countdown import Clock, Deadline

# A host that was heard lately is asked for a sign of life first. It confirms the pushed event
# within milliseconds when it is awake; when it has just gone to sleep, the wake is late by this.
CONFIRM_MS = 2000


class WakeLine:
    """Decides when to pulse and times the pulse; `level` is a function that sets the line."""

    def __init__(self, clock: Clock, level, pulse_ms: int, window_ms: int) -> None:
        """`window_ms` is how long a host counts as awake after it was heard; 0: pulse always."""
        self.pulses = 0
        self._level = level
        self._pulse_ms = pulse_ms
        self._window_ms = window_ms
        self._release = Deadline(clock)
        self._awake = Deadline(clock)
        self._confirm = Deadline(clock)
        level(0)

    def heard(self) -> None:
        """The host sent a request: it is awake."""
        self._confirm.stop()
        if self._window_ms:
            self._awake.start(self._window_ms)

    def wake(self) -> None:
        """Wake the host, unless it turns out to be awake."""
        if self.host_awake():
            self._confirm.start(CONFIRM_MS)
        else:
            self.begin()

    def host_awake(self) -> bool:
        """Whether the host was heard within the window."""
        return self._awake.running and self._awake.left_ms() > 0

    def begin(self) -> None:
        """Pulse now."""
        self._confirm.stop()
        self._release.start(self._pulse_ms)
        self.pulses += 1
        self._level(1)

    def step(self) -> None:
        """Do what is due."""
        if not self._confirm.left_ms():
            self.begin()
        if not self._release.left_ms():
            self.release()

    def left_ms(self) -> int:
        """Milliseconds until something is due."""
        return min(self._confirm.left_ms(), self._release.left_ms())

    def release(self) -> None:
        """Let go of the line."""
        self._release.stop()
        self._level(0)
