"""What the writer of routines knows of the wall clock: its steps, and whether it is right (R6)."""

from collections.abc import Callable

from wakebridge.engine import STEP_NOTICED_NS
from wakebridge.routine import clock_step
from wakebridge.routine.state import RoutineState
from wakebridge.schedule.instants import Now


class ClockSense:
    """Compares the clocks at each transition with those at the last one.

    The clock is doubted when it was wrong at the start and has not been put right yet: when others
    know it, as `others_doubt` says, or when it reads earlier than the newest write.
    """

    def __init__(self, others_doubt: Callable[[], bool]) -> None:
        self._others_doubt = others_doubt
        self._doubted_by_others = False
        self._others_doubted_then = False
        self._past_ns = 0
        self._wall_minus_boot_ns = 0

    def begin(self, state: RoutineState, now: Now) -> None:
        """Take the state that was loaded, and the clock at its loading."""
        self._past_ns, self._doubted_by_others = state.written_ns, True
        self._others_doubted_then = self._others_doubt()
        self.settle(now)

    def doubted(self, now: Now) -> bool:
        """Whether a clock that was wrong at the start has not been put right yet."""
        return (self._doubted_by_others and self._others_doubt()) or now.wall_ns < self._past_ns

    def followed(self, state: RoutineState, now: Now) -> RoutineState:
        """Return the state with every step since the last transition followed; `now` is now."""
        # Kept for `settle`: while this is saved, the clock may be stepped and believed from then
        # on, and that step is one that puts it right.
        self._others_doubted_then = self._others_doubt()
        step_ns = now.wall_ns - now.boot_ns - self._wall_minus_boot_ns
        if abs(step_ns) >= STEP_NOTICED_NS:
            # As it was before the step, which may be what ends the doubt.
            doubted = self._doubted_by_others or now.wall_ns - step_ns < self._past_ns
            state = clock_step.clock_stepped(state, step_ns, now, doubted=doubted).state
        if not self.doubted(now):
            state = clock_step.clock_believed(state).state
        return state

    def written_ns(self, now: Now) -> int:
        """Return the time for a write to record; a wrong clock takes no knowledge back (E71)."""
        return max(now.wall_ns, self._past_ns)

    def settle(self, now: Now) -> None:
        """Take the clock as the state goes by it; one that was right then is trusted from there on.

        `now` is that of `followed`, which may lie a slow write back.
        """
        self._wall_minus_boot_ns = now.wall_ns - now.boot_ns
        self._doubted_by_others = self._doubted_by_others and self._others_doubted_then
        if now.wall_ns >= self._past_ns:
            self._past_ns = 0
