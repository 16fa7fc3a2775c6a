"""Legs, targets and tokens of the countdown (R5, R44, case A09 r5)."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebridge.schedule.instants import Now
from wakebridge.wake.board_rate import EXACT, RateEstimate
from wakebridge.wake.planner import LEG_MIN_NS, Leg, Plan, lease_of, plan, token_for, wake_target
from wakewire.limits import COUNTDOWN_MAX_MS, TOKEN_MAX

S = 1_000_000_000
DAY_S = 86_400
START = 1_772_000_000 * S
LEASE = 0x51AB

CASES = json.loads((Path(__file__).parents[1] / "data" / "wake-cases.json").read_text())


def case(name: str) -> dict[str, Any]:
    found = CASES[name]
    assert isinstance(found, dict)
    return found


def plan_at(wall_ns: int, due_ns: int, rate: RateEstimate = EXACT, lead_s: float = 0) -> Plan:
    planned = plan(Now(wall_ns, wall_ns), due_ns, lease=LEASE, lead_s=lead_s, rate=rate)
    assert planned is not None
    return planned


def legs_s(ahead_s: int) -> list[float]:
    """Return the countdowns of a host that is woken by each and plans the next."""
    due_ns = START + ahead_s * S
    wall_ns = START
    countdowns = []
    while wall_ns < due_ns:
        planned = plan_at(wall_ns, due_ns)
        countdowns.append(planned.duration_ms / 1000)
        wall_ns = planned.leg_end_ns
    assert wall_ns == due_ns
    return countdowns


def test_twenty_days_take_the_three_countdowns_of_case_a09_r5() -> None:
    """R5, A09 r5."""
    row = next(row for row in case("A09")["input"] if row["row"] == "r5")
    expected = next(row for row in case("A09")["expected"] if row["row"] == "r5")
    assert legs_s(row["seconds_ahead"]) == expected["countdowns_s"]


@pytest.mark.parametrize(
    ("ahead_s", "countdowns_s"),
    [
        (600, [600]),
        (7 * DAY_S, [604_800]),
        (7 * DAY_S + 1, [604_800, 1]),
        (30 * DAY_S, [604_800, 604_800, 604_800, 604_800, 172_800]),
    ],
)
def test_legs_of_other_lengths(ahead_s: int, countdowns_s: list[float]) -> None:
    """R5."""
    assert legs_s(ahead_s) == countdowns_s


def test_nothing_due_needs_no_countdown() -> None:
    assert plan(Now(START, 0), None, lease=LEASE, lead_s=0, rate=EXACT) is None


@pytest.mark.parametrize("overdue_s", [0, 1, 40 * DAY_S])
def test_an_overdue_target_arms_the_shortest_leg_and_never_the_past(overdue_s: int) -> None:
    """A10: `armed_target_in_past: never`."""
    planned = plan_at(START, START - overdue_s * S)
    assert planned.duration_ms == LEG_MIN_NS // 1_000_000
    assert planned.leg_end_ns == START + LEG_MIN_NS
    assert planned.final


def test_the_lead_is_the_first_target_and_the_due_instant_the_second() -> None:
    due_ns = START + 600 * S
    assert plan_at(START, due_ns, lead_s=20).leg_end_ns == due_ns - 20 * S
    assert plan_at(due_ns - 20 * S, due_ns, lead_s=20).leg_end_ns == due_ns
    assert wake_target(due_ns - 20 * S - 1, due_ns, 20) == due_ns - 20 * S
    assert wake_target(due_ns - 20 * S, due_ns, 20) == due_ns


def test_a_token_names_lease_and_target_and_survives_a_restart() -> None:
    """R44: a restarted bridge must know its own countdown again."""
    token = token_for(LEASE, START)
    assert lease_of(token) == LEASE
    assert token == token_for(LEASE, START + 999_999)
    assert token != token_for(LEASE, START + 1_000_000)
    assert 0 < token <= TOKEN_MAX


def test_an_uncertain_clock_ends_the_leg_early_and_the_last_one_late_never_early() -> None:
    rate = RateEstimate(ppm=0, bound_ppm=1000, confirmed=True)
    early = plan_at(START, START + 10_000 * S, rate)
    assert early.leg is Leg.EARLY
    assert early.duration_ms == 9_990_000
    final = plan_at(START, START + 100 * S, rate)
    assert final.leg is Leg.FINAL
    assert final.duration_ms == 100_100


def test_an_unconfirmed_claim_is_believed_for_short_legs_only() -> None:
    """A10: 240 s are armed as 240 s right after a start; a week allows for the worst clock."""
    rate = RateEstimate(ppm=0, bound_ppm=100, confirmed=False)
    assert plan_at(START, START + 240 * S, rate).duration_ms == pytest.approx(240_000, abs=100)
    week = plan_at(START, START + 7 * DAY_S * S, rate)
    assert week.leg is Leg.EARLY
    assert week.duration_ms == 7 * DAY_S * 950


@given(
    wall_ns=st.integers(0, 2**63),
    ahead_ns=st.integers(-(10**18), 10**18),
    lead_s=st.floats(0, 3600),
    ppm=st.floats(-50_000, 50_000),
    bound_ppm=st.floats(0, 50_000),
    confirmed=st.booleans(),
)
def test_every_plan_is_within_the_limits_and_never_late(
    wall_ns: int, ahead_ns: int, lead_s: float, ppm: float, bound_ppm: float, confirmed: bool
) -> None:
    """R5: at most 604 800 s, at least the shortest leg; no leg is expected to end in the past or
    more than a second after its target."""
    rate = RateEstimate(ppm, bound_ppm, confirmed)
    planned = plan_at(wall_ns, wall_ns + ahead_ns, rate, lead_s)
    assert 1 <= planned.duration_ms <= COUNTDOWN_MAX_MS
    assert planned.leg_end_ns > wall_ns
    latest_ns = wall_ns + rate.host_ns(planned.duration_ms * 1_000_000, -bound_ppm)
    reference_ns = max(planned.target_ns, wall_ns + LEG_MIN_NS)
    assert latest_ns <= reference_ns + S
    if planned.leg is Leg.FINAL:
        earliest_ns = wall_ns + rate.host_ns(planned.duration_ms * 1_000_000, bound_ppm)
        assert earliest_ns >= planned.target_ns - 1_000
