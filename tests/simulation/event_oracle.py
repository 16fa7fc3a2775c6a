"""Judges scheduled events: every answer and every message against what the specification allows.

For each identity it keeps the states that the schedule can be in: one, as a rule; two after a crash
that may or may not have come before a commit. What is seen rules states out; when none is left, a
property is violated. What must be seen is judged by `overdue`.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from wakebridge.bus import MISSED_TYPE, READY_TYPE, BusMessage
from wakebridge.schedule.instants import Now

from . import schedule_model as model
from .disk import Stored
from .kernel import NS, Violation
from .newest_past import NewestPast
from .occurrences import Zones
from .properties import (
    ANSWERED,
    ANSWERS,
    CONTENT,
    COUNTS,
    DISK,
    EARLY,
    LOST,
    MISFIRE,
    OWNERS,
    PHASE,
    READY,
    REFIRE,
    TRUST,
)
from .repeats import Repeats
from .schedule_model import Key, Owed, Sched

State = Sched | None

# E31, and the same again for a bridge that has just come out of trouble.
PUNCTUAL_NS: Final = 1 * NS
RECOVERY_NS: Final = 12 * NS


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
class _Unit:
    """What one evaluation has let out: durable before anything else leaves (E51)."""

    key: Key
    before: list[State]


@dataclass
class _Announced:
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


class EventOracle:
    """The judge of one device's scheduled events. `now` reads the host's clocks."""

    def __init__(self, now: Callable[[], Now], zones: Zones) -> None:
        self._now = now
        self.zones = zones
        self.states: dict[Key, list[State]] = {}
        self.stats = EventStats()
        self.asked: list[Asked] = []
        self._decided: dict[Key, list[Now]] = {}
        self._commits: deque[Now] = deque(maxlen=64)
        self._unit: _Unit | None = None
        self._announced: _Announced | None = None
        self._emission: tuple[str, BusMessage, Now] | None = None
        self._greeted: set[str] = set()
        self.trusted = True
        self._trusted_after_ns = 0
        self.on_trust: Callable[[], None] = lambda: None
        self.awake: Callable[[], bool] = lambda: True
        self.world_ns: Callable[[], int] = lambda: 0
        self._accepted_ns: dict[Key, int] = {}
        self._begin_pending = False
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

    def answered(self, asked: Asked, answer: dict[str, Any]) -> None:
        self.asked.remove(asked)
        self.stats.answers += 1
        if not answer["ok"]:
            self.stats.refusals += 1
            self._refused(asked, answer)
            return
        self._unit = None
        self._begin(self._now())
        getattr(self, f"_answered_{asked.verb}")(asked, answer)

    def _refused(self, asked: Asked, answer: dict[str, Any]) -> None:
        error = answer["error"]
        if error == "internal":
            if not asked.disk_trouble:
                raise Violation(ANSWERS, f"internal without a reason: {answer['reason']}")
            return
        self._unit = None
        key = (asked.owner, str(asked.body.get("id")))
        if error == "skill_id_mismatch":
            others = [k for k in self.states if k[1] == key[1] and k[0] != asked.owner]
            if not any(state is not None for k in others for state in self.states[k]):
                raise Violation(ANSWERS, f"skill_id_mismatch, but nobody has {key[1]!r}")
            self._keep(key, lambda state: state is None, ANSWERS, "it is the asker's own")
            return
        if error == "invalid_record" and asked.owner == "admin" and "skill_id" not in asked.body:
            owners = [k for k in self.states if k[1] == key[1] and self.states[k] != [None]]
            if len(owners) < 2:
                raise Violation(ANSWERS, f"the administrator was refused: {answer}")
            return
        if asked.verb == "schedule" and error == "bad_recurrence":
            self._keep(
                key,
                lambda state: (
                    self._accept(asked, state, asked.sent) is None
                    or self._accept(asked, state, self._now()) is None
                ),
                ANSWERS,
                f"refused although it has an occurrence: {asked.body}",
            )
            return
        raise Violation(ANSWERS, f"{asked.verb} {asked.body} was refused: {answer}")

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

    def _decisions(self, asked: Asked) -> list[Now]:
        """Return when the request can have been decided: with a commit, or when it is answered."""
        return [
            # A request shares the moment of decision with all that are committed beside it.
            *(now for now in self._commits if now.boot_ns >= asked.sent.boot_ns),
            asked.sent,
            self._now(),
        ]

    def _answered_schedule(self, asked: Asked, answer: dict[str, Any]) -> None:
        key = (asked.owner, asked.body["id"])
        self._keep(
            key,
            lambda state: (state is not None) == answer["replaced"],
            ANSWERS,
            f"replaced is {answer['replaced']}",
        )
        accepted = [
            each
            for state in self._of(key)
            for now in self._decisions(asked)
            if (each := self._accept(asked, state, now)) is not None
        ]
        next_ns = None if answer["next"] is None else model.instant(answer["next"])
        fitting = [each for each in accepted if each.next_ns == next_ns]
        if not fitting:
            expected = [_text(each.next_ns) for each in accepted]
            raise Violation(
                PHASE, f"{asked.body} was answered next {answer['next']}, not {expected}"
            )
        self.states[key] = _distinct(fitting)
        self.repeats.accepted(key)
        self._accepted_ns[key] = self.world_ns()

    def _answered_cancel(self, asked: Asked, answer: dict[str, Any]) -> None:
        key = (answer["skill_id"], asked.body["id"])
        if key[0] != asked.owner and asked.owner != "admin":
            raise Violation(OWNERS, f"{asked.owner} cancelled {key}")
        self._keep(
            key,
            lambda state: (state is not None) == answer["existed"],
            ANSWERS,
            f"existed is {answer['existed']}",
        )
        self.states[key] = [None]

    def _answered_get(self, asked: Asked, answer: dict[str, Any]) -> None:
        key = (asked.owner, asked.body["id"])
        if not answer["existed"]:
            self._keep(key, lambda state: state is None, LOST, "get says it exists nowhere")
            return
        self._compare(key, answer)

    def _answered_list(self, asked: Asked, answer: dict[str, Any]) -> None:
        everybody = asked.owner == "admin"
        listed = {}
        for pair in answer["schedules"]:
            key = (pair["record"]["skill_id"], pair["record"]["id"])
            if key[0] != asked.owner and not everybody:
                raise Violation(OWNERS, f"{asked.owner} is shown {key}")
            listed[key] = pair
        for key in list(self.states):
            if key[0] != asked.owner and not everybody:
                continue
            if key in listed:
                self._compare(key, listed[key])
            else:
                self._keep(key, lambda state: state is None, LOST, "list does not show it")
        unknown = set(listed) - set(self.states)
        if unknown:
            raise Violation(ANSWERS, f"list shows what nobody asked for: {sorted(unknown)}")

    def _compare(self, key: Key, pair: dict[str, Any]) -> None:
        shown = pair["state"]
        record = pair["record"]

        def fits(state: State) -> bool:
            return (
                state is not None
                and _text(state.next_ns) == _again(shown["next"])
                and _text(state.last_fired_ns) == _again(shown["last_fired"])
                and [model.text_of(each) for each in state.missed]
                == [_again(each) for each in shown["missed"]]
                and state.remaining() == shown["remaining"]
                and state.data == record["data"]
                and state.event == record["event"]
            )

        self._keep(key, fits, ANSWERS, f"it is shown as {shown}")

    # -- messages ---------------------------------------------------------------------------------

    def emission_begins(self, bus: str, message: BusMessage) -> None:
        now = self._now()
        self._emission = (bus, message, now)
        if message.type != READY_TYPE:
            self._begin(now)
        self._unit = None  # another message leaves: what left before is durable (E51)
        if message.type == READY_TYPE:
            self._ready(bus, message, now)
        elif bus not in self._greeted:
            raise Violation(READY, f"{message.type} left on {bus} before ready")

    def _ready(self, bus: str, message: BusMessage, now: Now) -> None:
        said = json.loads(message.data)
        self._greeted.add(bus)
        self.stats.readies += 1
        believes = said["clock"] == "synchronized"
        if believes and not self.trusted_now():
            raise Violation(TRUST, "ready says synchronized, but the clock reads the past")
        if believes:
            self._begin(now)

    def undelivered(self, bus: str, message: BusMessage) -> None:
        del bus, message
        self._emission = None
        self._announced = None

    def delivered(self, bus: str, message: BusMessage, *, acknowledged: bool) -> None:
        """A subscriber has it."""
        assert self._emission is not None
        _, _, at = self._emission
        self._emission = None
        if message.type == READY_TYPE:
            return
        if message.type == MISSED_TYPE:
            self._missed(bus, message, at, acknowledged)
        else:
            self._fired(bus, message, at, acknowledged)

    def _missed(self, bus: str, message: BusMessage, at: Now, acknowledged: bool) -> None:
        said = json.loads(message.data)
        key = (said["skill_id"], said["id"])
        if message.owner != key[0]:
            raise Violation(OWNERS, f"missed of {key} went to {message.owner}")
        listed = tuple(model.instant(each) for each in said["missed"])
        late_ns = None if said["fired_late"] is None else model.instant(said["fired_late"])
        next_ns = None if said["next"] is None else model.instant(said["next"])
        total = said.get("missed_total", len(listed))
        fitting: list[tuple[State, Owed]] = []
        expected = []
        for state in self._of(key):
            due = None if state is None else self._owed(state, at)
            if state is None or due is None or state.route != bus:
                continue
            expected.append(due)
            if (due.missed, due.fire_ns, due.after.next_ns, due.total) == (
                listed,
                late_ns,
                next_ns,
                total,
            ):
                fitting.append((state, due))
        if not fitting:
            raise Violation(
                MISFIRE,
                f"{key}: missed {said} at {model.text_of(at.wall_ns)}; owed: {expected};"
                f" trusted: {self.trusted_now()}; it can be {self._of(key)}",
            )
        self.stats.missed += 1
        self.stats.occurrences += total - (late_ns is not None)
        if late_ns is not None:
            if acknowledged:
                self._announced = _Announced(key, at, fitting)
            return
        self._settle(key, fitting, acknowledged)

    def _fired(self, bus: str, message: BusMessage, at: Now, acknowledged: bool) -> None:
        said: Any = message.context["scheduler"]
        key = (said["skill_id"], said["id"])
        due_ns = model.instant(said["due"])
        announced, self._announced = self._announced, None
        fitting: list[tuple[State, Owed]] = []
        if announced is not None and announced.key == key:
            fitting = [pair for pair in announced.owed if pair[1].fire_ns == due_ns]
            self.stats.late_fires += 1
        elif announced is None:
            for state in self._of(key):
                due = None if state is None else self._owed(state, at)
                if due is not None and due.missed is None and due.fire_ns == due_ns:
                    fitting.append((state, due))
        if not fitting:
            self._explain(key, due_ns, at)
        self._content(key, bus, message, said, fitting)
        self.repeats.fired(key, due_ns, acknowledged=acknowledged)
        self.stats.fires += 1
        self.stats.occurrences += 1
        if announced is None:
            self._note_lateness(fitting[0][0], at)
        self._settle(key, fitting, acknowledged)

    def _note_lateness(self, state: State, at: Now) -> None:
        late_ns = None if state is None else model.lateness_ns(state, at)
        if late_ns is not None and len(self.stats.late_ms) < 100_000:
            self.stats.late_ms.append(late_ns // 1_000_000)

    def _owed(self, state: Sched, at: Now) -> Owed | None:
        if state.boot_due_ns is None and not self.trusted_now():
            return None
        return model.owed(state, at, self.zones)

    def _content(
        self, key: Key, bus: str, message: BusMessage, said: Any, fitting: list[tuple[State, Owed]]
    ) -> None:
        state, due = fitting[0]
        assert state is not None
        if message.owner != key[0] or not message.type.startswith(key[0] + "."):
            raise Violation(OWNERS, f"a fire of {key} went to {message.owner} as {message.type}")
        whole = json.loads(message.encode())
        context = dict(whole["context"])
        del context["scheduler"]
        if (whole["type"], whole["data"], context, bus) != (
            state.event,
            state.data,
            state.context,
            state.route,
        ):
            raise Violation(CONTENT, f"{key} fired as {whole} on {bus}, stored is {state}")
        if said["remaining"] != due.after.remaining():
            raise Violation(
                COUNTS, f"{key}: remaining {said['remaining']}, not {due.after.remaining()}"
            )

    def _explain(self, key: Key, due_ns: int, at: Now) -> None:
        """Raise the violation that fits a fire which none of the states owes."""
        states = self._of(key)
        what = f"{key} fired due {model.text_of(due_ns)} at {model.text_of(at.wall_ns)}"
        known = [state for state in states if state is not None]
        detail = f"{what}; it can be {states}"
        if any(
            state.last_fired_ns is not None and due_ns <= state.last_fired_ns for state in known
        ):
            raise Violation(REFIRE, detail)
        if not known:
            raise Violation(REFIRE, f"{what}, but it has ended or was cancelled")
        if not self.trusted_now() and all(state.boot_due_ns is None for state in known):
            raise Violation(TRUST, detail)
        early = [model.lateness_ns(state, at) for state in known]
        if all(late is not None and late < 0 for late in early):
            raise Violation(EARLY, detail)
        if any(
            late is not None and late > max(state.grace_ns, model.PROMPT_NS)
            for late, state in zip(early, known, strict=True)
        ):
            raise Violation(MISFIRE, detail)
        if all(state.next_ns is None for state in known):
            raise Violation(COUNTS, detail)
        raise Violation(PHASE, detail)

    def _settle(self, key: Key, fitting: list[tuple[State, Owed]], acknowledged: bool) -> None:
        before = [state for state, _ in fitting]
        after: list[State] = [due.kept for _, due in fitting]
        if acknowledged:
            self.states[key] = after
            self._unit = _Unit(key, before)
        else:  # the bridge does not know that it arrived: it may come again
            self.states[key] = before
            self.stats.repeats_allowed += 1

    # -- crashes and clocks -----------------------------------------------------------------------

    def host_ended(self, *, crash: bool) -> None:
        """The process is gone. `crash`: what it had not made durable may come again."""
        self._announced = None
        self._emission = None
        if crash:
            self.repeats.crashed()
            for key, states in (*self._not_begun.items(), *self._not_moved.items()):
                self.states[key] = _distinct(self._of(key) + states)
            unit = self._unit
            if unit is not None:
                self.states[unit.key] = _distinct(self._of(unit.key) + unit.before)
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
            self.states[key] = _distinct(
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
            self.states[key] = _distinct(self._of(key) + done)
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
        """The clock has become synchronized: recurrences that waited for it begin (E71).

        When exactly the bridge notices shows in what it does next.
        """
        self.trusted = True
        self._begin_pending = True
        self.on_trust()

    def _begin(self, now: Now) -> None:
        """The bridge has noticed by now."""
        if not (self.trusted_now() and self._begin_pending):
            return
        self._begin_pending = False
        for key, states in self.states.items():
            if any(state is not None and state.untrusted for state in states):
                self._not_begun[key] = states
                self.states[key] = [
                    model.begun(state, now, self.zones) if state is not None else None
                    for state in states
                ]

    # -- what must be -----------------------------------------------------------------------------

    def overdue(
        self, healthy_since_ns: dict[str, int], world_of: Callable[[Sched], int], at: int
    ) -> None:
        """Raise when something due was not emitted although everything was well long enough."""
        self.trusted_now()
        for key, states in self.states.items():
            if len(states) != 1 or (state := states[0]) is None or state.next_ns is None:
                continue
            since_ns = healthy_since_ns.get(state.route)
            waits = state.untrusted and self._begin_pending
            if since_ns is None or waits or (state.boot_due_ns is None and not self.trusted):
                continue
            due_ns = max(world_of(state), self._accepted_ns.get(key, 0))
            calm = since_ns + RECOVERY_NS <= due_ns
            deadline_ns = due_ns + PUNCTUAL_NS if calm else max(due_ns, since_ns) + RECOVERY_NS
            if at > deadline_ns:
                raise Violation(
                    LOST,
                    f"{key} was due {model.text_of(state.next_ns)} and did not fire by "
                    f"{model.text_of(self._now().wall_ns)}: {state}",
                )

    def unanswered(self, healthy_since_ns: int, at: int) -> None:
        """Raise when a request waits although everything was well long enough (E20, E35)."""
        for asked in self.asked:
            sent_ns = asked.sent_world_ns
            calm = healthy_since_ns + RECOVERY_NS <= sent_ns
            limit_ns = PUNCTUAL_NS if calm else RECOVERY_NS
            if at > max(sent_ns, healthy_since_ns) + limit_ns:
                raise Violation(ANSWERED, f"{asked.verb} {asked.body} of {asked.owner}")

    def next_due(self) -> int | None:
        """Return the earliest instant in wall ns among schedules that are surely there."""
        known = [states[0] for states in self.states.values() if len(states) == 1]
        return min(
            (state.next_ns for state in known if state is not None and state.next_ns is not None),
            default=None,
        )

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


def _distinct(states: Iterable[State]) -> list[State]:
    kept: list[State] = []
    for state in states:
        if state not in kept:
            kept.append(state)
    return kept


def _progress(state: Sched) -> tuple[object, ...]:
    waits = state.untrusted and not state.one_shot
    return state.next_ns, state.last_fired_ns, state.consumed, state.missed, waits


def _text(instant_ns: int | None) -> str | None:
    return None if instant_ns is None else model.text_of(instant_ns)


def _again(text: str | None) -> str | None:
    return None if text is None else model.text_of(model.instant(text))
