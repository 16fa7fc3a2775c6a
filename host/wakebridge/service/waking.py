"""Keeps the board's one countdown equal to what is planned, and takes its wakes.

Whenever the plan, the link or the countdown changes, and once a minute besides, one pass runs: read
the live countdown, read the events after the cursor, hand the wakes on, plan, make at most one
change. A pass that fails needs no undo: the next one starts from the live countdown again.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from wakebridge.board.client import BoardClient, Reading, timer_reading
from wakebridge.board.connection import Refusal
from wakebridge.board.errors import LinkError
from wakebridge.clock import Clock
from wakebridge.schedule.instants import Now
from wakebridge.store.errors import StoreError
from wakebridge.timeline import note
from wakebridge.wake.board_rate import BoardRate
from wakebridge.wake.planner import Plan, lease_of, plan, token_for
from wakebridge.wake.reconciler import (
    Action,
    Arm,
    CountdownState,
    Disarm,
    Foreign,
    Keep,
    TimerReading,
    reconcile,
)
from wakewire.messages import Event, Hello, TimerState

log = logging.getLogger(__name__)

# How often a healthy, unchanged countdown is read back. It is also how soon a board that hangs
# without closing its port is noticed, and what the board's clock is measured with. Two frames.
# Well below `awake_window_s`, the time for which a board takes a silent host for awake.
READBACK_S: Final = 60.0

# Soon after the link is up it is read more often: two readings apart tell how fast the board's
# clock runs, and a host may go to sleep soon.
FIRST_READBACKS_S: Final = (5.0, 10.0, 30.0)

# When a countdown should have run out and no hint came for so long, it is read back: the hint may
# be lost, and routines wait for nothing else.
HINT_LATE_S: Final = 1.0

# After a pass that failed on a live link; a broken link starts a new pass when it is back.
RETRY_S: Final = 2.0

# A countdown that was read longer ago is read once more before it is changed: the host may have
# slept since, or the disk was slow, and somebody else may have set one in the meantime (R9). Longer
# than a request and its repetitions take, so that a bad line does not keep it from being fresh.
READING_OLD_NS: Final = 4 * 1_000_000_000

# Passes that pushed events cause are so far apart. Each may commit a cursor and print a line; one
# wake is not late by it, as the first hint is heeded at once.
HINT_GAP_S: Final = 0.25

# Events of one pass that are put on the time line: the newest. Honest boards keep some dozens.
EVENTS_NOTED_MAX: Final = 12

# How long an answer waits for its countdown to be confirmed. A round trip takes milliseconds on USB
# and some tens of them at 115 200 baud; a client's own retries need longer.
CONFIRM_S: Final = 3.0

# The lease of countdowns that were set by hand through the HTTP interface.
MANUAL_LEASE: Final = 0


class WakeSink(Protocol):
    """Who takes confirmed wake events: the writer of routines."""

    def cursor(self) -> tuple[bytes, int]:
        """Return boot id and sequence number of the newest event dealt with."""
        ...

    async def woken(self, boot_id: bytes, events: Sequence[Event], expired_token: int) -> None:
        """Commit the cursor and what became due, together (R41).

        `expired_token` is the token of a countdown that reads expired, else 0 (R42).
        """
        ...


class Armed(msgspec.Struct, frozen=True):
    """What is known of the countdown after a pass: for people, and for the retained state.

    `error` is empty exactly when the live countdown was read back and agrees with the plan (R8).
    """

    error: str
    state: str = "unknown"
    token: int = 0
    remaining_ms: int = 0
    target_ns: int | None = None
    leg: str | None = None
    ours: bool = False


class Conflict(Exception):  # noqa: N818 - the state of the countdown, named as HTTP names it
    """The countdown is owned by schedules and is not for anybody else to change (R46)."""


class Waking:
    """The countdown and its owner. `earliest` returns the earliest due instant of all domains.

    `observers` are called with an `Armed` after each pass that changed what is known.
    """

    def __init__(
        self,
        clock: Clock,
        rate: BoardRate,
        sink: WakeSink,
        earliest: Callable[[Now], int | None],
        *,
        lease: int,
        lead_s: float = 0.0,
    ) -> None:
        self._clock = clock
        self._rate = rate
        self._sink = sink
        self._earliest = earliest
        self._lease = lease
        self._lead_s = lead_s
        self._client: BoardClient | None = None
        self._hello: Hello | None = None
        self._readbacks = 0
        self._down_reason = "the board has not been found yet"
        self._hint_waits: asyncio.TimerHandle | None = None
        self._hints_again_s = 0.0
        self._poke = asyncio.Event()
        self._passes: list[asyncio.Future[None]] = []
        self._manual: asyncio.Lock = asyncio.Lock()
        self.armed = Armed(self._down_reason)
        self.observers: list[Callable[[Armed], None]] = []

    # -- told by the supervisor and by the writers ------------------------------------------------

    def board_up(self, client: BoardClient, hello: Hello) -> None:
        """A board answers: bring its countdown up to the plan."""
        self._client = client
        self._hello = hello
        self._readbacks = 0
        self._poke.set()

    def board_down(self, reason: str) -> None:
        """The link is gone; until it is back nothing is known of the countdown."""
        self._client = None
        self._down_reason = reason
        self._learn(Armed(reason, target_ns=self.armed.target_ns))
        self._poke.set()

    def plan_changed(self) -> None:
        """The earliest due instant may have moved."""
        self._poke.set()

    def hinted(self, event: Event) -> None:
        """The board pushed an event. It is a hint: the log is read to confirm it.

        At once, unless that has just been done: a board that pushes without end is read in turns.
        """
        if self._hint_waits is not None:
            return
        loop = asyncio.get_running_loop()
        wait_s = self._hints_again_s - loop.time()
        if wait_s <= 0:
            self._heed_hint()
        else:
            self._hint_waits = loop.call_later(wait_s, self._heed_hint)

    def _heed_hint(self) -> None:
        self._hint_waits = None
        self._hints_again_s = asyncio.get_running_loop().time() + HINT_GAP_S
        self._poke.set()

    # -- asked by the writers and by adapters -----------------------------------------------------

    async def confirm(self) -> str:
        """Run a pass and return the `timer_error` of R8: empty when the countdown agrees."""
        finished = asyncio.get_running_loop().create_future()
        self._passes.append(finished)
        self._poke.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONFIRM_S):
                await finished
                return self.armed.error
        return self.armed.error or "the board has not confirmed the countdown in time"

    async def reading(self) -> TimerReading:
        """Read the live countdown. Raises `LinkError`."""
        return timer_reading(await self._timer_get(self._require_client()))

    def is_foreign(self, reading: TimerReading) -> bool:
        """Whether a countdown runs that this bridge did not arm (R9)."""
        return reading.state is CountdownState.ARMED and lease_of(reading.token) != self._lease

    async def set_by_hand(self, duration_ms: int) -> TimerReading:
        """Arm the countdown for a person. Raises `Conflict` while schedules own it (R46)."""
        async with self._manual:
            self._refuse_owned()
            client = self._require_client()
            target_ns = self._clock.now().wall_ns + duration_ms * 1_000_000
            token = token_for(MANUAL_LEASE, target_ns) or 1
            return timer_reading(_taken(await client.timer_set(token, duration_ms)))

    async def cancel_by_hand(self) -> TimerReading:
        """Disarm the countdown for a person. Raises `Conflict` while schedules own it (R46)."""
        async with self._manual:
            self._refuse_owned()
            return timer_reading(_taken(await self._require_client().timer_cancel(0)))

    def _refuse_owned(self) -> None:
        if self._earliest(self._clock.now()) is not None:
            raise Conflict("schedules own the countdown: cancel them first, or leave it to them")

    def _require_client(self) -> BoardClient:
        if self._client is None:
            raise LinkError(self._down_reason)
        return self._client

    @property
    def hello(self) -> Hello | None:
        """What the board said of itself, None while it is away."""
        return self._hello if self._client is not None else None

    # -- the passes -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Reconcile for ever."""
        while True:
            delay_s = await self._pass()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._poke.wait()

    async def _pass(self) -> float | None:
        """Run one pass; return when the next one is due at the latest."""
        self._poke.clear()
        waiting, self._passes = self._passes, []
        delay_s: float | None = None
        client = self._client
        if client is not None:
            try:
                async with self._manual:
                    await self._reconcile(client)
                delay_s = self._until_readback_s()
            except LinkError as error:
                if str(error) != self.armed.error:  # whoever asks on must not fill the log
                    log.warning("board: %s", error)
                self._learn(Armed(str(error), target_ns=self.armed.target_ns))
                delay_s = RETRY_S
            except StoreError as error:
                self._learn(Armed(str(error), target_ns=self.armed.target_ns))
                delay_s = RETRY_S
            except Exception:
                # A fault of ours is reported with the countdown's state, and tried again.
                log.exception("the countdown could not be reconciled")
                self._learn(Armed("internal fault, see the log", target_ns=self.armed.target_ns))
                delay_s = RETRY_S
        for finished in waiting:
            if not finished.done():
                finished.set_result(None)
        return delay_s

    def _until_readback_s(self) -> float:
        after, self._readbacks = self._readbacks, self._readbacks + 1
        delay_s = FIRST_READBACKS_S[after] if after < len(FIRST_READBACKS_S) else READBACK_S
        if self.armed.state == CountdownState.ARMED.name.lower():
            delay_s = min(delay_s, self.armed.remaining_ms / 1000 + HINT_LATE_S)
        return delay_s

    async def _reconcile(self, client: BoardClient) -> None:
        raw = await self._timer_get(client)
        await self._take_events(client, raw.value)
        while self._clock.now().boot_ns - raw.sent.boot_ns > READING_OLD_NS:
            raw = await self._timer_get(client)
        now = self._clock.now()
        reading = timer_reading(raw)
        desired = self._plan(now)
        action = reconcile(desired, reading, now, lease=self._lease, rate=self._rate.estimate())
        await self._act(client, action, desired, reading)

    def _plan(self, now: Now) -> Plan | None:
        return plan(
            now,
            self._earliest(now),
            lease=self._lease,
            lead_s=self._lead_s,
            rate=self._rate.estimate(),
        )

    async def _timer_get(self, client: BoardClient) -> Reading[TimerState]:
        return _taken(await client.timer_get())

    async def _take_events(self, client: BoardClient, timer: TimerState) -> None:
        """Read the log after the cursor and hand everything on; the cursor moves with it (R41)."""
        boot_id, seq = self._sink.cursor()
        answer = await client.events_get(boot_id, seq)
        if isinstance(answer, Refusal):
            raise LinkError(f"the board refuses its event log: {answer.reason}")
        if answer.lost:
            log.warning("board: %d events were overwritten before they were read", answer.lost)
        for event in answer.events[-EVENTS_NOTED_MAX:]:
            note(
                "board event",
                source=event.source,
                seq=event.seq,
                boot_id=answer.boot_id.hex(),
                token=f"{event.token:#010x}",
            )
        expired_token = timer.token if timer.state == CountdownState.EXPIRED.value else 0
        if answer.events or expired_token:
            await self._sink.woken(answer.boot_id, answer.events, expired_token)

    async def _act(
        self,
        client: BoardClient,
        action: Action,
        desired: Plan | None,
        reading: TimerReading,
    ) -> None:
        """Make the one change, and say what is known now."""
        match action:
            case Keep():
                self._learn(_agreed(desired, reading))
            case Foreign(token=token, remaining_ms=remaining_ms):
                error = (
                    "an independently programmed countdown is active"
                    f" (token {token:#010x}, {remaining_ms / 1000:.0f} s left)"
                )
                self._learn(_described(error if desired else "", desired, reading, ours=False))
            case Arm(token=token, duration_ms=duration_ms):
                raw = _taken(await client.timer_set(token, duration_ms))
                self._learn(self._read_back(desired, timer_reading(raw)), changed=True)
            case Disarm(token=token):
                raw = _taken(await client.timer_cancel(token))
                self._learn(self._read_back(desired, timer_reading(raw)), changed=True)

    def _read_back(self, desired: Plan | None, reading: TimerReading) -> Armed:
        """Compare the countdown after a change with what it should be."""
        wanted = CountdownState.ARMED if desired is not None else CountdownState.IDLE
        if reading.state is wanted and (desired is None or reading.token == desired.token):
            return _agreed(desired, reading)
        return _described("the board did not take the countdown", desired, reading, ours=True)

    def _learn(self, armed: Armed, *, changed: bool = False) -> None:
        """Keep what is known of the countdown and tell the observers when it is news.

        `changed`: it was armed or disarmed just now, which is news also under the same token.
        """
        news = changed or msgspec.structs.replace(armed, remaining_ms=0) != msgspec.structs.replace(
            self.armed, remaining_ms=0
        )
        self.armed = armed
        if news:
            note(
                "countdown",
                state=armed.state,
                leg=armed.leg,
                token=f"{armed.token:#010x}",
                remaining_ms=armed.remaining_ms,
                error=armed.error,
            )
            for observer in self.observers:
                observer(armed)


def _agreed(desired: Plan | None, reading: TimerReading) -> Armed:
    return _described("", desired, reading, ours=desired is not None)


def _described(error: str, desired: Plan | None, reading: TimerReading, *, ours: bool) -> Armed:
    armed = reading.state is CountdownState.ARMED
    return Armed(
        error,
        reading.state.name.lower(),
        reading.token if armed else 0,
        reading.remaining_ms if armed else 0,
        None if desired is None else desired.target_ns,
        None if desired is None else desired.leg.value,
        ours,
    )


def _taken(answer: Reading[TimerState] | Refusal) -> Reading[TimerState]:
    """Return the board's answer; a refusal is a fault of the plan or of the board."""
    if isinstance(answer, Refusal):
        raise LinkError(f"the board refuses: {answer.reason or answer.status}")
    return answer
