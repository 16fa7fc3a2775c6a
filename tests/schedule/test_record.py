"""E1 to E13, E21, E22: what a request must be, and what each refusal says."""

import math
from typing import Any

import pytest

from wakebridge.schedule.errors import RequestError
from wakebridge.schedule.instants import MAX_NS, NS_PER_S, Now, format_instant, parse_instant
from wakebridge.schedule.record import Record, first_occurrence, parse_record
from wakebridge.schedule.rules import ALL_DAYS, At, Every, Local

OWNER = "demo.skill"
NOW = Now(parse_instant("2026-03-01T08:00:00Z"), boot_ns=5 * NS_PER_S)
AT = {"at": "2026-03-01T09:00:00+00:00"}
IN = {"in": {"seconds": 300}}
EVERY = {"every": {"seconds": 600}}
LOCAL = {"local": {"time": "07:30", "zone": "Europe/Lisbon"}}


def body(**fields: Any) -> dict[str, Any]:
    return {"id": "morning", "event": "demo.skill.tick", **fields}


def accept(request: object, now: Now = NOW, stored: Record | None = None) -> Record:
    return parse_record(OWNER, request, now, stored)


def refusal(request: object) -> RequestError:
    with pytest.raises(RequestError) as refused:
        accept(request)
    return refused.value


def next_text(record: Record, now: Now = NOW) -> str | None:
    due_ns = first_occurrence(record, now)
    return None if due_ns is None else format_instant(due_ns)


def test_e4_at_in_any_offset() -> None:
    """E4, E13: one instant; the answer keeps the owner's offset and never shows a `Z`."""
    record = accept(body(at="2026-03-01t10:00:00.5+01:00"))
    assert record.rule == At(parse_instant("2026-03-01T09:00:00.5Z"))
    assert record.to_wire()["at"] == "2026-03-01T10:00:00.5+01:00"
    assert accept(body(at="2026-03-01T09:00:00z")).to_wire()["at"] == "2026-03-01T09:00:00+00:00"


def test_e4_at_in_the_past_is_accepted() -> None:
    """E4, E40: misfire and grace decide about it, not the parser."""
    record = accept(body(at="1990-12-31T23:59:60Z"))
    assert next_text(record) == "1991-01-01T00:00:00+00:00"


def test_e5_in_counts_on_both_clocks_from_acceptance() -> None:
    """E5, E34: a deadline on the boot clock, and the wall-clock instant that is answered."""
    record = accept(body(**{"in": {"seconds": 1.5}}))
    assert record.in_boot_due_ns == NOW.boot_ns + 1_500_000_000
    assert record.rule == At(NOW.wall_ns + 1_500_000_000)
    assert next_text(record) == "2026-03-01T08:00:01.500+00:00"
    assert record.to_wire()["in"] == {"seconds": 1.5}


def test_e5_the_estimate_is_a_whole_millisecond_on_both_clocks() -> None:
    """E5, E34: `due` reads back exactly everywhere, and neither clock is ahead of the other."""
    now = Now(NOW.wall_ns + 123_456, NOW.boot_ns + 7)
    record = accept(body(**{"in": {"seconds": 5e-324}}), now)
    assert record.rule == At(NOW.wall_ns + 1_000_000)
    assert record.in_boot_due_ns == now.boot_ns + 1_000_000 - 123_456


def test_e6_every_starts_one_period_after_acceptance() -> None:
    """E6: the anchor in use is part of the record that is answered."""
    record = accept(body(**EVERY))
    assert record.rule == Every(600 * NS_PER_S, NOW.wall_ns + 600 * NS_PER_S)
    assert next_text(record) == "2026-03-01T08:10:00+00:00"
    assert record.to_wire()["every"] == {"seconds": 600, "start": "2026-03-01T08:10:00+00:00"}


