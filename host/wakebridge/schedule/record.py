"""The schedule record: a request body checked once, then an immutable value (E1 to E13)."""

import re
from typing import Final, Literal

import msgspec

from wakebridge.schedule import zones
from wakebridge.schedule.errors import RequestError, UnknownZone, quote
from wakebridge.schedule.fields import (
    EVENT_MAX_CHARS,
    ID_MAX_CHARS,
    read_bool,
    read_count,
    read_data,
    read_instant,
    read_name,
    read_seconds,
    refuse_unknown,
    require_object,
    span_ns,
    wrong_type,
)
from wakebridge.schedule.instants import (
    MAX_NS,
    NS_PER_S,
    Now,
    format_instant,
    with_numeric_offset,
)
from wakebridge.schedule.rules import ALL_DAYS, At, Every, Local, Rule, shared_local

Misfire = Literal["late", "skip"]

GRACE_DEFAULT_NS: Final = 60 * NS_PER_S
"""The grace of E10 when the owner names none."""
ACCEPTANCE_STEP_NS: Final = 1_000_000
"""Instants counted from acceptance fall on whole milliseconds: their text stays short, and readers
that know no nanoseconds read it back unchanged."""

_FIELDS: Final = (
    *("id", "event", "at", "in", "every", "local", "data"),
    *("until", "count", "misfire", "grace_s", "ephemeral"),
)
# Whoever can name itself so must not be able to announce misfires or answer requests for others.
_PLATFORM_TYPES: Final = ("ovos.scheduler.", "mycroft.scheduler.", "mycroft.schedule.")

_TIMINGS: Final = ("at", "in", "every", "local")
_DAY_NAMES: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?", re.ASCII)


class Record(msgspec.Struct, frozen=True, gc=False):
    """One accepted schedule.

    `rule` of an `in` schedule is the instant it is estimated to fall on; `in_boot_due_ns` is then
    its deadline on the boot clock, and None after a restart, which makes it an `at` (E5).
    `body` is the request as compact JSON: as it was sent, but for instants, whose `Z` is written
    as `+00:00` (E13), and for the `start` of `every`, which always shows the anchor in use (E6).
    `data_from` is where the value of `data` begins in `body`, 0 when there is none.
    """

    id: str
    skill_id: str
    event: str
    rule: Rule
    in_boot_due_ns: int | None
    until_ns: int | None
    count: int | None
    misfire: Misfire
    grace_ns: int
    ephemeral: bool
    body: bytes
    data_from: int

    @property
    def data_json(self) -> bytes:
        """The fired event's data as compact UTF-8 JSON (E8)."""
        return self.body[self.data_from : -1] if self.data_from else b"{}"

    def to_wire(self) -> dict[str, object]:
        """Return the record for an answer (E24, E25).

        `body` with its owner as `skill_id`, and with the defaults of E8 and E10 written out: a
        client makes a whole request of what it reads here.
        """
        wire: dict[str, object] = {
            "data": {},
            "misfire": self.misfire,
            "grace_s": GRACE_DEFAULT_NS // NS_PER_S,
            "ephemeral": self.ephemeral,
        }
        wire.update(msgspec.json.decode(self.body))
        wire["skill_id"] = self.skill_id
        return wire

    def with_data(self, data: object) -> "Record":
        """Return the record with other `data`; raises `RequestError` (E8)."""
        wire = msgspec.json.decode(self.body) | {"data": data}
        body, data_from = _encode_body(wire)
        return msgspec.structs.replace(self, body=body, data_from=data_from)


def parse_record(skill_id: str, body: object, now: Now, stored: Record | None) -> Record:
    """Return the record that the request `body` of owner `skill_id` describes.

    `now` is the instant of acceptance; `stored` is the record that this one replaces, whose anchor
    an unchanged period keeps (E6). Raises `RequestError` with a code of E21 and a reason that
    names the field. An `at` in the past is accepted: misfire and grace decide what becomes of it.
    """
    given = require_object(body, "the request")
    refuse_unknown(given, _FIELDS, "a schedule")
    record_id = read_name(_required(given, "id"), "id", ID_MAX_CHARS)
    event = _read_event(_required(given, "event"), skill_id)
    timing = _sole_timing(given)
    wire = dict(given)
    rule, in_boot_due_ns = _read_timing(timing, wire, now, stored)
    until_ns, count = _read_bounds(timing, wire)
    misfire = _read_misfire(given.get("misfire", "late"))
    grace_ns = _read_grace(given)
    ephemeral = read_bool(given.get("ephemeral", False), "ephemeral")
    encoded, data_from = _encode_body(wire)  # last: everything in it is checked by now
    record = Record(
        id=record_id,
        skill_id=skill_id,
        event=event,
        rule=rule,
        in_boot_due_ns=in_boot_due_ns,
        until_ns=until_ns,
        count=count,
        misfire=misfire,
        grace_ns=grace_ns,
        ephemeral=ephemeral,
        body=encoded,
        data_from=data_from,
    )
    if first_occurrence(record, now) is None:
        raise _no_occurrence(record, now)
    return record


