"""One change at most, and none when the board already does what is wanted (R44)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebridge.schedule.instants import Now
from wakebridge.wake.board_rate import EXACT, RateEstimate
from wakebridge.wake.planner import Leg, Plan, plan, token_for
from wakebridge.wake.reconciler import (
    Action,
    Arm,
    CountdownState,
    Disarm,
    Foreign,
    Keep,
    TimerReading,
    reconcile,
)
from wakewire.limits import COUNTDOWN_MAX_MS

S = 1_000_000_000
MS = 1_000_000
NOW = Now(wall_ns=1_772_000_000 * S, boot_ns=5_000 * S)
LEASE = 0x51AB
FOREIGN_TOKEN = 0x1234_0001
IDLE = TimerReading(CountdownState.IDLE, 0, 0, 0, False, NOW.boot_ns)


def later(seconds: float) -> Now:
    return Now(NOW.wall_ns + round(seconds * S), NOW.boot_ns + round(seconds * S))


def planned(ahead_s: float, now: Now = NOW, rate: RateEstimate = EXACT) -> Plan:
    """Return the plan at `now` for a target that is `ahead_s` after `NOW`."""
    target_ns = NOW.wall_ns + round(ahead_s * S)
    found = plan(now, target_ns, lease=LEASE, lead_s=0, rate=rate)
    assert found is not None
    return found


def armed(
    token: int, remaining_ms: int, duration_ms: int, now: Now = NOW, approximate: bool = False
) -> TimerReading:
    return TimerReading(
        CountdownState.ARMED, token, remaining_ms, duration_ms, approximate, now.boot_ns
    )


def decide(
    desired: Plan | None, reading: TimerReading, now: Now = NOW, rate: RateEstimate = EXACT
) -> Action:
    return reconcile(desired, reading, now, lease=LEASE, rate=rate)


class ModelBoard:
    """The board's half of the contract: what `timer_set` and `timer_cancel` do to a countdown."""

    def __init__(self, reading: TimerReading) -> None:
        self.reading = reading
        self.changes = 0

    def carry_out(self, action: Action, now: Now) -> None:
        match action:
            case Arm(token, duration_ms):
                assert 1 <= duration_ms <= COUNTDOWN_MAX_MS
                self.changes += 1
                same = (self.reading.token, self.reading.duration_ms) == (token, duration_ms)
                if not (same and self.reading.state is CountdownState.ARMED):
                    self.reading = armed(token, duration_ms, duration_ms, now)
            case Disarm(token):
                assert token == self.reading.token
                self.changes += 1
                self.reading = TimerReading(CountdownState.IDLE, 0, 0, 0, False, now.boot_ns)


def test_an_idle_board_is_armed_and_then_kept() -> None:
    desired = planned(600)
    assert decide(desired, IDLE) == Arm(desired.token, 600_000)
    assert decide(desired, armed(desired.token, 600_000, 600_000)) == Keep()


def test_polling_and_restarts_never_restart_a_matching_countdown() -> None:
    """R44."""
    token = planned(600).token
    for second in range(1, 600, 7):
        now = later(second)
        reading = armed(token, 600_000 - second * 1000, 600_000, now)
        assert decide(planned(600, now), reading, now) == Keep()


def test_a_reading_that_is_not_fresh_is_counted_on_by_the_boot_clock() -> None:
    reading = armed(planned(600).token, 600_000, 600_000)
    now = later(300)
    assert decide(planned(600, now), reading, now) == Keep()


@pytest.mark.parametrize(
    ("off_ms", "arms"), [(0, 0), (1_900, 0), (-1_900, 0), (2_100, 1), (-10_000, 1), (90_000, 1)]
)
def test_remaining_that_agrees_within_two_seconds_is_kept(off_ms: int, arms: int) -> None:
    """A11: `0 if remaining agrees within 2 s, else 1`."""
    desired = planned(100)
    action = decide(desired, armed(desired.token, 100_000 + off_ms, 120_000))
    assert action == (Arm(desired.token, 100_000) if arms else Keep())


def test_a_countdown_lost_with_the_power_is_armed_for_what_remains() -> None:
    """A10 r2, R49."""
    now = later(200)
    assert decide(planned(600, now), IDLE, now) == Arm(planned(600).token, 400_000)


@pytest.mark.parametrize("token", [FOREIGN_TOKEN, 0x0000_0007])
@pytest.mark.parametrize("ahead_s", [None, 600])
def test_a_countdown_of_another_hand_is_reported_and_never_touched(
    token: int, ahead_s: int | None
) -> None:
    """R9, R46: also when it was set by hand, which has lease 0."""
    desired = None if ahead_s is None else planned(ahead_s)
    assert decide(desired, armed(token, 5_000, 9_000)) == Foreign(token, 5_000)


def test_an_expired_countdown_of_another_hand_is_no_obstacle() -> None:
    reading = TimerReading(CountdownState.EXPIRED, FOREIGN_TOKEN, 0, 9_000, False, NOW.boot_ns)
    assert decide(planned(600), reading) == Arm(planned(600).token, 600_000)


def test_what_is_no_longer_wanted_is_disarmed_once() -> None:
    """R45."""
    token = token_for(LEASE, NOW.wall_ns)
    assert decide(None, armed(token, 5_000, 9_000)) == Disarm(token)
    assert decide(None, IDLE) == Keep()
    expired = TimerReading(CountdownState.EXPIRED, token, 0, 9_000, False, NOW.boot_ns)
    assert decide(None, expired) == Keep()