def test_e6_a_replacement_with_the_same_period_keeps_the_anchor() -> None:
    """E6: a component that asks again at every start of its own keeps its phase."""
    first = accept(body(every={"seconds": 600, "start": "2026-01-01T00:03:00Z"}))
    later = Now(NOW.wall_ns + 17 * NS_PER_S, NOW.boot_ns + 17 * NS_PER_S)
    again = accept(body(every={"seconds": 600.0}), later, first)
    assert again.rule == first.rule
    assert next_text(again, later) == "2026-03-01T08:03:00+00:00"
    assert again.to_wire()["every"] == {"seconds": 600.0, "start": "2026-01-01T00:03:00+00:00"}
    assert accept(again_body(again), later).rule == first.rule


def again_body(record: Record) -> dict[str, Any]:
    """Return what an owner sends who read its record with `get` and schedules it again."""
    wire = record.to_wire()
    assert wire.pop("skill_id") == OWNER
    return wire


@pytest.mark.parametrize("other", [{"every": {"seconds": 601}}, LOCAL, AT])
def test_e6_another_period_has_another_anchor(other: dict[str, Any]) -> None:
    """E6: only an unchanged period keeps the stored anchor."""
    stored = accept(body(**other))
    start_ns = NOW.wall_ns + 600 * NS_PER_S
    assert accept(body(**EVERY), NOW, stored).rule == Every(600 * NS_PER_S, start_ns)


def test_e6_a_given_start_wins_over_the_stored_one() -> None:
    """E6: an owner that names an anchor means it."""
    stored = accept(body(**EVERY))
    moved = accept(body(every={"seconds": 600, "start": "2026-01-01T00:00:00Z"}), NOW, stored)
    assert moved.rule == Every(600 * NS_PER_S, parse_instant("2026-01-01T00:00:00Z"))


def test_e6_a_start_in_the_past_begins_with_the_first_occurrence_from_now() -> None:
    """E6, E22: what lies before acceptance was never promised; one due right now is."""
    record = accept(body(every={"seconds": 86_400, "start": "2020-01-01T08:00:00Z"}))
    assert next_text(record) == "2026-03-01T08:00:00+00:00"
    assert next_text(record, Now(NOW.wall_ns + 1, 0)) == "2026-03-02T08:00:00+00:00"


@pytest.mark.parametrize(
    ("seconds", "period_ns"),
    [
        (0.1, 100_000_000),
        (1e-9, 1),
        (1234567.1, 1_234_567_100_000_000),
        (100_000_000.1, 100_000_000_100_000_000),
        (600, 600 * NS_PER_S),
    ],
)
def test_e6_periods_are_the_decimal_digits_that_were_sent(seconds: float, period_ns: int) -> None:
    """E6, E35: exact to the nanosecond, and as short as one."""
    rule = accept(body(every={"seconds": seconds, "start": "2026-03-01T09:00:00Z"})).rule
    assert isinstance(rule, Every)
    assert rule.period_ns == period_ns


@pytest.mark.parametrize("seconds", [1e300, 10**300, 1e12])
def test_e6_a_period_beyond_the_calendar_occurs_once(seconds: float) -> None:
    """E6, E12: with a start it has that occurrence; without one it has none."""
    record = accept(body(every={"seconds": seconds, "start": "2026-03-01T09:00:00Z"}))
    assert next_text(record) == "2026-03-01T09:00:00+00:00"
    assert record.rule.next_after(parse_instant("2026-03-01T09:00:00Z")) is None
    assert refusal(body(every={"seconds": seconds})).code == "bad_recurrence"


def test_e7_local() -> None:
    """E7: days default to all, seconds to zero."""
    record = accept(body(**LOCAL))
    assert record.rule == Local(27_000, ALL_DAYS, "Europe/Lisbon")
    assert next_text(record) == "2026-03-02T07:30:00+00:00"
    days = ["sun", "mon", "mon"]
    weekend = accept(body(local={"time": "23:59:59", "days": days, "zone": "Europe/Lisbon"}))
    assert weekend.rule == Local(86_399, (0, 6), "Europe/Lisbon")
    assert weekend.to_wire()["local"] == {"time": "23:59:59", "days": days, "zone": "Europe/Lisbon"}


