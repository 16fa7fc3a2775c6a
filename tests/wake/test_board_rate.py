"""Learning the rate of the board's clock from ordinary answers (issue 5)."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebridge.wake.board_rate import SAMPLES_MAX, BoardRate, RateEstimate, claimed
from wakewire.codes import CLOCK_CRYSTAL, CLOCK_RC, CLOCK_RTC, CLOCK_UNKNOWN

S = 1_000_000_000
MS = 1_000_000
BOOT = b"bootboot"


class Board:
    """A board whose clock is `ppm` fast, behind a link with a random round trip."""

    def __init__(self, ppm: float, seed: int, trip_max_ms: float = 6.0) -> None:
        self.ppm = ppm
        self.started_ns = 100 * S
        self._random = random.Random(seed)
        self._trip_max_ms = trip_max_ms

    def answer(self, sent_ns: int) -> tuple[int, int, int]:
        there_ns, back_ns = (
            round(self._random.uniform(0.1, self._trip_max_ms / 2) * MS) for _ in range(2)
        )
        at_ns = sent_ns + there_ns - self.started_ns
        uptime_ms = int(at_ns * (1 + self.ppm / 1e6)) // MS
        return sent_ns, sent_ns + there_ns + back_ns, uptime_ms


def learn(board: Board, seconds: list[float], quality: int = CLOCK_UNKNOWN) -> BoardRate:
    rate = BoardRate()
    rate.start(BOOT, quality)
    for second in seconds:
        rate.observe(BOOT, *board.answer(board.started_ns + round((second + 1) * S)))
    return rate


def holds(estimate: RateEstimate, ppm: float) -> bool:
    return abs(estimate.ppm - ppm) <= estimate.bound_ppm


def test_before_any_measurement_the_claim_is_all_there_is() -> None:
    assert BoardRate().estimate() == claimed(CLOCK_UNKNOWN)
    assert claimed(CLOCK_CRYSTAL).bound_ppm < claimed(CLOCK_RTC).bound_ppm
    assert claimed(CLOCK_RTC).bound_ppm < claimed(CLOCK_RC).bound_ppm
    assert claimed(99) == claimed(CLOCK_UNKNOWN)


@pytest.mark.parametrize("ppm", [20_000.0, -20_000.0, 137.0, 0.0])
@pytest.mark.parametrize("quality", [CLOCK_UNKNOWN, CLOCK_CRYSTAL, CLOCK_RC])
def test_the_bound_holds_and_shrinks_with_the_span(ppm: float, quality: int) -> None:
    board = Board(ppm, seed=1)
    bounds = []
    for span_s in (1, 10, 100, 1000, 10_000):
        estimate = learn(board, [span_s * step / 8 for step in range(9)], quality).estimate()
        if estimate.confirmed:
            assert holds(estimate, ppm)
        bounds.append(estimate.bound_ppm)
    assert bounds[-1] <= bounds[0]
    assert estimate.confirmed
    wander_ppm = {CLOCK_UNKNOWN: 500, CLOCK_CRYSTAL: 5, CLOCK_RC: 2000}[quality]
    assert bounds[-1] == pytest.approx(wander_ppm, abs=1)


def test_a_board_that_claims_a_crystal_and_has_none_is_found_out_in_seconds() -> None:
    estimate = learn(Board(20_000, seed=2), [0, 0.3, 1, 3], CLOCK_CRYSTAL).estimate()
    assert estimate.confirmed
    assert holds(estimate, 20_000)


def test_slow_answers_widen_nothing_once_there_are_quick_ones() -> None:
    """A round trip of seconds, a retried request for instance, says little and spoils nothing."""
    board = Board(50, seed=3)
    rate = learn(board, list(range(0, 1000, 50)), CLOCK_CRYSTAL)
    before = rate.estimate()
    sent_ns, received_ns, uptime_ms = board.answer(board.started_ns + 1002 * S)
    rate.observe(BOOT, sent_ns, received_ns + 3 * S, uptime_ms)
    after = rate.estimate()
    assert holds(after, 50)
    assert after.bound_ppm <= before.bound_ppm * 1.5


def test_a_minority_of_lies_is_outvoted() -> None:
    board = Board(20_000, seed=4)
    rate = BoardRate()
    rate.start(BOOT, CLOCK_RC)
    lies = random.Random(4)
    for step in range(200):
        sent_ns, received_ns, uptime_ms = board.answer(board.started_ns + (step + 1) * 10 * S)
        if step % 10 == 5:
            uptime_ms += lies.randrange(2_000, 9_000)
        rate.observe(BOOT, sent_ns, received_ns, uptime_ms)
    assert holds(rate.estimate(), 20_000)


def test_a_suspend_in_the_middle_changes_nothing() -> None:
    """The boot clock counts suspend; eight hours without a sample only lengthen the span."""
    estimate = learn(Board(-300, seed=5), [0, 5, 10, 28_810, 28_815], CLOCK_CRYSTAL).estimate()
    assert holds(estimate, -300)
    assert estimate.bound_ppm < 6


def test_another_boot_starts_anew() -> None:
    rate = learn(Board(20_000, seed=6), [0, 100, 200], CLOCK_CRYSTAL)
    assert rate.estimate().confirmed
    rate.observe(b"another!", 400 * S, 400 * S + MS, 17)
    assert rate.estimate() == claimed(CLOCK_CRYSTAL)


def test_hello_of_the_same_boot_forgets_nothing() -> None:
    rate = learn(Board(20_000, seed=7), [0, 100, 200], CLOCK_CRYSTAL)
    before = rate.estimate()
    rate.start(BOOT, CLOCK_CRYSTAL)
    assert rate.estimate() == before


def test_an_uptime_that_runs_backwards_restarts_the_measurement() -> None:
    rate = learn(Board(20_000, seed=8), [0, 100, 200], CLOCK_CRYSTAL)
    rate.observe(BOOT, 400 * S, 400 * S + MS, 0)
    assert rate.estimate() == claimed(CLOCK_CRYSTAL)


def test_bursts_do_not_push_out_the_long_span() -> None:
    """Many answers within a second, as after a reconnect, leave the old samples alone."""
    board = Board(30, seed=9)
    rate = learn(board, [0, *(86_400 + step / 100 for step in range(500))], CLOCK_CRYSTAL)
    assert rate.estimate().bound_ppm < 6


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**18), st.integers(-(10**12), 10**12), st.integers(0, 2**64 - 1)
        ),
        max_size=3 * SAMPLES_MAX,
    )
)
def test_a_possessed_clock_cannot_crash_it_nor_grow_it(
    answers: list[tuple[int, int, int]],
) -> None:
    rate = BoardRate(CLOCK_CRYSTAL)
    for sent_ns, trip_ns, uptime_ms in answers:
        rate.observe(BOOT, sent_ns, sent_ns + trip_ns, uptime_ms)
    estimate = rate.estimate()
    assert abs(estimate.ppm) <= 200_000
    assert estimate.bound_ppm >= 0
    assert rate.sample_count <= SAMPLES_MAX
