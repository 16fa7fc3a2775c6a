"""E4 to E7, E35 and cases A01 to A05: which instants are occurrences, and what asking costs."""

import json
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from wakebridge.schedule import zones
from wakebridge.schedule.instants import (
    MAX_NS,
    MIN_NS,
    NS_PER_S,
    format_instant_in,
    parse_instant,
)
from wakebridge.schedule.rules import ALL_DAYS, At, Every, Local, Rule

_CASES = {
    case["id"]: case
    for case in json.loads((Path(__file__).parents[1] / "data" / "field-cases.json").read_text())
}
_DAY_NAMES = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_DAY_NS = 86_400 * NS_PER_S
_YEAR_NS = 366 * _DAY_NS


def _rows(*case_ids: str) -> list[Any]:
    return [
        pytest.param(given_row, expected_row, id=f"{case_id}-{given_row['row']}")
        for case_id in case_ids
        for given_row, expected_row in zip(
            _CASES[case_id]["input"], _CASES[case_id]["expected"], strict=True
        )
    ]


def _local(row: dict[str, Any]) -> Local:
    hours, minutes = map(int, row["time"].split(":"))
    days: tuple[int, ...] = ALL_DAYS
    if row["days"] != "all":
        days = tuple(sorted(_DAY_NAMES.index(day) for day in row["days"]))
    return Local(hours * 3600 + minutes * 60, days, row["tz"])


def _walk(rule: Rule, after_ns: int, count: int) -> list[int]:
    found: list[int] = []
    for _ in range(count):
        due_ns = rule.next_after(found[-1] if found else after_ns)
        if due_ns is None:
            break
        found.append(due_ns)
    return found


@pytest.mark.parametrize(("row", "expected"), _rows("A01", "A02", "A03", "A04"))
def test_field_cases_of_local(row: dict[str, Any], expected: dict[str, Any]) -> None:
    """E7a, E7b, A01, A02, A03, A04."""
    rule, after_ns = _local(row), parse_instant(row["after"])
    found = _walk(rule, after_ns, row["count"])
    assert found == [parse_instant(text) for text in expected["next_utc"]]
    assert [format_instant_in(due_ns, row["tz"]) for due_ns in found] == expected["local"]
    assert rule.latest(after_ns, found[-1], 99) == found
    assert rule.count_between(after_ns, found[-1]) == len(found)


def test_field_case_a05_keeps_the_anchor() -> None:
    """E6, A05: however late it is asked, the phase is the anchor's."""
    down, suspended, across_dst, since_1970 = _CASES["A05"]["input"]
    expected = _CASES["A05"]["expected"]
    anchor_ns = parse_instant(down["anchor"])
    daily = Every(down["period_s"] * NS_PER_S, anchor_ns)
    assert daily.next_after(parse_instant(down["down_until"])) == parse_instant(expected[0]["next"])
    assert parse_instant(expected[0]["next"]) == anchor_ns + expected[0]["k"] * daily.period_ns
    minutely = Every(suspended["period_s"] * NS_PER_S, parse_instant(suspended["anchor"]))
    assert _walk(minutely, parse_instant(suspended["suspended"][1]), 3) == [
        parse_instant(text) for text in expected[1]["on_time_fires_in_next_180s"]
    ]
    elapsed = Every(across_dst["period_s"] * NS_PER_S, parse_instant(across_dst["anchor"]))
    assert _walk(elapsed, parse_instant(across_dst["after"]), across_dst["count"]) == [
        parse_instant(text) for text in expected[2]["next"]
    ]
    secondly = Every(since_1970["period_s"] * NS_PER_S, parse_instant(since_1970["anchor"]))
    found = secondly.next_after(parse_instant(since_1970["after"]))
    assert found == parse_instant(expected[3]["next"])


