"""Time on a board: the clock, deadlines on it, and the countdown that wakes the host.

Nothing here reads a clock. The shell feeds `Clock.advance` with the board's millisecond ticks,
often enough (every few seconds; the hard limit is `_TICKS_HALF`, 6.2 days).
"""

from wakewire.codes import STATE_ARMED, STATE_EXPIRED, STATE_IDLE
from wakewire.limits import COUNTDOWN_MAX_MS, COUNTDOWN_MIN_MS

try:
    from micropython import const
except ImportError:  # under CPython, in tests and in the simulator
    const = int

# Ticks are counted modulo 2^30 ms on 32-bit boards. Masking the difference gives the same step on
# builds with wider ticks, so the arithmetic is one and the same everywhere.
_TICKS_MASK = const(0x3FFFFFFF)
_TICKS_HALF = const(0x20000000)

NEVER_MS = 0x3FFFFFFF  # longer than any countdown, and still a small int on a 32-bit board


class Clock:
    """Time since the firmware started, as whole seconds and the milliseconds beside them.

    Two small ints: one count of milliseconds would leave the small-int range of a 32-bit board
    after 12.4 days and allocate at every step from then on.
    """

    def __init__(self, ticks_ms: int) -> None:
        self.s = 0
        self.ms = 0
        self._last = ticks_ms

    def advance(self, ticks_ms: int) -> None:
        """Move on to the reading `ticks_ms`; a reading that ran backwards moves nothing."""
        step_ms = (ticks_ms - self._last) & _TICKS_MASK
        self._last = ticks_ms
        if step_ms < _TICKS_HALF:
            self.add(step_ms)

    def add(self, step_ms: int) -> None:
        """Move on by `step_ms`, for time that the ticks did not count (some ports' sleep)."""
        ms = self.ms + step_ms
        self.s += ms // 1000
        self.ms = ms % 1000

    def uptime_ms(self) -> int:
        """Milliseconds since the firmware started; a heap object after 12.4 days."""
        return self.s * 1000 + self.ms


class Deadline:
    """One instant on a clock, at most `NEVER_MS` ahead when it is set."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.running = False
        self._s = 0
        self._ms = 0

    def start(self, delay_ms: int) -> None:
        """Let it fall due `delay_ms` from now."""
        ms = self.clock.ms + delay_ms
        self._s = self.clock.s + ms // 1000
        self._ms = ms % 1000
        self.running = True

    def stop(self) -> None:
        """Let it never fall due."""
        self.running = False

    def left_ms(self) -> int:
        """Milliseconds until it is due, 0 from then on, `NEVER_MS` when it is stopped."""
        if not self.running:
            return NEVER_MS
        left_ms = (self._s - self.clock.s) * 1000 + self._ms - self.clock.ms
        return left_ms if left_ms > 0 else 0


class Countdown(Deadline):
    """The one countdown of a board: idle, armed, or expired with the token that expired."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.state = STATE_IDLE
        self.token = 0
        self.duration_ms = 0
        self.approximate = False

    def arm(self, token: int, duration_ms: int) -> bool:
        """Count `duration_ms` down for `token`; False when exactly that is running already.

        Raises:
            ValueError: the duration is outside the limits; what runs is left alone.
        """
        if not COUNTDOWN_MIN_MS <= duration_ms <= COUNTDOWN_MAX_MS:
            raise ValueError
        if (
            self.state == STATE_ARMED
            and not self.approximate
            and self.token == token
            and self.duration_ms == duration_ms
        ):
            return False
        self._begin(token, duration_ms, False)
        return True

    def restore(self, token: int, remaining_ms: int) -> None:
        """Go on with a countdown from before a restart; how long that took is only estimated."""
        self._begin(token, remaining_ms, True)

    def restore_expired(self, token: int) -> None:
        """Remember a countdown that had expired before a restart."""
        self.token = token
        self.state = STATE_EXPIRED
        self.approximate = True

    def cancel(self) -> None:
        """Stop counting and forget the token."""
        self.stop()
        self.state = STATE_IDLE
        self.token = self.duration_ms = 0
        self.approximate = False

    def expire(self) -> bool:
        """Whether the countdown ran out since the last call: true once per countdown."""
        if self.state != STATE_ARMED or self.left_ms():
            return False
        self.stop()
        self.state = STATE_EXPIRED
        return True

    def remaining_ms(self) -> int:
        """Milliseconds left while armed, else 0."""
        return self.left_ms() if self.running else 0

    def _begin(self, token: int, duration_ms: int, approximate: bool) -> None:
        self.token = token
        self.duration_ms = duration_ms
        self.approximate = approximate
        self.state = STATE_ARMED
        self.start(duration_ms)