def test_another_target_is_armed_although_it_ends_at_nearly_the_same_time() -> None:
    desired = planned(600)
    reading = armed(planned(601).token, 600_900, 601_000)
    assert decide(desired, reading) == Arm(desired.token, 600_000)


def test_an_approximate_countdown_is_set_to_the_exact_value() -> None:
    desired = planned(600)
    reading = armed(desired.token, 599_500, 700_000, approximate=True)
    assert decide(desired, reading) == Arm(desired.token, 600_000)


def test_a_countdown_that_must_restart_is_told_from_the_one_that_runs() -> None:
    """The board ignores a `timer_set` that repeats token and duration."""
    desired = planned(30 * 86_400)
    reading = armed(desired.token, COUNTDOWN_MAX_MS - 9_000, COUNTDOWN_MAX_MS, approximate=True)
    action = decide(desired, reading)
    assert action == Arm(desired.token, COUNTDOWN_MAX_MS - 1)
    board = ModelBoard(reading)
    board.carry_out(action, NOW)
    assert decide(desired, board.reading) == Keep()


def test_a_full_leg_on_the_way_is_left_alone_while_the_host_stays_awake() -> None:
    """R44, A09 r5: the second countdown of twenty days runs to its end although, from the 13th day
    on, the target could be reached directly."""
    day_s = 86_400
    token = planned(20 * day_s).token
    for day in range(8, 14):
        now = later(day * day_s)
        reading = armed(token, (14 - day) * day_s * 1000, COUNTDOWN_MAX_MS, now)
        assert decide(planned(20 * day_s, now), reading, now) == Keep()
    now = later(14 * day_s)
    expired = TimerReading(CountdownState.EXPIRED, token, 0, COUNTDOWN_MAX_MS, False, now.boot_ns)
    assert decide(planned(20 * day_s, now), expired, now) == Arm(token, 518_400_000)


def test_a_step_of_the_wall_clock_moves_the_countdown() -> None:
    """E70: the countdown serves the wall clock."""
    stepped = Now(NOW.wall_ns + 100 * S, NOW.boot_ns)
    token = planned(600).token
    assert decide(planned(600, stepped), armed(token, 600_000, 600_000), stepped) == Arm(
        token, 500_000
    )


def test_a_week_is_armed_anew_few_times_as_the_clock_becomes_known() -> None:
    """Issue 5: the margin shrinks with confidence, and R44: not at every poll."""
    week_s = 7 * 86_400
    board = ModelBoard(IDLE)
    for second in range(0, week_s - 60, 600):
        now = later(second)
        rate = RateEstimate(0, 5 + 3_000_000 / (60 + 1000 * second), confirmed=second > 0)
        if board.reading.state is CountdownState.ARMED:
            passed_ms = (now.boot_ns - board.reading.boot_ns) // MS
            board.reading = armed(
                board.reading.token,
                board.reading.remaining_ms - passed_ms,
                board.reading.duration_ms,
                now,
            )
            assert board.reading.remaining_ms > 0
        board.carry_out(decide(planned(week_s, now, rate), board.reading, now, rate), now)
    assert 1 < board.changes <= 4
    assert planned(week_s, now, rate).leg is Leg.FINAL


readings = st.builds(
    TimerReading,
    state=st.sampled_from(CountdownState),
    token=st.one_of(
        st.integers(0, 2**32 - 1),
        st.integers(0, 0xFFFF).map(lambda tag: LEASE << 16 | tag),
        st.sampled_from([planned(ahead_s).token for ahead_s in (1, 600, 86_400, 2_000_000)]),
    ),
    remaining_ms=st.integers(0, 2**64),
    duration_ms=st.one_of(st.integers(0, 2**64), st.sampled_from([600_000, COUNTDOWN_MAX_MS])),
    approximate=st.booleans(),
    boot_ns=st.integers(0, NOW.boot_ns),
)
rates = st.builds(
    RateEstimate,
    ppm=st.floats(-50_000, 50_000),
    bound_ppm=st.floats(0, 50_000),
    confirmed=st.booleans(),
)
aheads = st.one_of(
    st.none(), st.sampled_from([1.0, 600.0, 86_400.0, 2_000_000.0]), st.floats(-(10**7), 10**7)
)


@given(ahead_s=aheads, reading=readings, rate=rates)
def test_one_change_is_enough(
    ahead_s: float | None, reading: TimerReading, rate: RateEstimate
) -> None:
    """R44: reconciling is idempotent after its own change, whatever the board said before; no
    countdown is longer than 604 800 s, and a foreign one stays as it was."""
    desired = None if ahead_s is None else planned(ahead_s, rate=rate)
    board = ModelBoard(reading)
    first = decide(desired, reading, rate=rate)
    board.carry_out(first, NOW)
    second = decide(desired, board.reading, rate=rate)
    assert second == (first if isinstance(first, Foreign) else Keep())
    if isinstance(first, Foreign):
        assert board.reading == reading


@given(ahead_s=st.floats(1, 10**7), rate=rates, answers_lost=st.integers(1, 5))
def test_a_lost_answer_never_restarts_the_countdown(
    ahead_s: float, rate: RateEstimate, answers_lost: int
) -> None:
    """R44: the board has taken the SET; its answer was lost, so the host starts over, later."""
    board = ModelBoard(IDLE)
    board.carry_out(decide(planned(ahead_s, rate=rate), IDLE, rate=rate), NOW)
    for attempt in range(1, answers_lost + 1):
        now = later(attempt / 10)
        desired = planned(ahead_s, now, rate)
        assert decide(desired, board.reading, now, rate) == Keep()
    assert board.changes == 1