def test_e7_a_skipped_day_is_not_two_occurrences() -> None:
    """E7a: Samoa had no 30 December 2011; the day's alarm is that night's midnight, once."""
    after_ns = parse_instant("2011-12-29T12:00:00-10:00")
    midnight = Local(0, ALL_DAYS, "Pacific/Apia")
    assert [
        format_instant_in(due_ns, "Pacific/Apia") for due_ns in _walk(midnight, after_ns, 2)
    ] == [
        "2011-12-31T00:00:00+14:00",
        "2012-01-01T00:00:00+14:00",
    ]
    morning = Local(7 * 3600, (4, 5), "Pacific/Apia")
    assert [
        format_instant_in(due_ns, "Pacific/Apia") for due_ns in _walk(morning, after_ns, 2)
    ] == [
        "2011-12-31T00:00:00+14:00",
        "2011-12-31T07:00:00+14:00",
    ]
    only_friday = Local(7 * 3600, (4,), "Pacific/Apia")
    assert format_instant_in(_walk(only_friday, after_ns, 1)[0], "Pacific/Apia") == (
        "2012-01-06T07:00:00+14:00"
    )


def test_e4_at_occurs_once() -> None:
    """E4: one occurrence, seen by every question alike."""
    rule = At(10)
    assert rule.next_after(9) == 10
    assert rule.next_after(10) is None
    assert (rule.count_between(9, 10), rule.count_between(10, 11), rule.count_between(0, 9)) == (
        1,
        0,
        0,
    )
    assert (rule.last_through(0, 99), rule.last_through(10, 99)) == (10, None)
    assert (rule.latest(0, 99, 5), rule.latest(0, 99, 0), rule.latest(10, 99, 5)) == ([10], [], [])
    assert (rule.nth_after(0, 1), rule.nth_after(0, 2)) == (10, None)
    assert At(MAX_NS + 1).next_after(0) is None


_zone_names = st.sampled_from(sorted(zones.zone_names()))
_locals = st.builds(
    Local,
    st.integers(0, 86_399),
    st.sets(st.integers(0, 6), min_size=1).map(lambda days: tuple(sorted(days))),
    _zone_names,
)
_moments_ns = st.integers(MIN_NS - _DAY_NS, MAX_NS + _DAY_NS)
_near_moments_ns = st.integers(
    parse_instant("1965-01-01T00:00:00Z"), parse_instant("2045-01-01T00:00:00Z")
)
_everys = st.builds(
    Every, st.integers(1, 2**70) | st.integers(1, 100 * _YEAR_NS), st.integers(MIN_NS, MAX_NS)
)
_rules = _locals | _everys


@given(_rules, _moments_ns)
def test_next_after_is_strictly_later_and_nothing_lies_between(rule: Rule, after_ns: int) -> None:
    """E6, E7: the next occurrence is later, is the first, and is an occurrence."""
    due_ns = rule.next_after(after_ns)
    if due_ns is None:
        assert rule.count_between(after_ns, MAX_NS) == 0
        return
    assert after_ns < due_ns <= MAX_NS
    assert rule.count_between(after_ns, due_ns) == 1
    assert rule.count_between(after_ns, due_ns - 1) == 0
    assert rule.last_through(after_ns, due_ns) == due_ns
    assert rule.last_through(after_ns, due_ns - 1) is None
    assert rule.next_after(due_ns - 1) == due_ns


@given(_locals, _near_moments_ns, st.integers(1, 60))
def test_e7_every_question_agrees_with_a_walk(rule: Local, after_ns: int, count: int) -> None:
    """E7: counting, looking back and jumping ahead tell the same occurrences as walking."""
    walked = _walk(rule, after_ns, count)
    assert all(earlier < later for earlier, later in pairwise(walked))
    assert rule.count_between(after_ns, walked[-1]) == count
    assert rule.latest(after_ns, walked[-1], count + 1) == walked
    assert rule.latest(after_ns, walked[-1], 3) == walked[-3:]
    assert rule.last_through(after_ns, walked[-1]) == walked[-1]
    assert [rule.nth_after(after_ns, nth) for nth in range(1, count + 1)] == walked


@given(_rules, _near_moments_ns, st.integers(0, 70 * _YEAR_NS), st.integers(0, 70 * _YEAR_NS))
def test_counts_add_up(rule: Rule, start_ns: int, first_ns: int, second_ns: int) -> None:
    """E9: an interval split in two holds as many occurrences as its halves, over decades too."""
    middle_ns = start_ns + first_ns
    end_ns = middle_ns + second_ns
    whole = rule.count_between(start_ns, end_ns)
    assert whole == rule.count_between(start_ns, middle_ns) + rule.count_between(middle_ns, end_ns)
    assert (rule.last_through(start_ns, end_ns) is None) == (whole == 0)
    if whole:
        assert rule.nth_after(start_ns, whole) == rule.last_through(start_ns, end_ns)
        assert len(rule.latest(start_ns, end_ns, 5)) == min(whole, 5)
    assert rule.count_between(end_ns, start_ns) == 0