def test_e8_data_is_kept_as_compact_json() -> None:
    """E8: default `{}`; order, numbers and letters stay as they came."""
    assert accept(body(**AT)).data_json == b"{}"
    assert accept(body(**AT)).to_wire()["data"] == {}
    data = {"b": [1, 1.0, -0.0, 10**30], "a": {"ä": None, "😀": True}}
    record = accept(body(data=data, **AT))
    assert record.data_json.decode() == (
        '{"b":[1,1.0,-0.0,1000000000000000000000000000000],"a":{"ä":null,"😀":true}}'
    )
    assert record.to_wire()["data"] == data


def test_e90_data_alone_can_be_replaced() -> None:
    """E90, E8: everything else stays, and the new data has the same bounds."""
    record = accept(body(data={"x": 1}, count=3, **EVERY))
    changed = record.with_data({"y": "ä"})
    assert changed.to_wire() == {**record.to_wire(), "data": {"y": "ä"}}
    assert changed.data_json == '{"y":"ä"}'.encode()
    assert (changed.rule, changed.count) == (record.rule, record.count)
    with pytest.raises(RequestError) as refused:
        record.with_data({"x": "a" * 16_384})
    assert refused.value.code == "payload_too_large"


def test_e8_data_is_measured_in_compact_utf8() -> None:
    """E8: exactly 16384 bytes are accepted, one more is too large; an umlaut is two."""
    room = 16_384 - len('{"x":""}')
    assert len(accept(body(data={"x": "a" * room}, **AT)).data_json) == 16_384
    assert len(accept(body(data={"x": "ä" * (room // 2)}, **AT)).data_json) == 16_384
    refused = refusal(body(data={"x": "a" * (room + 1)}, **AT))
    assert (refused.code, "16385 bytes" in refused.reason) == ("payload_too_large", True)


def test_e9_until_and_count_bound_a_recurrence() -> None:
    """E9: `until` is inclusive, and both are kept."""
    record = accept(body(until="2026-03-01T08:10:00z", count=3, **EVERY))
    assert record.until_ns == parse_instant("2026-03-01T08:10:00Z")
    assert record.count == 3
    assert next_text(record) == "2026-03-01T08:10:00+00:00"
    assert record.to_wire()["until"] == "2026-03-01T08:10:00+00:00"


def test_e10_policies() -> None:
    """E10: late, 60 seconds and durable unless asked otherwise."""
    record = accept(body(**AT))
    assert (record.misfire, record.grace_ns, record.ephemeral) == ("late", 60 * NS_PER_S, False)
    record = accept(body(misfire="skip", grace_s=0.5, ephemeral=True, **AT))
    assert (record.misfire, record.grace_ns, record.ephemeral) == ("skip", 500_000_000, True)
    assert accept(body(grace_s=0, **AT)).grace_ns == 0
    assert accept(body(grace_s=1e308, **AT)).grace_ns > MAX_NS


def test_e24_the_record_is_answered_as_it_was_asked_with_its_owner() -> None:
    """E24, E25, E11: what is added is the owner, the anchor and defaults; no context is in it."""
    asked = body(count=2, misfire="skip", data={"x": 1}, **LOCAL)
    shown = accept(asked).to_wire()
    assert shown == {**asked, "grace_s": 60, "ephemeral": False, "skill_id": OWNER}
    assert "data" in asked  # the request itself is left alone


_INVALID_RECORD: list[tuple[object, str]] = [
    (None, "the request must be a JSON object, not null"),
    ([], "the request must be a JSON object, not an array"),
    ("at", "the request must be a JSON object, not a string"),
    ({}, "id is missing"),
    ({"event": "demo.skill.tick", **AT}, "id is missing"),
    (body(id=7, **AT), "id must be a non-empty string, not a number"),
    (body(id="", **AT), "id is empty"),
    (body(id=["a"], **AT), "id must be a non-empty string, not an array"),
    (body(id=None, **AT), "id must be a non-empty string, not null"),
    (body(id="a" * 257, **AT), "id has 257 characters, the limit is 256"),
    (body(id="a\nb", **AT), "id holds a control character"),
    (body(id="\ud800", **AT), "id holds a control character or half a surrogate pair"),
    ({"id": "a", **AT}, "event is missing"),
    (body(event=None, **AT), "event must be a non-empty string"),
    (body(event="demo.skill." + "a" * 512, **AT), "event has 523 characters"),
    (body(event="demo.skill.a\0", **AT), "event holds a control character"),
    (body(), "exactly one of at, in, every, local says when: the request has none"),
    (body(**AT, **IN), "the request has at and in"),
    (body(**AT, every=None), "the request has at and every"),
    (body(**IN, **EVERY, **LOCAL), "the request has in and every and local"),
    (body(at=1767225600.5), "at must be an RFC 3339 instant with an offset, as a string"),
    (body(at=None), "at must be an RFC 3339 instant"),
    (body(**{"in": 5}), "in must be a JSON object, not a number"),
    (body(**{"in": {}}), "in.seconds is missing"),
    (body(**{"in": {"seconds": 0}}), "in.seconds must be above 0"),
    (body(**{"in": {"seconds": -0.0}}), "in.seconds must be above 0"),
    (body(**{"in": {"seconds": -1}}), "in.seconds must be above 0"),
    (body(**{"in": {"seconds": -1e-300}}), "in.seconds must be above 0"),
    (body(**{"in": {"seconds": True}}), "in.seconds must be a number of seconds, not a boolean"),
    (body(**{"in": {"seconds": "5"}}), "in.seconds must be a number of seconds, not a string"),
    (body(**{"in": {"seconds": math.nan}}), "in.seconds is nan: it is a finite number"),
    (body(**{"in": {"seconds": math.inf}}), "in.seconds is inf: it is a finite number"),
    (body(**{"in": {"seconds": 1e300}}), "in.seconds reaches beyond the year 9999"),
    (body(**{"in": {"seconds": 10**5000}}), "in.seconds is too large: it is a finite number"),
    (body(**{"in": {"seconds": 5, "minutes": 1}}), "in has no field 'minutes': it has seconds"),
    (body(every=600), "every must be a JSON object, not a number"),
    (body(every={"seconds": "600"}), "every.seconds must be a number of seconds, not a string"),
    (body(every={"seconds": False}), "every.seconds must be a number of seconds, not a boolean"),
    (body(every={"seconds": -math.inf}), "every.seconds is -inf"),
    (body(every={"seconds": 600, "start": 5}), "every.start must be an RFC 3339 instant"),
    (body(every={"seconds": 600, "anchor": 5}), "every has no field 'anchor'"),
    (body(local="07:30"), "local must be a JSON object, not a string"),
    (body(local={"time": 730, "zone": "UTC"}), "local.time must be a string such as '07:30'"),
    (body(local={"time": "07:30", "zone": 0}), "local.zone must be a string such as"),
    (body(local={"time": "07:30", "zone": "UTC", "days": "mon"}), "local.days must be an array"),
    (body(local={"time": "07:30", "zone": "UTC", "days": [0]}), "local.days must be an array of"),
    (body(local={"time": "07:30", "zone": "UTC", "tz": 1}), "local has no field 'tz'"),
    (body(data=[], **AT), "data must be a JSON object, not an array"),
    (body(data="x", **AT), "data must be a JSON object, not a string"),
    (body(data=None, **AT), "data must be a JSON object, not null: leave the field out"),
    (body(data={"x": math.nan}, **AT), "data is not plain JSON"),
    (body(data={"x": [{"y": -math.inf}]}, **AT), "data is not plain JSON"),
    (body(data={"x": "\udfff"}, **AT), "data holds half a surrogate pair"),
    (body(data={"\udfff": 1}, **AT), "data holds half a surrogate pair"),
    (body(data={"x": {1, 2}}, **AT), "data is not plain JSON"),
    (body(data={"x": 10**5000}, **AT), "data is not plain JSON"),
    (body(until="2027-01-01T00:00:00Z", **AT), "until belongs to every and local only"),
    (body(until="nonsense", **IN), "until belongs to every and local only"),
    (body(count=1, **AT), "count belongs to every and local only"),
    (body(count=1, **IN), "count belongs to every and local only"),
    (body(count=0, **EVERY), "count must be between 1 and"),
    (body(count=-1, **LOCAL), "count must be between 1 and"),
    (body(count=2**63, **LOCAL), "count must be between 1 and"),
    (body(count=1.5, **EVERY), "count must be an integer of at least 1, not a number"),
    (body(count=True, **EVERY), "count must be an integer of at least 1, not a boolean"),
    (body(count="3", **EVERY), "count must be an integer of at least 1, not a string"),
    (body(until=1767225600, **EVERY), "until must be an RFC 3339 instant"),
    (body(misfire="all", **AT), "misfire must be 'late' or 'skip', not 'all'"),
    (body(misfire="LATE", **AT), "misfire must be 'late' or 'skip'"),
    (body(misfire=None, **AT), "misfire must be 'late' or 'skip', not null: leave the field out"),
    (body(misfire=["late"], **AT), "misfire must be 'late' or 'skip', not an array"),
    (body(grace_s=-1, **AT), "grace_s must be 0 or above"),
    (body(grace_s=-1e-300, **AT), "grace_s must be 0 or above"),
    (body(grace_s=math.nan, **AT), "grace_s is nan"),
    (body(grace_s="60", **AT), "grace_s must be a number of seconds, not a string"),
    (body(grace_s=True, **AT), "grace_s must be a number of seconds, not a boolean"),
    (body(ephemeral=1, **AT), "ephemeral must be true or false, not a number"),
    (body(ephemeral="yes", **AT), "ephemeral must be true or false, not a string"),
    (body(ephemeral=None, **AT), "ephemeral must be true or false, not null"),
    (body(context={}, **AT), "a schedule has no field 'context'"),
    (body(skill_id=OWNER, **AT), "a schedule has no field 'skill_id'"),
    (body(Misfire="late", **AT), "a schedule has no field 'Misfire'"),
    (body(**AT) | {5: 1}, "a schedule has no field '5'"),
    (body(**{"x\n" * 500: 1}, **AT), "a schedule has no field"),
]

_BAD_INSTANT: list[tuple[object, str]] = [
    (body(at="2026-03-01T09:00:00"), "at: '2026-03-01T09:00:00' has no UTC offset"),
    (body(at=""), "at: '' is not an RFC 3339 instant"),
    (body(at="2026-02-29T08:00:00Z"), "at: '2026-02-29T08:00:00Z' names a day that does not exist"),
    (body(at="9999-12-31T23:59:59-01:00"), "at: "),
    (body(every={"seconds": 1, "start": "2026-03-01"}), "every.start: '2026-03-01' is a date"),
    (body(every={"seconds": 1, "start": "now"}), "every.start: "),
    (body(until="2027-01-01T00:00:00", **LOCAL), "until: "),
    (body(until="2027-01-01T00:00:00+24:00", **EVERY), "until: "),
]

_BAD_RECURRENCE: list[tuple[object, str]] = [
    (body(every={}), "every.seconds is missing"),
    (body(every={"seconds": 0}), "every.seconds must be above 0"),
    (body(every={"seconds": -600}), "every.seconds must be above 0"),
    (body(every={"seconds": 1e-10}), "every.seconds is below a nanosecond"),
    (body(every={"seconds": 1e300}), "every.seconds reaches beyond the year 9999"),
    (body(until="2026-03-01T08:09:59Z", **EVERY), "until lies before the next occurrence, 2026"),
    (body(until="2020-01-01T00:00:00Z", **LOCAL), "until lies before the next occurrence"),
    (body(local={"zone": "UTC"}), "local.time is missing"),
    (body(local={"time": "07:30"}), "local.zone is missing"),
    (body(local={"time": "7:30", "zone": "UTC"}), "local.time must be HH:MM or HH:MM:SS"),
    (body(local={"time": "24:00", "zone": "UTC"}), "local.time must be HH:MM"),
    (body(local={"time": "23:60", "zone": "UTC"}), "local.time must be HH:MM"),
    (body(local={"time": "23:59:60", "zone": "UTC"}), "local.time must be HH:MM"),
    (body(local={"time": "07:30\n", "zone": "UTC"}), "local.time must be HH:MM"),
    (body(local={"time": "07:30", "zone": "UTC", "days": []}), "local.days is empty"),
    (body(local={"time": "07:30", "zone": "UTC", "days": ["monday"]}), "local.days holds 'monday'"),
    (body(local={"time": "07:30", "zone": "Europe/Lisboa"}), "did you mean 'Europe/Lisbon'"),
    (body(local={"time": "07:30", "zone": ""}), "local.zone: '' is not an IANA time zone"),
    (body(local={"time": "07:30", "zone": "../../etc/passwd"}), "is not an IANA time zone name"),
    (body(local={"time": "07:30", "zone": "localtime"}), "is not an IANA time zone name"),
    (body(local={"time": "07:30", "zone": "+01:00"}), "is not an IANA time zone name"),
]

_BAD_EVENT: list[tuple[object, str]] = [
    (body(event="tick", **AT), "event must be 'demo.skill.' followed by a name"),
    (body(event="demo.skill.", **AT), "event must be"),
    (body(event="demo.skill", **AT), "event must be"),
    (body(event="other.skill.tick", **AT), "not 'other.skill.tick'"),
    (body(event="demo.skill:tick", **AT), "event must be"),
    (body(event="demo.skill.a:b", **AT), "without ':'"),
    (body(event="Demo.skill.tick", **AT), "event must be"),
]

_PAYLOAD_TOO_LARGE: list[tuple[object, str]] = [
    (
        body(data={"x": "a" * 16_384}, **AT),
        "data is 16392 bytes of compact JSON, the limit is 16384",
    ),
    (body(data={"x": [0] * 10_000}, **AT), "data is 20007 bytes"),
    (body(data={str(n): n for n in range(4000)}, **IN), "data is "),
]


@pytest.mark.parametrize(
    ("code", "request_body", "reason"),
    [
        *[("invalid_record", *row) for row in _INVALID_RECORD],
        *[("bad_instant", *row) for row in _BAD_INSTANT],
        *[("bad_recurrence", *row) for row in _BAD_RECURRENCE],
        *[("bad_event", *row) for row in _BAD_EVENT],
        *[("payload_too_large", *row) for row in _PAYLOAD_TOO_LARGE],
    ],
)
def test_e13_e21_refusals_name_the_field_and_what_would_be_right(
    code: str, request_body: object, reason: str
) -> None:
    """E2, E3, E4, E8, E9, E12, E13, E21: one code, one short line for the log."""
    refused = refusal(request_body)
    assert (refused.code, reason in refused.reason) == (code, True), refused.reason
    assert refused.reason.isprintable()
    assert len(refused.reason) < 250


def _nested(levels: int) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for _ in range(levels - 1):
        data = {"x": data}
    return data


def test_e8_depth_of_data_is_bounded() -> None:
    """E8, E13: 64 levels are plenty; deeper ones are refused however deep they are."""
    assert accept(body(data=_nested(64), **AT)).to_wire()["data"] == _nested(64)
    for levels in (65, 900, 100_000):
        refused = refusal(body(data=_nested(levels), **AT))
        assert (refused.code, refused.reason) == (
            "invalid_record",
            "data is nested deeper than 64 levels",
        )
    wide = {"x": [{"y": [n]} for n in range(500)]}
    assert accept(body(data=wide, **AT)).to_wire()["data"] == wide


def test_e8_data_that_holds_itself_is_refused() -> None:
    """E8: only an in-process caller can send it, and gets an answer too."""
    data: dict[str, Any] = {}
    data["self"] = data
    assert refusal(body(data=data, **AT)).code == "invalid_record"


@pytest.mark.parametrize("name", ["missed", "ready", "schedule.response"])
def test_no_owner_can_fire_a_message_of_the_scheduler_itself_e2(name: str) -> None:
    body = {"id": "x", "event": f"ovos.scheduler.{name}", "at": "2031-01-01T00:00:00Z"}
    with pytest.raises(RequestError) as refused:
        parse_record("ovos.scheduler", body, Now(0, 0), None)
    assert refused.value.code == "bad_event"
