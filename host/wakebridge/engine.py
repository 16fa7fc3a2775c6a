"""Scheduled events as a pure machine: state, input and `now` in; answers, changes, effects out.

The engine never emits, stores or waits. `decide` and `evaluate_next` say what should happen,
`apply` makes it true in memory after the service has committed it, and `deadlines` says when to
come back. Time is an argument, so years pass in a test in seconds.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from wakebridge import bus
from wakebridge.schedule import legacy, misfire, record
from wakebridge.schedule.book import Book, Change, Key
from wakebridge.schedule.errors import RequestError
from wakebridge.schedule.fields import CONTEXT_MAX_BYTES
from wakebridge.schedule.instants import Now, format_instant
from wakebridge.schedule.misfire import Evaluation, Schedule
from wakebridge.schedule.rules import At

# A step of the wall clock smaller than this is the ordinary slewing and jitter between two reads of
# two clocks; a larger one is reported (E70).
STEP_NOTICED_NS: Final = 500_000_000

# Two clocks are never read at quite the same time, so their distance differs at every look. Up to
# this it counts as unchanged: more than a process waits between two reads, and far below what a
# wake is precise to.
CLOCKS_JITTER_NS: Final = 50_000_000

_FIELDS_OF_VERB: Final = {
    "cancel": frozenset({"id", "skill_id"}),
    "get": frozenset({"id"}),
    "list": frozenset[str](),
    "update": frozenset({"id", "data"}),
}


class ClockTrust(enum.Enum):
    """Whether the wall clock can be believed (E71)."""

    SYNCHRONIZED = "synchronized"
    UNSYNCHRONIZED = "unsynchronized"


class Request(msgspec.Struct, frozen=True):
    """One request as an adapter hands it over.

    `identity` is the authenticated owner where the transport supplies one (E63), `route` the bus
    that fires go back to. `legacy_event` is set for requests of the older protocol, where the name
    of the event is the identity and tells the owner (E90).
    """

    verb: str
    body: object
    context: Mapping[str, object] | None
    context_json: bytes | None
    route: str
    identity: str | None = None
    legacy_event: str | None = None


class Decision(msgspec.Struct, frozen=True):
    """The answer to give once `change` is durable; no change means the answer stands by itself.

    `ephemeral` changes live in memory only (E50). `listed` is what the answer of a `list` is to
    describe: there may be a hundred thousand, so that is left to the caller (E25).
    """

    answer: dict[str, object]
    change: Change | None = None
    ephemeral: bool = False
    listed: Sequence[Schedule] | None = None


class Ready(msgspec.Struct, frozen=True):
    """What `ovos.scheduler.ready` reports (E53).

    `begun` is to be made durable: what became of schedules that waited for the clock (E71). It is
    true in memory already.
    """

    schedules: int
    missed: int
    clock: ClockTrust
    begun: tuple[Change, ...] = ()


class EventEngine:
    """All scheduled events of all owners."""

    def __init__(self, administrators: Iterable[str] = ()) -> None:
        self._book = Book()
        self._administrators = frozenset(administrators)
        self._clock = ClockTrust.SYNCHRONIZED
        self._trusted_after_ns = 0
        self._last_now: Now | None = None
        self._wall_minus_boot_ns = 0

    # -- start and clock ------------------------------------------------------------------------

    def load(self, schedules: Iterable[Schedule], newest_past_ns: int, now: Now) -> Ready:
        """Take over the stored schedules; `newest_past_ns` is the newest instant known as past.

        The clock is unsynchronized when it reads earlier than that (E71). Returns what to report
        before anything is replayed (E53).
        """
        self._book.fill(schedules)
        self._trusted_after_ns = newest_past_ns
        if now.wall_ns < newest_past_ns:
            self._clock = ClockTrust.UNSYNCHRONIZED
        self._last_now = now
        return self._ready(now, self._begin_provisional(now))

    def observe(self, now: Now, *, sync_signal: bool = False) -> Ready | None:
        """Note the time. Returns a second `Ready` when the clock has just become synchronized."""
        self._last_now = now
        if self._clock is ClockTrust.SYNCHRONIZED:
            return None
        if not sync_signal and now.wall_ns < self._trusted_after_ns:
            return None
        self._clock = ClockTrust.SYNCHRONIZED
        return self._ready(now, self._begin_provisional(now))

    def clock_step_ns(self, now: Now) -> int:
        """Return by how much the wall clock was stepped since the last `observe`, or 0."""
        if self._last_now is None:
            return 0
        step_ns = (now.wall_ns - self._last_now.wall_ns) - (now.boot_ns - self._last_now.boot_ns)
        return step_ns if abs(step_ns) >= STEP_NOTICED_NS else 0

    @property
    def clock(self) -> ClockTrust:
        """Whether the wall clock is believed."""
        return self._clock

    def newest_past_ns(self, now: Now) -> int:
        """Return the newest instant known to be past, for a write to record (E71).

        What is written while the clock is not believed must not make the next start believe it.
        """
        if self._clock is ClockTrust.UNSYNCHRONIZED:
            return max(now.wall_ns, self._trusted_after_ns)
        return now.wall_ns

    def _ready(self, now: Now, begun: tuple[Change, ...]) -> Ready:
        trusted = self._clock is ClockTrust.SYNCHRONIZED
        due = self._book.pop_due(now, wall_clock_trusted=trusted)
        for schedule in due:
            self._book.watch(schedule)
        missed = sum(misfire.missed_something(schedule, now) for schedule in due)
        return Ready(len(self._book), missed, self._clock, begun)

    def _begin_provisional(self, now: Now) -> tuple[Change, ...]:
        """Let recurrences that were accepted at a meaningless wall time begin now.

        Their first occurrence was computed from a clock that read years too early; without this the
        owner would hear of occurrences missed before it even asked, and `count` would be used up.
        """
        if self._clock is ClockTrust.UNSYNCHRONIZED:
            return ()
        begun = [misfire.begun(each, now) for each in self._book if each.provisional]
        changes = tuple(Change(schedule.key, schedule) for schedule in begun)
        for change in changes:
            self._book.apply(change)
        return changes

    # -- requests -------------------------------------------------------------------------------

    def decide(self, request: Request, now: Now) -> Decision:
        """Return the answer and the change of one request; nothing is changed yet.

        Raises nothing for what a requester can do wrong: that is an answer with `ok: false` (E21).
        """
        try:
            owner = self._owner(request)
            match request.verb:
                case "schedule":
                    return self._schedule(owner, request, now)
                case "cancel":
                    return self._cancel(owner, request)
                case "get":
                    return self._get(owner, request)
                case "list":
                    return self._list(owner, request)
                case "update" if request.legacy_event is not None:
                    return self._update(owner, request)
                case unknown:
                    raise RequestError(
                        "invalid_record",
                        f"there is no request {unknown!r}: use schedule, cancel, get or list",
                    )
        except RequestError as refusal:
            return Decision(bus.refusal(refusal.code, refusal.reason))

    def _owner(self, request: Request) -> str:
        """Return who asks (E60, E63); for a legacy event, whose it is (E90)."""
        if request.legacy_event is not None:
            return legacy.owner_of(request.legacy_event)
        skill_id = (request.context or {}).get("skill_id")
        if not isinstance(skill_id, str) or not skill_id:
            raise RequestError(
                "invalid_record", "context.skill_id is missing: it names the owner and is a string"
            )
        if request.identity is not None and request.identity != skill_id:
            raise RequestError(
                "skill_id_mismatch",
                f"context.skill_id is {skill_id!r}, but you are {request.identity!r}",
            )
        return skill_id

    def _schedule(self, owner: str, request: Request, now: Now) -> Decision:
        context_bytes = len(request.context_json or b"")
        if context_bytes > CONTEXT_MAX_BYTES:
            reason = f"the context is {context_bytes} bytes, the limit is {CONTEXT_MAX_BYTES}"
            raise RequestError("invalid_record", reason)
        stored = self._stored_for_replacement(owner, request.body)
        parsed = record.parse_record(
            owner, request.body, now, None if stored is None else stored.record
        )
        first_ns = record.first_occurrence(parsed, now)
        if first_ns is None:
            raise RequestError("bad_recurrence", "the schedule describes no occurrence")
        doubted = self._clock is ClockTrust.UNSYNCHRONIZED
        schedule = Schedule(
            record=parsed,
            context_json=request.context_json,
            route=request.route,
            legacy_event=request.legacy_event,
            next_ns=first_ns,
            provisional=doubted and not isinstance(parsed.rule, At),
        )
        if stored is not None:
            schedule = misfire.continued(schedule, stored, now, doubted=doubted)
            if schedule.next_ns is None:
                raise RequestError(
                    "bad_recurrence", "what is left of the schedule has fired already"
                )
        answer: dict[str, object] = {
            "ok": True,
            "id": parsed.id,
            "skill_id": owner,
            "next": _instant(schedule.next_ns),
            "replaced": stored is not None,
        }
        # An ephemeral schedule that replaces a stored one must still delete that one on disk.
        in_memory = parsed.ephemeral and (stored is None or stored.record.ephemeral)
        return Decision(answer, Change(schedule.key, schedule), ephemeral=in_memory)

    def _stored_for_replacement(self, owner: str, body: object) -> Schedule | None:
        schedule_id = body.get("id") if isinstance(body, dict) else None
        return self._book.get((owner, schedule_id)) if isinstance(schedule_id, str) else None

    def _cancel(self, owner: str, request: Request) -> Decision:
        body = _body(request)
        key = self._reachable(owner, body, administrator=owner in self._administrators)
        schedule = self._book.get(key) if key is not None else None
        answer: dict[str, object] = {
            "ok": True,
            "id": body["id"],
            "skill_id": key[0] if key is not None else owner,
            "existed": schedule is not None,
        }
        if key is None or schedule is None:
            return Decision(answer)
        return Decision(answer, Change(key, None), ephemeral=schedule.record.ephemeral)

    def _get(self, owner: str, request: Request) -> Decision:
        key = self._reachable(owner, _body(request), administrator=False)
        schedule = self._book.get(key) if key is not None else None
        if schedule is None:
            return Decision({"ok": True, "existed": False, "record": None, "state": None})
        return Decision({"ok": True, "existed": True, **described(schedule)})

    def _list(self, owner: str, request: Request) -> Decision:
        _body(request)
        if request.legacy_event == legacy.EVERY_EVENT:
            schedules = [each for each in self._book if each.legacy_event is not None]
        elif owner in self._administrators:
            schedules = list(self._book)
        else:
            schedules = self._book.owned_by(owner)
        return Decision({"ok": True}, listed=schedules)

    def _update(self, owner: str, request: Request) -> Decision:
        """Give a legacy schedule other data; when it is due and what it has fired stay (E90)."""
        body = _body(request)
        key = self._reachable(owner, body, administrator=False)
        schedule = self._book.get(key) if key is not None else None
        if key is None or schedule is None:
            return Decision({"ok": True, "existed": False})
        updated = msgspec.structs.replace(
            schedule, record=schedule.record.with_data(body.get("data", {}))
        )
        return Decision({"ok": True, "existed": True}, Change(key, updated))

    def _reachable(
        self, owner: str, body: Mapping[str, object], *, administrator: bool
    ) -> Key | None:
        """Return the identity the body names, None when it exists nowhere (E61, E62)."""
        schedule_id = body.get("id")
        if not isinstance(schedule_id, str) or not schedule_id:
            raise RequestError("invalid_record", "id is missing: it is a non-empty string")
        named = body.get("skill_id", owner)
        if not isinstance(named, str):
            raise RequestError("invalid_record", "skill_id must be a string")
        if named != owner and not administrator:
            raise RequestError("skill_id_mismatch", f"schedules of {named!r} are not yours")
        if self._book.get((named, schedule_id)) is not None:
            return (named, schedule_id)
        others = self._book.owners_of(schedule_id)
        if "skill_id" in body or not others:
            return None
        if not administrator:
            raise RequestError(
                "skill_id_mismatch", f"the schedule {schedule_id!r} belongs to another owner"
            )
        if len(others) > 1:
            raise RequestError(
                "invalid_record",
                f"several owners have a schedule {schedule_id!r}: name one in skill_id",
            )
        return (next(iter(others)), schedule_id)

    # -- firing ---------------------------------------------------------------------------------

    def due(self, now: Now) -> list[Schedule]:
        """Take one round of due schedules, each to be evaluated once (E35)."""
        trusted = self._clock is ClockTrust.SYNCHRONIZED
        return self._book.pop_due(now, wall_clock_trusted=trusted)

    def evaluate(self, schedule: Schedule, now: Now) -> Evaluation | None:
        """Return what a schedule of this round owes, or None when it no longer stands or is due.

        One that is no longer due, because the clock was stepped back, is watched again.
        """
        if self._book.get(schedule.key) is not schedule:
            return None
        evaluation = misfire.evaluate(schedule, now)
        if evaluation is None:
            self._book.watch(schedule)
        return evaluation

    def hold(self, schedule: Schedule) -> None:
        """Let a due schedule wait for its bus; grace decides when the bus is back."""
        self._book.hold(schedule)

    def release(self, route: str) -> None:
        """The bus is back: what was held for it is due for evaluation."""
        self._book.release(route)

    def watch(self, schedule: Schedule) -> None:
        """Put a schedule of this round back unevaluated."""
        self._book.watch(schedule)

    # -- state ----------------------------------------------------------------------------------

    def apply(self, change: Change) -> Change:
        """Make a change true in memory; returns the change that takes it back."""
        return self._book.apply(change)

    def deadlines(self) -> tuple[int | None, int | None]:
        """Return when something is due next as (wall ns, boot ns)."""
        wall_ns, boot_ns = self._book.deadlines()
        if self._clock is ClockTrust.UNSYNCHRONIZED:
            wall_ns = self._trusted_after_ns
        return wall_ns, boot_ns

    def earliest_ns(self, now: Now) -> int | None:
        """Return the earliest due instant on the wall clock: what the board is armed for."""
        wall_ns, _ = self._book.deadlines()
        if self._clock is ClockTrust.UNSYNCHRONIZED:
            wall_ns = None
        if (delay := self._book.first_delay()) is not None:
            delay_ns = self._on_wall_ns(*delay, now)
            wall_ns = delay_ns if wall_ns is None else min(wall_ns, delay_ns)
        return wall_ns

    def _on_wall_ns(self, boot_due_ns: int, estimate_ns: int, now: Now) -> int:
        """Return where a delay ends on the wall clock: at its estimate, until the clock is stepped.

        The same instant at every look, and the one that counts after a restart (E5): the countdown
        for it is recognized by it, and would otherwise be armed anew each time (R44).
        """
        wall_minus_boot_ns = now.wall_ns - now.boot_ns
        if abs(wall_minus_boot_ns - self._wall_minus_boot_ns) > CLOCKS_JITTER_NS:
            self._wall_minus_boot_ns = wall_minus_boot_ns
        on_wall_ns = boot_due_ns + self._wall_minus_boot_ns
        return estimate_ns if abs(on_wall_ns - estimate_ns) <= CLOCKS_JITTER_NS else on_wall_ns

    def __len__(self) -> int:
        """Return how many schedules there are."""
        return len(self._book)


def _instant(instant_ns: int | None) -> str | None:
    return None if instant_ns is None else format_instant(instant_ns)


def _body(request: Request) -> Mapping[str, object]:
    """Return the body of a request other than `schedule`, refusing unknown fields (E13)."""
    if not isinstance(request.body, dict):
        raise RequestError("invalid_record", "data must be a JSON object")
    for field in request.body:
        if field not in _FIELDS_OF_VERB[request.verb]:
            raise RequestError("invalid_record", f"{request.verb} has no field {field!r}")
    return request.body


def _record_as_stored(schedule: Schedule) -> dict[str, object]:
    """Return the record with the context that was captured with it (E11)."""
    wire = schedule.record.to_wire()
    if schedule.context_json is not None:
        wire["context"] = msgspec.Raw(schedule.context_json)
    return wire


def described(schedule: Schedule) -> dict[str, object]:
    """Return the `{record, state}` pair of E24 and E25."""
    return {
        "record": _record_as_stored(schedule),
        "state": {
            "next": _instant(schedule.next_ns),
            "last_fired": _instant(schedule.last_fired_ns),
            "missed": [format_instant(due_ns) for due_ns in schedule.missed],
            "remaining": schedule.remaining,
        },
    }