@given(_everys, _moments_ns, st.integers(1, 30))
def test_e6_every_is_start_plus_n_periods(rule: Every, after_ns: int, count: int) -> None:
    """E6: tiny and huge periods, anchors before and after."""
    walked = _walk(rule, after_ns, count)
    for due_ns in walked:
        assert due_ns >= rule.start_ns
        assert (due_ns - rule.start_ns) % rule.period_ns == 0
    for earlier, later in pairwise(walked):
        assert later - earlier == rule.period_ns
    if walked:
        assert rule.latest(after_ns, walked[-1], count) == walked
        assert rule.nth_after(after_ns, len(walked)) == walked[-1]
    if len(walked) < count:
        assert rule.nth_after(after_ns, len(walked) + 1) is None


@given(_locals, _near_moments_ns)
def test_e7_an_occurrence_shows_its_time_or_is_a_change_of_the_clock(
    rule: Local, after_ns: int
) -> None:
    """E7, E7a: the clock reads the time, or skipped it at that very second; the day is listed."""
    due_ns = rule.next_after(after_ns)
    assume(due_ns is not None)
    assert due_ns is not None
    table, due_s = zones.table(rule.zone), due_ns // NS_PER_S
    reading_s = due_s + table.offset_s(due_s)
    assert (reading_s // 86_400 + 3) % 7 in rule.days
    before_s = due_s - 1 + table.offset_s(due_s - 1)
    assert reading_s % 86_400 == rule.time_s or before_s < reading_s - 1


def test_nothing_after_the_year_9999() -> None:
    """E12: the calendar ends where four digits end."""
    last_second_ns = parse_instant("9999-12-31T23:59:59Z")
    assert Every(NS_PER_S, 0).next_after(last_second_ns - 1) == last_second_ns
    assert Every(NS_PER_S, 0).next_after(last_second_ns) is None
    noon = Local(12 * 3600, ALL_DAYS, "Europe/Lisbon")
    assert noon.next_after(parse_instant("9999-12-31T11:59:59Z")) is not None
    assert noon.next_after(parse_instant("9999-12-31T12:00:00Z")) is None
    assert Local(0, ALL_DAYS, "Pacific/Honolulu").next_after(last_second_ns) is None
    assert noon.nth_after(0, 10**7) is None
    assert noon.count_between(MIN_NS, MAX_NS) == 3_652_059


def _cost_s(ask: Callable[[], object]) -> float:
    ask()
    best = 1.0
    for _ in range(30):
        started = time.perf_counter()
        for _ in range(20):
            ask()
        best = min(best, (time.perf_counter() - started) / 20)
    return best


@pytest.mark.parametrize("anchor", ["1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z"])
@pytest.mark.parametrize("period_ns", [1, NS_PER_S])
def test_e35_cost_is_independent_of_the_anchor(anchor: str, period_ns: int) -> None:
    """E6, E35: a second-period since 1970 costs what one anchored now costs."""
    now_ns = parse_instant("2026-03-01T00:00:00.500Z")
    old, new = Every(period_ns, parse_instant(anchor)), Every(period_ns, now_ns)
    assert (
        _cost_s(lambda: old.next_after(now_ns)) < 3 * _cost_s(lambda: new.next_after(now_ns)) + 2e-6
    )


def test_e35_decades_of_a_daily_alarm_cost_microseconds() -> None:
    """E35, E40: a clock set from 1970 to 2026 does not walk through 20 000 days."""
    alarm, now_ns = Local(7 * 3600, ALL_DAYS, "America/Nuuk"), parse_instant("2026-03-01T00:00:00Z")
    assert alarm.count_between(0, now_ns) == 20_513
    assert _cost_s(lambda: alarm.count_between(0, now_ns)) < 0.002
    assert _cost_s(lambda: alarm.last_through(0, now_ns)) < 0.0005
    assert _cost_s(lambda: alarm.nth_after(0, 20_000)) < 0.002
    assert _cost_s(lambda: alarm.next_after(0)) < 0.0005