def first_occurrence(record: Record, now: Now) -> int | None:
    """Return the instant that acceptance at `now` answers as `next`, if there is one (E22).

    A one-shot's occurrence may lie in the past. A recurrence begins with the first occurrence that
    is not: what lies before acceptance was never promised, so it is not missed either. Only a
    `start` that has just passed is fired: "from now on" is a moment ago on arrival.
    """
    rule = record.rule
    if isinstance(rule, At):
        return rule.due_ns
    if isinstance(rule, Every) and _just_passed(rule, record.grace_ns, now):
        first_ns: int | None = rule.start_ns
    else:
        first_ns = rule.next_after(now.wall_ns - 1)
    if first_ns is None or (record.until_ns is not None and first_ns > record.until_ns):
        return None
    return first_ns


def _just_passed(rule: Every, grace_ns: int, now: Now) -> bool:
    """Return whether the start is the only occurrence before `now`, and is still on time."""
    ago_ns = now.wall_ns - rule.start_ns
    return 0 <= ago_ns <= grace_ns and ago_ns < rule.period_ns


def _required(given: dict[object, object], field: str) -> object:
    if field not in given:
        raise RequestError("invalid_record", f"{field} is missing: it is a non-empty string")
    return given[field]


def _sole_timing(given: dict[object, object]) -> str:
    present = [field for field in _TIMINGS if field in given]
    if len(present) != 1:
        found = " and ".join(present) if present else "none"
        reason = f"exactly one of at, in, every, local says when: the request has {found}"
        raise RequestError("invalid_record", reason)
    return present[0]


def _read_event(value: object, skill_id: str) -> str:
    event = read_name(value, "event", EVENT_MAX_CHARS)
    prefix = f"{skill_id}."
    name = event[len(prefix) :] if event.startswith(prefix) else ""
    if event.startswith(_PLATFORM_TYPES):
        reason = f"event {quote(event)} is a message type of the scheduler itself"
        raise RequestError("bad_event", reason)
    if not name or ":" in name:
        reason = f"event must be {quote(prefix)} followed by a name without ':', not {quote(event)}"
        raise RequestError("bad_event", reason)
    return event


def _read_timing(
    timing: str, wire: dict[object, object], now: Now, stored: Record | None
) -> tuple[Rule, int | None]:
    """Return the rule and, for `in`, the boot clock's deadline; writes what is normal to `wire`."""
    if timing == "at":
        due_ns = read_instant(wire["at"], "at")
        wire["at"] = with_numeric_offset(str(wire["at"]))
        return At(due_ns), None
    if timing == "in":
        due_ns, boot_due_ns = _read_delay(wire["in"], now)
        return At(due_ns), boot_due_ns
    if timing == "every":
        rule, wire["every"] = _read_every(wire["every"], now, stored)
        return rule, None
    return _read_local(wire["local"]), None


def _read_delay(value: object, now: Now) -> tuple[int, int]:
    """Return when a delay ends on the wall clock and on the boot clock (E5)."""
    delay = require_object(value, "in")
    refuse_unknown(delay, ("seconds",), "in")
    if "seconds" not in delay:
        raise RequestError("invalid_record", "in.seconds is missing: it is a number above 0")
    seconds = read_seconds(delay["seconds"], "in.seconds")
    if seconds <= 0:
        raise RequestError("invalid_record", "in.seconds must be above 0")
    due_ns = _on_step(now.wall_ns + span_ns(seconds))
    if due_ns > MAX_NS:
        raise RequestError("invalid_record", "in.seconds reaches beyond the year 9999")
    return due_ns, now.boot_ns + due_ns - now.wall_ns


