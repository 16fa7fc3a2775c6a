"""The only writer of scheduled events.

One task takes turns between firing what is due and answering what was asked. It commits before it
answers and before it arms; a fire is emitted, then committed, and nothing else leaves in between
(E51). Requests that arrive together share one commit.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec

from wakebridge.bus import (
    READY_TYPE,
    Bus,
    BusMessage,
    BusUnavailable,
    Undeliverable,
    refusal,
)
from wakebridge.clock import Clock
from wakebridge.engine import ClockTrust, Decision, EventEngine, Ready, Request
from wakebridge.schedule.book import Change
from wakebridge.schedule.instants import Now
from wakebridge.schedule.misfire import Evaluation, Schedule
from wakebridge.service.event_messages import fire_message, missed_message
from wakebridge.service.event_ports import EventStore, Timer
from wakebridge.service.lists import Lists
from wakebridge.store.errors import StoreError
from wakebridge.timeline import note

log = logging.getLogger(__name__)

# Requests waiting for their turn. Beyond this the answer is "busy", so that a flood by one owner
# costs bounded memory (at 20 kB a request, 80 MB) and the others are served in turn.
PENDING_MAX: Final = 4096

# The same for one bus: a flood on one, where nobody attests who asks, leaves room for the others.
ROUTE_PENDING_MAX: Final = 1024

# Requests that share one commit. Large enough that a burst costs few fsyncs, small enough that the
# first of them does not wait for the last.
BATCH_MAX: Final = 128

# A batch ends early when deciding has taken so long: a fire may be due meanwhile.
BATCH_NS: Final = 50_000_000

# Fires between two looks at the waiting requests: with one commit each, some tens of milliseconds.
FIRES_PER_TURN: Final = 32

# How soon a commit that failed after its fire is tried again; until it holds, nothing else leaves.
COMMIT_RETRY_S: Final = 1.0

# While the clock is not believed, how often it is asked whether somebody has set it meanwhile. An
# NTP daemon may step the clock first and vouch for it seconds later, and nothing announces that.
ASK_CLOCK_NS: Final = 30 * 1_000_000_000

_NS_PER_S: Final = 1_000_000_000


class _Pending(msgspec.Struct, frozen=True):
    request: Request
    answered: asyncio.Future[dict[str, object]]


class EventService:
    """Scheduled events: implements `wakebridge.bus.Scheduler`.

    `plan_changed` is called whenever the earliest due instant may have moved. `replay_delay_s`
    is the optional readiness condition of E53: late fires wait that long after `ready`, or until
    the bus says `replay_now`.
    `clock_changed` is told that the wall clock was stepped, or is believed from now on.
    `clock_vouched` says whether somebody vouches for the wall clock, which counts as a sync signal
    (E71); it is asked only while the clock is not believed. `turn_began` is called first in every
    turn; a resume of the host brings one about.
    """

    def __init__(
        self,
        engine: EventEngine,
        store: EventStore,
        clock: Clock,
        timer: Timer,
        plan_changed: Callable[[], None],
        replay_delay_s: float = 0.0,
        clock_changed: Callable[[], Awaitable[None]] | None = None,
        clock_vouched: Callable[[], bool] | None = None,
        turn_began: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine = engine
        self._store = store
        self._clock = clock
        self._timer = timer
        self._plan_changed = plan_changed
        self._replay_delay_s = replay_delay_s
        self._clock_changed = clock_changed
        self._clock_vouched = clock_vouched
        self._turn_began = turn_began
        self._buses: dict[str, Bus] = {}
        self._connected: set[str] = set()
        self._up: set[str] = set()  # connected, and told that the bridge is ready
        self._announced: set[str] = set()
        self._replaying: dict[str, asyncio.TimerHandle] = {}
        self._pending: deque[_Pending] = deque()
        self._waiting: Counter[str] = Counter()
        self._lists = Lists()
        self._round: deque[Schedule] = deque()
        self._came_up: deque[str] = deque()
        self._sync_signalled = False
        self._firing = asyncio.Lock()
        self._hushed = False
        self._planned_ns: int | None = None
        self._ready: Ready | None = None
        self._changed: tuple[Change, ...] = ()

    # -- the Scheduler port: called by adapters ---------------------------------------------------

    def attach(self, bus: Bus) -> None:
        """Make a bus known before `run`; it counts as down until it says `bus_up`."""
        self._buses[bus.name] = bus

    async def request(
        self,
        verb: str,
        body: object,
        context: Mapping[str, object] | None,
        route: str,
        identity: str | None,
        *,
        legacy_event: str | None = None,
    ) -> dict[str, object]:
        """Answer one request; see `wakebridge.bus.Scheduler.request`."""
        if len(self._pending) >= PENDING_MAX or self._waiting[route] >= ROUTE_PENDING_MAX:
            return refusal("internal", "busy: too many requests are waiting, try again")
        try:
            context_json = None if context is None else msgspec.json.encode(context)
        except (UnicodeEncodeError, RecursionError) as error:
            return refusal("invalid_record", f"the context cannot be stored: {error}")
        request = Request(verb, body, context, context_json, route, identity, legacy_event)
        asker = (route, str((context or {}).get("skill_id")))
        if verb == "list" and not self._lists.admit(asker):
            return refusal("internal", "busy: too many lists are waiting, try again")
        answered: asyncio.Future[dict[str, object]] = asyncio.get_running_loop().create_future()
        self._pending.append(_Pending(request, answered))
        self._waiting[route] += 1
        self._timer.wake()
        try:
            return await answered
        finally:
            self._waiting[route] -= 1
            if verb == "list":
                self._lists.leave(asker)

    def bus_up(self, name: str) -> None:
        """The bus takes messages again: announce `ready` once, then fire what was held."""
        self._connected.add(name)
        self._came_up.append(name)
        self._timer.wake()

    def bus_down(self, name: str) -> None:
        """The bus is gone: what comes due for it is held, and grace decides later."""
        self._lost(name)

    def replay_now(self, name: str) -> None:
        """The owners on the bus are there: end the wait of the readiness condition (E53)."""
        waiting = self._replaying.get(name)
        if waiting is not None:
            waiting.cancel()
            self._release_later(name)

    def clock_synced(self) -> None:
        """The deployment has set the clock (E71)."""
        self._sync_signalled = True
        self._timer.wake()

    @property
    def clock_believed(self) -> bool:
        """Whether the wall clock is believed (E71)."""
        return self._engine.clock is ClockTrust.SYNCHRONIZED

    def earliest_ns(self, now: Now) -> int | None:
        """Return the earliest due instant in wall ns: the board is armed for it."""
        return self._engine.earliest_ns(now)

    def __len__(self) -> int:
        """Return how many schedules there are."""
        return len(self._engine)

    def health(self) -> dict[str, object]:
        """Return what a person wants to know first."""
        return {
            "schedules": len(self._engine),
            "clock": self._engine.clock.value,
            "buses": {name: name in self._up for name in self._buses},
            "requests_waiting": len(self._pending),
        }

    # -- the writer -------------------------------------------------------------------------------

    def start(self) -> None:
        """Load the store. Raises `StateUnreadable`; nothing is written."""
        now = self._clock.now()
        loaded = self._store.load(now.wall_ns)
        self._ready = self._engine.load(loaded.schedules, loaded.newest_past_ns, now)
        self._changed = (*loaded.moved, *self._ready.begun)
        log.info(
            "%d schedules loaded, %d missed something, clock %s",
            self._ready.schedules,
            self._ready.missed,
            self._ready.clock.value,
        )

    async def run(self) -> None:
        """Serve until cancelled. Call `start` first."""
        await self._keep_changed()
        while True:
            await self._turn()
            now = self._clock.now()
            self._note_plan(now)
            if self._pending or self._came_up or (self._round and not self._hushed):
                continue
            wall_ns, boot_ns = (None, None) if self._hushed else self._engine.deadlines()
            if self._may_be_vouched:
                ask_ns = now.boot_ns + ASK_CLOCK_NS
                boot_ns = ask_ns if boot_ns is None else min(boot_ns, ask_ns)
            await self._timer.wait(now, wall_ns, boot_ns)

    async def hush(self) -> None:
        """Fire nothing from now on; return when the fire on its way is committed.

        For a stop in order, which would otherwise leave a fire that was emitted to be emitted again
        at the next start (E51). Requests are served as before.
        """
        self._hushed = True
        async with self._firing:
            self._timer.wake()

    async def _turn(self) -> None:
        """Do one bounded portion of everything that can be done now."""
        self._turn_began()
        await self._observe_clock()
        while self._came_up:
            await self._greet(self._came_up.popleft())
        if not self._round and not self._hushed:
            self._round.extend(self._engine.due(self._clock.now()))
        for _ in range(min(FIRES_PER_TURN, len(self._round))):
            async with self._firing:
                if self._hushed:
                    break
                await self._evaluate(self._round.popleft())
        await self._answer_batch()

    @property
    def _may_be_vouched(self) -> bool:
        return self._clock_vouched is not None and self._engine.clock is ClockTrust.UNSYNCHRONIZED

    async def _observe_clock(self) -> None:
        if self._clock_vouched is not None and self._may_be_vouched:
            self._sync_signalled |= self._clock_vouched()
        now = self._clock.now()
        step_ns = self._engine.clock_step_ns(now)
        if step_ns:
            log.warning("the wall clock was stepped by %+.3f s", step_ns / _NS_PER_S)
            self._plan_changed()
        signalled, self._sync_signalled = self._sync_signalled, False
        ready = self._engine.observe(now, sync_signal=signalled)
        if self._clock_changed is not None and (step_ns or ready is not None):
            await self._clock_changed()
        if ready is None:
            return
        self._ready = ready
        self._changed = ready.begun
        if signalled:
            await self._durable(lambda: self._store.reset_watermark(now.wall_ns))
        await self._keep_changed()
        for name in sorted(self._up):
            await self._announce(name)

    async def _keep_changed(self) -> None:
        """Make durable what zone rules moved (E7c) and what waited for the clock (E71)."""
        changed, self._changed = self._changed, ()
        changes = [each for each in changed if _on_disk(each).schedule is not None]
        if changes:
            await self._durable(lambda: self._commit(changes, self._clock.now()))

    async def _greet(self, name: str) -> None:
        """A bus came up: `ready` first, only then what it missed (E53)."""
        greeted = name in self._announced
        if name not in self._connected or not (greeted or await self._announce(name)):
            return
        if name not in self._connected:
            return  # lost in the meantime: it comes up again
        self._up.add(name)
        if greeted:
            self._release(name)
        elif self._replay_delay_s > 0:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self._replay_delay_s, self._release_later, name)
            self._replaying[name] = timer
        else:
            self._release(name)

    def _lost(self, name: str) -> None:
        self._connected.discard(name)
        self._up.discard(name)

    def _release(self, name: str) -> None:
        if name in self._up and name not in self._replaying:
            self._engine.release(name)

    def _release_later(self, name: str) -> None:
        del self._replaying[name]
        self._release(name)
        self._timer.wake()

    async def _announce(self, name: str) -> bool:
        """Emit `ovos.scheduler.ready` on one bus; returns whether the bus took it."""
        assert self._ready is not None
        data = {
            "schedules": self._ready.schedules,
            "missed": self._ready.missed,
            "clock": self._ready.clock.value,
        }
        message = BusMessage(READY_TYPE, msgspec.json.encode(data), {}, owner=None)
        try:
            await self._buses[name].emit(message)
        except BusUnavailable:
            self._lost(name)
            return False
        self._announced.add(name)
        return True

    # -- firing -----------------------------------------------------------------------------------

    async def _evaluate(self, schedule: Schedule) -> None:
        """Fire, report or hold one due schedule, and commit what became of it."""
        if schedule.route not in self._up or schedule.route in self._replaying:
            self._engine.hold(schedule)
            return
        try:
            evaluation = self._engine.evaluate(schedule, self._clock.now())
        except Exception:
            # A fault of ours must not stop every owner's schedules: this one stands still.
            log.exception("the schedule %s is set aside until the next start", schedule.key)
            return
        if evaluation is None:
            return
        try:
            await self._emit(schedule.route, evaluation)
        except BusUnavailable as error:
            log.warning("bus %s: %s; its events wait", schedule.route, error)
            self._lost(schedule.route)
            self._engine.hold(schedule)
            return
        change = Change(schedule.key, evaluation.successor)
        if not schedule.record.ephemeral:
            await self._durable(lambda: self._commit([change], self._clock.now()))
        self._engine.apply(change)

    def _note(self, evaluation: Evaluation, fired_ns: int) -> None:
        if (missed := evaluation.missed) is not None:
            record = missed.schedule.record
            note("missed", owner=record.skill_id, id=record.id, occurrences=missed.total)
        if (fire := evaluation.fire) is not None:
            record = fire.schedule.record
            late_ms = (fired_ns - fire.due_ns) / 1_000_000
            note("fired", owner=record.skill_id, id=record.id, late_ms=round(late_ms, 3))

    async def _emit(self, route: str, evaluation: Evaluation) -> None:
        bus = self._buses[route]
        fired_ns = self._clock.now().wall_ns
        try:
            if evaluation.missed is not None:
                await bus.emit(missed_message(evaluation.missed))
            if evaluation.fire is not None:
                fired_ns = self._clock.now().wall_ns
                await bus.emit(fire_message(evaluation.fire, fired_ns))
        except Undeliverable as error:
            # It counts as emitted: one owner's record never holds up another's (E35).
            log.error("bus %s cannot carry an event: %s", route, error)
        self._note(evaluation, fired_ns)

    async def _commit(self, changes: Sequence[Change], now: Now) -> None:
        await self._store.commit(changes, self._engine.newest_past_ns(now))

    async def _durable(self, write: Callable[[], Awaitable[None]]) -> None:
        """Repeat a write until it holds. What it records has happened, so there is no way back.

        Meanwhile no fire leaves, and every request is answered `internal` (E27, E51).
        """
        while True:
            try:
                await write()
                return
            except StoreError as error:
                log.error("%s; firing pauses until this can be stored", error)
                self._refuse_pending(str(error))
                await asyncio.sleep(COMMIT_RETRY_S)
                self._refuse_pending(str(error))

    # -- answering --------------------------------------------------------------------------------

    def _refuse_pending(self, reason: str) -> None:
        while self._pending:
            answered = self._pending.popleft().answered
            if not answered.done():
                answered.set_result(refusal("internal", reason))

    async def _answer_batch(self) -> None:
        """Decide the waiting requests in order, commit them together, then answer."""
        batch = [self._pending.popleft() for _ in range(min(BATCH_MAX, len(self._pending)))]
        if not batch:
            return
        try:
            decisions = await self._decide_and_commit(batch)
        except StoreError as error:
            if len(batch) == 1:
                log.error("%s", error)
                decisions = [Decision(refusal("internal", str(error)))]
            else:
                decisions = [await self._alone(pending) for pending in batch]
        for pending, decision in zip(batch, decisions, strict=True):
            answer = decision.answer
            if pending.request.verb == "schedule" and answer["ok"]:
                note(
                    "accepted",
                    owner=str(answer["skill_id"]),
                    id=str(answer["id"]),
                    next=str(answer["next"]),
                )
            if pending.answered.done():
                continue  # its adapter has stopped waiting
            if decision.listed is not None:
                self._lists.answer(decision.listed, pending.answered)
            else:
                pending.answered.set_result(answer)

    async def _alone(self, pending: _Pending) -> Decision:
        """Give one request of a failed batch its own commit."""
        try:
            return (await self._decide_and_commit([pending]))[0]
        except StoreError as error:
            return Decision(refusal("internal", str(error)))

    async def _decide_and_commit(self, batch: list[_Pending]) -> list[Decision]:
        """Return the decisions once their changes are durable.

        A batch that takes long is cut, and the rest goes back to those that wait. Changes are made
        in memory first, so that later requests of the batch see earlier ones, and are taken back in
        reverse order when the commit fails. Raises `StoreError`, changing nothing.
        """
        now = self._clock.now()
        decisions, durable, inverses = [], [], []
        for number, pending in enumerate(batch):
            if number and self._clock.now().boot_ns - now.boot_ns > BATCH_NS:
                self._pending.extendleft(reversed(batch[number:]))
                del batch[number:]
                break
            decision = self._decide(pending.request, now)
            decisions.append(decision)
            if decision.change is not None:
                inverses.append(self._engine.apply(decision.change))
                if not decision.ephemeral:
                    durable.append(_on_disk(decision.change))
        if durable:
            try:
                await self._commit(durable, now)
            except StoreError:
                for inverse in reversed(inverses):
                    self._engine.apply(inverse)
                raise
        return decisions

    def _decide(self, request: Request, now: Now) -> Decision:
        try:
            return self._engine.decide(request, now)
        except Exception:
            # A fault of ours must not stop every owner's schedules: it is one `internal` answer.
            log.exception("the request %s failed", request.verb)
            return Decision(refusal("internal", "the request could not be evaluated"))

    def _note_plan(self, now: Now) -> None:
        earliest_ns = self._engine.earliest_ns(now)
        if earliest_ns != self._planned_ns:
            self._planned_ns = earliest_ns
            self._plan_changed()


def _on_disk(change: Change) -> Change:
    """Return what the store must hold: an ephemeral schedule is there only by its absence (E50)."""
    if change.schedule is not None and change.schedule.record.ephemeral:
        return Change(change.key, None)
    return change
