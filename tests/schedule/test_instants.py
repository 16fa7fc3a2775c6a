"""E4, E13 and case A14: RFC 3339 in, one numeric-offset form out."""

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebridge.schedule.errors import BadInstant, UnknownZone
from wakebridge.schedule.instants import (
    MAX_NS,
    MIN_NS,
    format_instant,
    format_instant_in,
    parse_instant,
    with_numeric_offset,
)

_CASES = json.loads((Path(__file__).parents[1] / "data" / "field-cases.json").read_text())
_A14 = next(case for case in _CASES if case["id"] == "A14")

instants_ns = st.integers(MIN_NS, MAX_NS)


@pytest.mark.parametrize(("text", "expected"), [*zip(_A14["input"], _A14["expected"], strict=True)])
def test_field_case_a14(text: str, expected: str) -> None:
    """A14."""
    if expected == "error":
        with pytest.raises(BadInstant):
            parse_instant(text)
    else:
        assert parse_instant(text) == parse_instant(expected)


@pytest.mark.parametrize(
    ("text", "instant_ns"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("1970-01-01T00:00:00.0000000019999Z", 1),
        ("1969-12-31T23:59:59.9Z", -100_000_000),
        ("1970-01-01T00:00:00." + "1" * 10_000 + "Z", 111_111_111),
        ("0001-01-01T00:00:00Z", MIN_NS),
        ("9999-12-31T23:59:59.999999999Z", MAX_NS),
        ("2016-12-31T18:59:60.25-05:00", 1_483_228_800_250_000_000),
        ("2000-02-29T23:59:59-23:59", 951_955_139_000_000_000),
    ],
)
def test_e4_parses(text: str, instant_ns: int) -> None:
    """E4: nanoseconds since the Unix epoch, digits beyond them cut off."""
    assert parse_instant(text) == instant_ns


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("2026-03-01T08:00:00", "no UTC offset: write"),
        ("2026-03-01T08:00:00.5", "no UTC offset: write"),
        ("2026-03-01 08:00:00", "no UTC offset: write"),
        ("2026-03-01", "a date without a time"),
        ("2026-03-01 08:00:00Z", "a space where RFC 3339 has a 'T'"),
        ("2026-03-01T08:00:00.Z", "no digits after"),
        ("2026-03-01T08:00:00,5Z", "no digits after"),
        ("2026-03-01T08:00:00+0100", "without a colon"),
        ("2026-03-01T08:00:00+01", "without a colon"),
        ("2026-03-01T08:00:00+24:00", "offset beyond 23:59"),
        ("2026-03-01T08:00:00+01:60", "offset beyond 23:59"),
        ("2026-02-30T08:00:00Z", "a day that does not exist"),
        ("2026-00-01T08:00:00Z", "a day that does not exist"),
        ("0000-01-01T08:00:00Z", "a day that does not exist"),
        ("2026-03-01T24:00:00Z", "a time of day that does not exist"),
        ("2026-03-01T08:60:00Z", "a time of day that does not exist"),
        ("2026-03-01T08:00:61Z", "a time of day that does not exist"),
        ("2026-03-01T23:59:60+01:00", "not a leap second"),
        ("9999-12-31T23:59:60Z", "outside the years"),
        ("9999-12-31T23:59:59-00:01", "outside the years"),
        ("0001-01-01T00:00:00+00:01", "outside the years"),
        ("1767225600", "a number, not an instant"),
        ("1767225600.5", "a number, not an instant"),
        ("", "not an RFC 3339 instant"),
        ("tomorrow", "not an RFC 3339 instant"),
        ("2026-3-1T08:00:00Z", "not an RFC 3339 instant"),
        ("２０２６-03-01T08:00:00Z", "not an RFC 3339 instant"),  # noqa: RUF001 - digits, but not RFC 3339's
        ("2026-03-01T08:00:00Z\n", "not an RFC 3339 instant"),
        ("+2026-03-01T08:00:00Z", "not an RFC 3339 instant"),
        ("2026-W09-7T08:00:00Z", "not an RFC 3339 instant"),
        ("\ud800", "not an RFC 3339 instant"),
        ("2026-03-01T08:00:00Z" * 1000, "not an RFC 3339 instant"),
        (None, "not null"),
        (1767225600, "not a int"),
        (b"2026-03-01T08:00:00Z", "not a bytes"),
    ],
)
def test_e4_bad_instants_say_what_is_wrong(text: object, reason: str) -> None:
    """E4: every refusal tells what was wrong in one short line."""
    with pytest.raises(BadInstant) as refused:
        parse_instant(text)
    assert reason in refused.value.reason
    assert len(refused.value.reason) < 160
    assert refused.value.reason.isprintable()


