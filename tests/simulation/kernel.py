"""Virtual time: one heap of what happens when, and an event loop for a host that can be frozen.

The world's time is an int of nanoseconds. A host's loop lives on the host's monotonic clock, which
stands still while the host is suspended, as Linux's does; the world runs it callback by callback,
so that a host can be killed between any two of them.
"""

import asyncio
import asyncio.events
import functools
import heapq
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from .properties import RESTS

NS: Final = 1_000_000_000
MS: Final = 1_000_000
DAY: Final = 86_400 * NS
YEAR: Final = 365 * DAY + DAY // 4

# More callbacks than this at one instant is a loop that does not come to rest.
_CALLBACKS_AT_ONE_INSTANT: Final = 200_000

# A callback that takes this much processor time, and at most twice as much, does not end.
_STUCK_S: Final = 5.0


class Violation(BaseException):
    """A property does not hold. `name` starts with the requirement it guards.

    No `Exception`: code that survives everything must not survive its judge.
    """

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name
        self.detail = detail

    def __reduce__(self) -> tuple[type["Violation"], tuple[str, str]]:
        """Let a process tell another of it."""
        return Violation, (self.name, self.detail)


class PowerCut(BaseException):
    """Raised inside a write to end the host in the middle of it."""


class Planned:
    """One entry of the world's heap."""

    __slots__ = ("callback", "when_ns")

    def __init__(self, when_ns: int, callback: Callable[[], None]) -> None:
        self.when_ns = when_ns
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Agenda:
    """The world's time and what is planned in it."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._heap: list[tuple[int, int, Planned]] = []
        self._serial = 0

    def at(self, when_ns: int, callback: Callable[[], None]) -> Planned:
        planned = Planned(max(when_ns, self.now_ns), callback)
        self._serial += 1
        heapq.heappush(self._heap, (planned.when_ns, self._serial, planned))
        return planned

    def after(self, delay_ns: int, callback: Callable[[], None]) -> Planned:
        return self.at(self.now_ns + delay_ns, callback)

    def next_ns(self) -> int | None:
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run_next(self) -> None:
        """Let the earliest planned thing happen, which must be due."""
        planned = heapq.heappop(self._heap)[2]
        callback = planned.callback
        planned.callback = None
        if callback is not None:
            callback()

    def __len__(self) -> int:
        return len(self._heap)


@contextmanager
def kept_going(agenda: Agenda) -> Iterator[None]:
    """While this is entered, code that does not come back is a `Violation` and not a hang."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are for the main thread
        return
    seen_ns = -1

    def look(_signal: int, _frame: object) -> None:
        nonlocal seen_ns
        if agenda.now_ns == seen_ns:
            raise Violation(RESTS, "a callback does not end")
        seen_ns = agenda.now_ns

    before = signal.signal(signal.SIGVTALRM, look)
    signal.setitimer(signal.ITIMER_VIRTUAL, _STUCK_S, _STUCK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _fail(future: asyncio.Future[Any], *, error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


class HostLoop(asyncio.BaseEventLoop):
    """An event loop that is run by the world. Nothing in it sleeps or reads a real clock."""

    _ready: Any
    _scheduled: Any
    _timer_cancelled_count: int

    def __init__(self, monotonic_ns: Callable[[], int]) -> None:
        super().__init__()
        self._monotonic_ns = monotonic_ns
        self._base_ns = monotonic_ns()
        self.steps = 0
        self.crash_at_step: int | None = None
        self.disk_delay_ns: Callable[[], int] = lambda: 0
        """How long the disk takes for the next work that is given to a thread."""
        self.dead = False
        self.set_exception_handler(self._failed)
        self.failures: list[dict[str, Any]] = []

    def _failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.failures.append(context)

    def time(self) -> float:
        return (self._monotonic_ns() - self._base_ns) / NS

    def run_in_executor(  # type: ignore[override]  # as loose as it is used
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        """Run the work inline: its thread would make the order of events a matter of chance.

        On a slow disk it is heard of later: a host can die between.
        An executor of a store's own is slowed down where that store is watched.
        """
        future = self.create_future()
        delay_ns = self.disk_delay_ns() if executor is None else 0
        tell = self._carry_out(func, args)
        if delay_ns:
            self.call_later(delay_ns / NS, tell, future)
        else:
            tell(future)
        return future

    def _carry_out(
        self, func: Callable[..., Any], args: tuple[Any, ...]
    ) -> Callable[[asyncio.Future[Any]], None]:
        """Do the work, and return what tells a future how it went."""
        try:
            result = func(*args)
        except PowerCut:
            self.dead = True
            return lambda _future: None  # nobody is there to hear of it
        except Exception as error:
            return functools.partial(_fail, error=error)
        return lambda future: None if future.done() else future.set_result(result)

    def _write_to_self(self) -> None:
        """Nothing waits for a selector here."""

    def run_ready(self) -> None:
        """Run callbacks until there is nothing to do at this instant, or the host dies."""
        asyncio.events._set_running_loop(self)
        try:
            budget = _CALLBACKS_AT_ONE_INSTANT
            while not self.dead:
                self._take_due()
                if not self._ready:
                    return
                handle = self._ready.popleft()
                if handle._cancelled:
                    continue
                handle._run()
                handle = None
                self.steps += 1
                if self.crash_at_step is not None and self.steps >= self.crash_at_step:
                    self.dead = True
                budget -= 1
                if not budget:
                    raise Violation(RESTS, "the host's loop does not come to rest")
        finally:
            asyncio.events._set_running_loop(None)

    def _take_due(self) -> None:
        now = self.time()
        scheduled = self._scheduled
        while scheduled and (scheduled[0]._cancelled or scheduled[0]._when <= now):
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            if handle._cancelled:
                self._timer_cancelled_count -= 1
            else:
                self._ready.append(handle)

    def _timer_handle_cancelled(self, handle: Any) -> None:
        self._timer_cancelled_count += 1
        if self._timer_cancelled_count > 100 and self._timer_cancelled_count * 2 > len(
            self._scheduled
        ):
            kept = []
            for planned in self._scheduled:
                if planned._cancelled:
                    planned._scheduled = False
                else:
                    kept.append(planned)
            heapq.heapify(kept)
            self._scheduled = kept
            self._timer_cancelled_count = 0

    def next_delay_ns(self) -> int | None:
        """Return how long until the loop has something to do; None when it only waits."""
        if self._ready:
            return 0
        scheduled = self._scheduled
        while scheduled and scheduled[0]._cancelled:
            heapq.heappop(scheduled)._scheduled = False
            self._timer_cancelled_count -= 1
        if not scheduled:
            return None
        # A microsecond more than the float says, so that the deadline has passed.
        return max(int((scheduled[0]._when - self.time()) * NS), 0) + 1_000

    @property
    def timers(self) -> int:
        """How many live timers there are."""
        return len(self._scheduled) - self._timer_cancelled_count

    def abandon(self) -> None:
        """Forget everything at once, as a killed process does."""
        self.dead = True
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine: Any = task.get_coro()
            try:
                coroutine.close()
            except (RuntimeError, asyncio.CancelledError):
                continue
        self._ready.clear()
        self._scheduled.clear()
        self.close()