def _read_every(
    value: object, now: Now, stored: Record | None
) -> tuple[Every, dict[object, object]]:
    """Return the rule and the object to show for it, anchor included (E6)."""
    every = require_object(value, "every")
    refuse_unknown(every, ("seconds", "start"), "every")
    if "seconds" not in every:
        raise RequestError("bad_recurrence", "every.seconds is missing: it is a number above 0")
    seconds = read_seconds(every["seconds"], "every.seconds")
    if seconds <= 0:
        raise RequestError("bad_recurrence", "every.seconds must be above 0")
    period_ns = span_ns(seconds)
    if not period_ns:
        reason = "every.seconds is below a nanosecond, the finest period there is"
        raise RequestError("bad_recurrence", reason)
    if "start" in every:
        start_ns = read_instant(every["start"], "every.start")
        text = with_numeric_offset(str(every["start"]))
        return Every(period_ns, start_ns), {"seconds": seconds, "start": text}
    if stored is not None and isinstance(stored.rule, Every) and stored.rule.period_ns == period_ns:
        start_ns = stored.rule.start_ns
    else:
        start_ns = _on_step(now.wall_ns + period_ns)
    if start_ns > MAX_NS:
        raise RequestError("bad_recurrence", "every.seconds reaches beyond the year 9999")
    return Every(period_ns, start_ns), {"seconds": seconds, "start": format_instant(start_ns)}


def _read_local(value: object) -> Local:
    local = require_object(value, "local")
    refuse_unknown(local, ("time", "days", "zone"), "local")
    for field, example in (("time", "07:30"), ("zone", "Europe/Lisbon")):
        if field not in local:
            reason = f"local.{field} is missing: write e.g. '{example}'"
            raise RequestError("bad_recurrence", reason)
        if not isinstance(local[field], str):
            raise wrong_type(f"local.{field}", f"a string such as '{example}'", local[field])
    time, zone = str(local["time"]), str(local["zone"])
    match = _CLOCK_TIME.fullmatch(time)
    if match is None:
        reason = f"local.time must be HH:MM or HH:MM:SS, 00:00 to 23:59:59, not {quote(time)}"
        raise RequestError("bad_recurrence", reason)
    time_s = int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3] or 0)
    try:
        zones.table(zone)
    except UnknownZone as unknown:
        raise RequestError("bad_recurrence", f"local.zone: {unknown.reason}") from None
    days = _read_days(local["days"]) if "days" in local else ALL_DAYS
    return shared_local(time_s, days, zone)


def _read_days(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise wrong_type("local.days", "an array of mon, tue, wed, thu, fri, sat, sun", value)
    for day in value:
        if not isinstance(day, str):
            raise wrong_type("local.days", "an array of strings", day)
        if day not in _DAY_NAMES:
            reason = f"local.days holds {quote(day)}: days are {', '.join(_DAY_NAMES)}"
            raise RequestError("bad_recurrence", reason)
    if not value:
        raise RequestError("bad_recurrence", "local.days is empty: leave it out for every day")
    return tuple(number for number, name in enumerate(_DAY_NAMES) if name in value)


def _read_bounds(timing: str, wire: dict[object, object]) -> tuple[int | None, int | None]:
    """Return `until` and `count` (E9)."""
    if timing in {"at", "in"}:
        for field in ("until", "count"):
            if field in wire:
                reason = f"{field} belongs to every and local only: {timing} occurs once"
                raise RequestError("invalid_record", reason)
        return None, None
    until_ns = count = None
    if "until" in wire:
        until_ns = read_instant(wire["until"], "until")
        wire["until"] = with_numeric_offset(str(wire["until"]))
    if "count" in wire:
        count = read_count(wire["count"], "count")
    return until_ns, count


def _read_misfire(value: object) -> Misfire:
    if not isinstance(value, str):
        raise wrong_type("misfire", "'late' or 'skip'", value)
    if value == "late":
        return "late"
    if value == "skip":
        return "skip"
    raise RequestError("invalid_record", f"misfire must be 'late' or 'skip', not {quote(value)}")


def _read_grace(given: dict[object, object]) -> int:
    if "grace_s" not in given:
        return GRACE_DEFAULT_NS
    grace_s = read_seconds(given["grace_s"], "grace_s")
    if grace_s < 0:
        raise RequestError("invalid_record", "grace_s must be 0 or above")
    return span_ns(grace_s)


def _encode_body(wire: dict[object, object]) -> tuple[bytes, int]:
    """Return the body with `data` last, and where the value of `data` begins in it."""
    if "data" not in wire:
        return msgspec.json.encode(wire), 0
    data_json = read_data(wire.pop("data"))
    head = msgspec.json.encode(wire)[:-1] + b',"data":'
    return head + data_json + b"}", len(head)


def _no_occurrence(record: Record, now: Now) -> RequestError:
    first_ns = record.rule.next_after(now.wall_ns - 1)
    if first_ns is None:
        return RequestError("bad_recurrence", "no occurrence lies before the year 10000")
    shown = format_instant(first_ns)
    return RequestError("bad_recurrence", f"until lies before the next occurrence, {shown}")


def _on_step(instant_ns: int) -> int:
    """Return the first whole millisecond at or after the instant."""
    return -(-instant_ns // ACCEPTANCE_STEP_NS) * ACCEPTANCE_STEP_NS
