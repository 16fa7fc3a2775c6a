"""What every schedule can be at the moment, as far as requests, commits, crashes and clocks tell.

For each identity it keeps the states that the schedule can be in: one, as a rule; two after a crash
that may or may not have come before a commit. What is seen rules states out; when none is left, a
property is violated.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from wakebridge.bus import BusMessage
from wakebridge.schedule.instants import Now

from . import schedule_model as model
from .disk import Stored
from .kernel import Violation
from .newest_past import NewestPast
from .occurrences import Zones
from .properties import DISK
from .repeats import Repeats
from .schedule_model import Key, Owed, Sched

State = Sched | None


@dataclass
class Asked:
    """One request that was handed to the service."""

    verb: str
    owner: str
    body: dict[str, Any]
    context: dict[str, Any]
    route: str
    sent: Now
    sent_world_ns: int
    disk_trouble: bool = False


@dataclass
class Unit:
    """What one evaluation has let out: durable before anything else leaves (E51)."""

    key: Key
    before: list[State]


@dataclass
class Announced:
    key: Key
    at: Now
    owed: list[tuple[State, Owed]]


@dataclass
class EventStats:
    fires: int = 0
    late_fires: int = 0
    missed: int = 0
    answers: int = 0
    refusals: int = 0
    repeats_allowed: int = 0
    occurrences: int = 0
    readies: int = 0
    ambiguous_crashes: int = 0
    late_ms: list[int] = field(default_factory=list)


class EventStates:
    """What can be true of one device's schedules. `now` reads the host's clocks."""

    def __init__(self, now: Callable[[], Now], zones: Zones) -> None:
        self._now = now
        self.zones = zones
        self.states: dict[Key, list[State]] = {}
        self.stats = EventStats()
        self.asked: list[Asked] = []
        self._decided: dict[Key, list[Now]] = {}
        self._commits: deque[Now] = deque(maxlen=64)
        self._unit: Unit | None = None
        self._announced: Announced | None = None
        self._emission: tuple[str, BusMessage, Now] | None = None
        self._greeted: set[str] = set()
        self.trusted = True
        self._trusted_after_ns = 0
        self.on_trust: Callable[[], None] = lambda: None
        self.awake: Callable[[], bool] = lambda: True
        self.world_ns: Callable[[], int] = lambda: 0
        self._accepted_ns: dict[Key, int] = {}
        self._begin_pending = False
        self._believed_at = Now(0, 0)
        self._not_begun: dict[Key, list[State]] = {}
        """What may still be on the disk of schedules that have begun."""
        self.newest_past = NewestPast()
        self.repeats = Repeats()
        self._not_moved: dict[Key, list[State]] = {}
        """What the store holds until the first commit under new zone rules."""

    # -- requests ---------------------------------------------------------------------------------

    def ask(self, asked: Asked) -> None:
        self.asked.append(asked)

    def commit_begins(self, keys: Sequence[Key], now: Now) -> None:
        """A commit is under way: what it holds was decided just now."""
        self._begin(now)
        for key in keys:
            self._decided[key] = [*self._decided.get(key, [])[-7:], now]
        self._commits.append(now)
        # A write records its time; while the clock is wrong it does not take knowledge back (E71).
        times = {now.wall_ns}
        if not self.trusted_now():
            times = {max(now.wall_ns, self._trusted_after_ns)}
        fired = {
            key: [state.last_fired_ns or 0 for state in self._of(key) if state is not None]
            for key in keys
        }
        sure_ns = 0 if self._unit is None else max(fired.pop(self._unit.key, []), default=0)
        self.newest_past.write_begins(
            times, sure_ns, (each for more in fired.values() for each in more)
        )

    def commit_holds(self, keys: Sequence[Key]) -> None:
        """A commit is durable: its time and its fires are known as past from now on (E71)."""
        self._not_moved.clear()
        for key in keys:
            self._not_begun.pop(key, None)
        self.newest_past.write_holds()

    def _accept(self, asked: Asked, old: State, now: Now) -> State:
        """Return what becomes of a request; None when it has no occurrence."""
        return model.accept(
            asked.owner,
            asked.body,
            asked.context,
            asked.route,
            old,
            now,
            self.zones,
            trusted=self.trusted_now(),
        )

    # -- crashes and clocks -----------------------------------------------------------------------

    def host_ended(self, *, crash: bool) -> None:
        """The process is gone. `crash`: what it had not made durable may come again."""
        self._announced = None
        self._emission = None
        if crash:
            self.repeats.crashed()
            for key, states in (*self._not_begun.items(), *self._not_moved.items()):
                self.states[key] = distinct(self._of(key) + states)
            unit = self._unit
            if unit is not None:
                self.states[unit.key] = distinct(self._of(unit.key) + unit.before)
                self.stats.ambiguous_crashes += 1
            for asked in self.asked:
                self._in_flight(asked)
        self.newest_past.process_ends(crash=crash)
        self.asked.clear()
        self._decided.clear()
        self._commits.clear()
        self._not_begun.clear()
        self._not_moved.clear()
        self._begin_pending = False
        self._unit = None
        self._greeted.clear()
        for key, states in list(self.states.items()):
            self.states[key] = distinct(
                None if state is None or state.ephemeral else state.with_(boot_due_ns=None)
                for state in states
            )

    def _in_flight(self, asked: Asked) -> None:
        """A request without an answer was carried out, or it was not."""
        if asked.verb not in ("schedule", "cancel"):
            return
        key = (asked.owner, asked.body["id"])
        if asked.verb == "cancel" and asked.owner == "admin":
            keys = [k for k in self.states if k[1] == asked.body["id"]]
        else:
            keys = [key]
        for key in keys:
            times = self._decided.get(key, [])
            times = [now for now in times if now.boot_ns >= asked.sent.boot_ns]
            if not times:
                continue
            done: list[State] = [None]
            if asked.verb == "schedule":
                done = [
                    each
                    for state in self._of(key)
                    for now in times
                    if (each := self._accept(asked, state, now)) is not None
                ]
            self.states[key] = distinct(self._of(key) + done)
            self.repeats.accepted(key)

    def host_loads(self, stored: Stored, zone_rules: str) -> None:
        """A new process has read the store: is it as it must be, and its clock to be believed?"""
        for key in sorted({*self.states, *stored.progress}):
            self._found(key, stored.progress.get(key))
        now = self._now()
        self.newest_past.found(stored.newest_past_ns)
        self._trusted_after_ns = stored.newest_past_ns
        self.trusted = False
        if stored.zone_rules != zone_rules:
            self._apply_zones(max(now.wall_ns, self._trusted_after_ns))
        if now.wall_ns >= self._trusted_after_ns:
            self.clock_trusted()
            self._begin(now)

    def _found(self, key: Key, progress: list[Any] | None) -> None:
        """Rule out what the store does not hold (E52)."""
        if progress is None:
            self._keep(key, lambda state: state is None, DISK, "it is not in the store")
            return
        next_ns, last_fired_ns, consumed, missed, *waits = progress
        found = (next_ns, last_fired_ns, consumed, tuple(missed), waits == [True])
        self._keep(
            key,
            lambda state: state is not None and _progress(state) == found,
            DISK,
            f"the store holds {progress}",
        )

    def _apply_zones(self, now_ns: int) -> None:
        """New rules move future occurrences of `local` schedules (E7c)."""
        for key, states in self.states.items():
            self._not_moved[key] = states
            moved: list[State] = []
            for state in states:
                after = state
                if (
                    state is not None
                    and state.kind == "local"
                    and not (state.next_ns is not None and state.next_ns <= now_ns)
                    and not (state.count is not None and state.consumed >= state.count)
                ):
                    after_ns = max(now_ns, state.last_fired_ns or now_ns)
                    next_ns = model.rule_next(state, self.zones, after_ns)
                    if next_ns is not None and state.until_ns and next_ns > state.until_ns:
                        next_ns = None
                    after = state.with_(next_ns=next_ns)
                moved.append(after)
            self.states[key] = moved

    def trusted_now(self) -> bool:
        if not self.trusted and self.awake() and self._now().wall_ns >= self._trusted_after_ns:
            self.clock_trusted()
        return self.trusted

    def clock_trusted(self) -> None:
        """The clock has become synchronized: recurrences that waited for it begin (E71)."""
        self.trusted = True
        self._begin_pending = True
        self._believed_at = self._now()
        self.on_trust()

    def _begin(self, now: Now) -> None:
        """The bridge has noticed by now: at once, or when it was done with what it was doing."""
        if not (self.trusted_now() and self._begin_pending):
            return
        self._begin_pending = False
        for key, states in self.states.items():
            if any(state is not None and state.untrusted for state in states):
                self._not_begun[key] = states
                self.states[key] = distinct(
                    model.begun(state, moment, self.zones) if state is not None else None
                    for state in states
                    for moment in (self._believed_at, now)
                )

    # -- states -----------------------------------------------------------------------------------

    @property
    def certain(self) -> bool:
        """Whether every schedule is in one known state."""
        return all(len(states) == 1 for states in self.states.values())

    def _of(self, key: Key) -> list[State]:
        return self.states.get(key, [None])

    def _keep(self, key: Key, fits: Callable[[State], bool], name: str, what: str) -> None:
        """Rule out the states that do not fit what was seen."""
        states = self._of(key)
        kept = [state for state in states if fits(state)]
        if not kept:
            raise Violation(name, f"{key}: {what}, but it must be {states}")
        self.states[key] = kept


def distinct(states: Iterable[State]) -> list[State]:
    kept: list[State] = []
    for state in states:
        if state not in kept:
            kept.append(state)
    return kept


def _progress(state: Sched) -> tuple[object, ...]:
    waits = state.untrusted and not state.one_shot
    return state.next_ns, state.last_fired_ns, state.consumed, state.missed, waits
