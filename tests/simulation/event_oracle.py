"""Judges scheduled events: every message, and what must have been said by now.

The judge is made of three layers: `event_states` knows what can be, `event_answers` holds answers
to it, and this holds to it what leaves on the buses.
"""

import json
from collections.abc import Callable
from typing import Any, Final

from wakebridge.bus import MISSED_TYPE, READY_TYPE, BusMessage
from wakebridge.schedule.instants import Now

from . import schedule_model as model
from .event_answers import EventAnswers
from .event_states import Announced, State, Unit
from .kernel import NS, Violation
from .properties import (
    ANSWERED,
    CONTENT,
    COUNTS,
    EARLY,
    LOST,
    MISFIRE,
    OWNERS,
    PHASE,
    READY,
    REFIRE,
    TRUST,
)
from .schedule_model import Key, Owed, Sched

# E31, and the same again for a bridge that has just come out of trouble.
PUNCTUAL_NS: Final = 1 * NS
RECOVERY_NS: Final = 12 * NS


class EventOracle(EventAnswers):
    """The judge of one device's scheduled events. `now` reads the host's clocks."""

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
                self._announced = Announced(key, at, fitting)
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
            self._unit = Unit(key, before)
        else:  # the bridge does not know that it arrived: it may come again
            self.states[key] = before
            self.stats.repeats_allowed += 1

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
