"""E13, E21: whatever a field holds, the outcome is one record or one refusal."""

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from wakebridge.schedule.errors import RequestError
from wakebridge.schedule.instants import MAX_NS, NS_PER_S, Now, parse_instant
from wakebridge.schedule.record import Record, first_occurrence, parse_record
from wakebridge.schedule.rules import At
from wakebridge.schedule.stored import decode_stored, encode_stored

_CODES = {"invalid_record", "bad_instant", "bad_recurrence", "bad_event", "payload_too_large"}
_FIELDS = ["id", "event", "at", "in", "every", "local", "data", "until", "count"]
_FIELDS += ["misfire", "grace_s", "ephemeral", "context", "other"]
_PARTS = ["seconds", "start", "time", "days", "zone", "other"]

_text = st.text(st.characters(), max_size=20) | st.text(st.characters(categories=["Cs", "Cc"]))
_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, -1, 10**25, 10**310, 1e300, 5e-324, -0.0])
    | st.floats()
    | _text
    | st.sampled_from(["mon", "UTC", "Europe/Lisbon", "07:30", "late", "skip", "demo.skill.x"])
    | st.datetimes().map(lambda moment: moment.isoformat() + "Z")
)
_values = st.recursive(
    _scalars,
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(_text, children, max_size=4)
        | st.dictionaries(st.sampled_from(_PARTS), children, max_size=4)
    ),
    max_leaves=8,
)
_timings = st.sampled_from(
    [
        {"at": "2026-03-01T09:00:00Z"},
        {"in": {"seconds": 0.25}},
        {"every": {"seconds": 600, "start": "2020-01-01T00:00:00+05:45"}},
        {"every": {"seconds": 1e-9}},
        {"local": {"time": "02:30", "days": ["sun", "sat"], "zone": "America/Nuuk"}},
    ]
)
_NOW = Now(parse_instant("2026-03-01T08:00:00.123456789Z"), boot_ns=77)


def _outcome(request: object, now: Now = _NOW, stored: Record | None = None) -> Record | None:
    """Return the record, or None for a refusal in good form."""
    try:
        return parse_record("demo.skill", request, now, stored)
    except RequestError as error:
        refused = error
    assert refused.code in _CODES
    assert 0 < len(refused.reason) < 250
    assert refused.reason.isprintable()
    return None


def _check(record: Record, now: Now = _NOW) -> None:
    """Check what every accepted record promises."""
    first_ns = first_occurrence(record, now)
    assert first_ns is not None
    assert first_ns <= MAX_NS
    assert isinstance(record.rule, At) or first_ns >= now.wall_ns
    wire = json.loads(record.body)
    assert json.loads(record.data_json) == wire.get("data", {})
    assert wire.items() <= record.to_wire().items()
    again = parse_record("demo.skill", wire, now, None)
    assert (again.rule, again.until_ns, again.body) == (record.rule, record.until_ns, record.body)
    if not record.ephemeral:
        stored = decode_stored(encode_stored(record))
        assert stored.in_boot_due_ns is None
        assert encode_stored(stored) == encode_stored(record)
        assert (stored.rule, stored.body, stored.data_json) == (
            record.rule,
            record.body,
            record.data_json,
        )


@settings(max_examples=400)
@given(_timings, st.sampled_from(_FIELDS), _values)
def test_e13_every_field_takes_anything(timing: dict[str, Any], field: str, value: object) -> None:
    """E13, E21: one field of a good request replaced by any JSON value."""
    request = {"id": "a", "event": "demo.skill.tick", **timing, field: value}
    before = copy.deepcopy(request)
    record = _outcome(request)
    assert request == before
    if record is not None:
        _check(record)


@settings(max_examples=300)
@given(_timings, st.sampled_from(_PARTS), _values)
def test_e13_every_part_of_a_timing_takes_anything(
    timing: dict[str, Any], part: str, value: object
) -> None:
    """E5, E6, E7, E13: one part of a timing replaced by any JSON value."""
    form, given_parts = next(iter(timing.items()))
    parts = {**given_parts, part: value} if isinstance(given_parts, dict) else value
    record = _outcome({"id": "a", "event": "demo.skill.tick", form: parts})
    if record is not None:
        _check(record)


@given(_values | st.dictionaries(st.sampled_from(_FIELDS) | _text, _values))
def test_e21_any_request_has_one_outcome(request: object) -> None:
    """E21: nothing but a refusal is ever raised."""
    record = _outcome(request)
    if record is not None:
        _check(record)


@given(
    st.floats(min_value=0, exclude_min=True) | st.integers(1),
    st.integers(0, MAX_NS),
    st.integers(0, 2**62),
)
def test_e5_e6_any_positive_span_at_any_moment(seconds: float, wall_ns: int, boot_ns: int) -> None:
    """E5, E6: a delay and a period end where they should, within a millisecond, or are refused."""
    now = Now(wall_ns, boot_ns)
    delayed = _outcome({"id": "a", "event": "demo.skill.x", "in": {"seconds": seconds}}, now)
    if delayed is not None:
        _check(delayed, now)
        assert delayed.in_boot_due_ns is not None
        assert isinstance(delayed.rule, At)
        elapsed_ns = delayed.in_boot_due_ns - boot_ns
        assert elapsed_ns == delayed.rule.due_ns - wall_ns
        assert -1 <= elapsed_ns - seconds * NS_PER_S <= 1_000_000 + abs(seconds) * 1e-6
    periodic = _outcome({"id": "a", "event": "demo.skill.x", "every": {"seconds": seconds}}, now)
    if periodic is not None:
        _check(periodic, now)
