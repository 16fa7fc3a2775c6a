"""A supervisor whose callbacks are recorded, and a clock that can jump as in a suspend."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from wakebridge.board.client import BoardClient, Port, Reading, timer_reading
from wakebridge.board.supervisor import Supervisor
from wakebridge.clock import SystemClock
from wakebridge.schedule.instants import Now
from wakebridge.wake.planner import plan
from wakebridge.wake.reconciler import Arm, CountdownState, TimerReading, reconcile
from wakewire.messages import Event, Hello

T = TypeVar("T")

S = 1_000_000_000
LEASE = 0x51AB


class SkewedClock:
    """The system's clocks, `skew_ns` ahead: time that passed without the test waiting for it."""

    def __init__(self) -> None:
        self.skew_ns = 0

    def now(self) -> Now:
        now = SystemClock().now()
        return Now(now.wall_ns + self.skew_ns, now.boot_ns + self.skew_ns)


class Supervised:
    """Records what a supervisor tells, and waits for it."""

    def __init__(self, opener: Callable[[], Awaitable[Port]]) -> None:
        self.clock = SkewedClock()
        self.ups: list[tuple[BoardClient, Hello]] = []
        self.downs: list[str] = []
        self.hints: list[Event] = []
        self.console = ""
        self._told = asyncio.Event()
        self.supervisor = Supervisor(
            opener,
            self.clock,
            on_up=lambda client, hello: self._tell(self.ups, (client, hello)),
            on_down=lambda reason: self._tell(self.downs, reason),
            on_hint=lambda event: self._tell(self.hints, event),
            on_console=self._print,
        )

    def _tell(self, told: list[T], what: T) -> None:
        told.append(what)
        self._told.set()

    def _print(self, text: str) -> None:
        self.console += text
        self._told.set()

    @property
    def client(self) -> BoardClient:
        assert self.supervisor.client is not None
        return self.supervisor.client

    async def until(self, condition: Callable[["Supervised"], bool], within_s: float = 10) -> None:
        """Wait until what was told satisfies `condition`."""
        async with asyncio.timeout(within_s):
            while not condition(self):
                self._told.clear()
                await self._told.wait()

    async def problem(self, words: str, within_s: float = 15) -> None:
        """Wait until the supervisor says why there is no link; it tells nobody, so look often."""
        async with asyncio.timeout(within_s):
            while words not in self.supervisor.problem:  # noqa: ASYNC110 - nothing to await
                await asyncio.sleep(0.02)

    async def up(self, times: int = 1, within_s: float = 10) -> BoardClient:
        """Wait for the link to come up for the nth time; return the client."""
        await self.until(lambda told: len(told.ups) >= times, within_s)
        return self.ups[-1][0]

    async def bring_to(self, due_ns: int) -> TimerReading:
        """Do what the bridge does after `on_up`: read, plan, compare, change one thing at most.

        Returns what the board said before the change.
        """
        answer = await self.client.timer_get()
        assert isinstance(answer, Reading)
        now = self.clock.now()
        rate = self.supervisor.rate.estimate()
        desired = plan(now, due_ns, lease=LEASE, lead_s=0, rate=rate)
        action = reconcile(desired, timer_reading(answer), now, lease=LEASE, rate=rate)
        if isinstance(action, Arm):
            await self.client.timer_set(action.token, action.duration_ms)
        return timer_reading(answer)

    async def remaining_ms(self) -> int:
        """Read what remains of an armed countdown."""
        answer = await self.client.timer_get()
        assert isinstance(answer, Reading)
        reading = timer_reading(answer)
        assert reading.state is CountdownState.ARMED
        assert not reading.approximate
        return reading.remaining_ms
