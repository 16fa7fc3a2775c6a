"""A virtual world to run asyncio code in: years pass in seconds, the same way every time.

`VirtualLoop` never sleeps: when nothing is ready it jumps to the next deadline. Work for another
thread runs inline, so a run is deterministic. `VirtualClock` is a wall clock over that time which
can be stepped; `VirtualTimer` waits on it as the real deadline timer does.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from wakebridge.schedule.instants import Now

NS = 1_000_000_000

T = TypeVar("T")


class _JumpingSelector(selectors.BaseSelector):
    """Watches nothing; a wait is a jump of the clock."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = selectors.SelectorKey(fileobj, fd, events, data)
        self._keys[fd] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("the virtual world stands still: nothing is planned")
        self.now_s += max(timeout, 0.0)
        return []

    def get_map(self) -> Any:
        return {key.fileobj: key for key in self._keys.values()}


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop over virtual time."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s

    def run_in_executor(  # type: ignore[override] # the superclass spells its type variables out
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        """Run the work inline: its thread would make the order of events a matter of chance."""
        future = self.create_future()
        try:
            result = executor.submit(func, *args).result() if executor else func(*args)
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(result)
        return future


class VirtualClock:
    """A wall clock and a boot clock over a virtual loop; the wall clock can be stepped."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wall_ns: int) -> None:
        self._loop = loop
        self._offset_ns = wall_ns - self._loop_ns()
        self.stepped: list[Callable[[], None]] = []

    def _loop_ns(self) -> int:
        return round(self._loop.time() * NS)

    def now(self) -> Now:
        boot_ns = self._loop_ns()
        return Now(self._offset_ns + boot_ns, boot_ns)

    def step(self, by_ns: int) -> None:
        """Set the wall clock forward or back; waiting timers notice, as the kernel's do."""
        self._offset_ns += by_ns
        for notify in self.stepped:
            notify()

    def step_to(self, wall_ns: int) -> None:
        self.step(wall_ns - self.now().wall_ns)


class VirtualTimer:
    """Waits for a deadline on a `VirtualClock`."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._ready = asyncio.Event()
        clock.stepped.append(self._ready.set)

    def wake(self) -> None:
        self._ready.set()

    async def wait(self, now: Now, wall_ns: int | None, boot_ns: int | None) -> None:
        current = self._clock.now()
        delays = []
        if wall_ns is not None:
            delays.append(wall_ns - current.wall_ns)
        if boot_ns is not None:
            delays.append(boot_ns - current.boot_ns)
        alarm = None
        if delays:
            # A microsecond more, which a float may have rounded away: the deadline has passed then.
            delay_s = max(min(delays), 0) / NS + 1e-6
            alarm = self._loop.call_later(delay_s, self._ready.set)
        try:
            await self._ready.wait()
        finally:
            if alarm is not None:
                alarm.cancel()
        self._ready.clear()

    def close(self) -> None:
        self._clock.stepped.remove(self._ready.set)


def run_virtual(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """Run `main(loop)` to its end in a fresh virtual world."""
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main(loop))
    finally:
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        if pending:
            loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        asyncio.set_event_loop(None)
        loop.close()