@given(instants_ns)
def test_e13_format_is_read_back_exactly(instant_ns: int) -> None:
    """E13: the offset is numeric and nothing is lost."""
    text = format_instant(instant_ns)
    assert text.endswith("+00:00")
    assert parse_instant(text) == instant_ns


@pytest.mark.parametrize(
    ("instant_ns", "text"),
    [
        (0, "1970-01-01T00:00:00+00:00"),
        (500_000_000, "1970-01-01T00:00:00.500+00:00"),
        (1_000, "1970-01-01T00:00:00.000001+00:00"),
        (-1, "1969-12-31T23:59:59.999999999+00:00"),
        (MIN_NS, "0001-01-01T00:00:00+00:00"),
        (MAX_NS, "9999-12-31T23:59:59.999999999+00:00"),
    ],
)
def test_e13_format(instant_ns: int, text: str) -> None:
    """E13: a fraction only when there is one, in groups of three digits."""
    assert format_instant(instant_ns) == text


@given(st.datetimes(timezones=st.timezones()))
def test_e4_agrees_with_the_standard_library(moment: datetime) -> None:
    """E4: whatever an aware datetime prints with a whole-minute offset is understood alike."""
    offset = moment.utcoffset()
    assert offset is not None
    offset = timedelta(minutes=offset // timedelta(minutes=1))
    moment = moment.replace(tzinfo=timezone(offset))
    try:
        in_utc = moment.astimezone(UTC)
    except OverflowError:
        with pytest.raises(BadInstant, match="outside the years"):
            parse_instant(moment.isoformat())
        return
    expected_us = (in_utc - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert parse_instant(moment.isoformat()) == expected_us * 1000
    assert parse_instant(moment.isoformat().lower()) == expected_us * 1000


@given(
    st.text() | st.from_regex(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d*)?([Zz]|[+-]\d\d:?\d\d)?")
)
def test_e4_any_text_is_an_instant_or_a_bad_one(text: str) -> None:
    """E4: nothing else is raised, and what is accepted stays the same instant when shown."""
    try:
        instant_ns = parse_instant(text)
    except BadInstant:
        return
    assert MIN_NS <= instant_ns <= MAX_NS
    shown = with_numeric_offset(text)
    assert parse_instant(shown) == instant_ns
    assert shown[-6] in "+-"


@given(instants_ns, st.sampled_from(["UTC", "Asia/Kathmandu", "America/Nuuk", "Europe/Lisbon"]))
def test_local_text_names_the_same_instant(instant_ns: int, zone: str) -> None:
    """E13: text for people has the zone's offset and is still exact, in local mean time too."""
    assert parse_instant(format_instant_in(instant_ns, zone)) == instant_ns


def test_local_text_has_the_offset_of_that_moment() -> None:
    """E7d: the offset is the one the zone has then."""
    assert format_instant_in(parse_instant("2026-07-01T06:30:00Z"), "Europe/Lisbon") == (
        "2026-07-01T07:30:00+01:00"
    )
    assert format_instant_in(parse_instant("2026-01-01T00:00:00.25Z"), "America/St_Johns") == (
        "2025-12-31T20:30:00.250-03:30"
    )
    with pytest.raises(UnknownZone):
        format_instant_in(0, "Europe/Lisboa")
