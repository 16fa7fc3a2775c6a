"""The clock and the countdown with ticks that wrap after 2^30 ms, case A09."""

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wakeboard.countdown import Countdown

from board_harness import TICKS_PERIOD_MS, TurnedBoard
from micropython_runner import TESTS
from wakewire import codes, messages
from wakewire.limits import COUNTDOWN_MAX_MS

CASES: Final = json.loads((TESTS / "data/firmware-cases.json").read_text())
A09: Final[dict[str, Any]] = next(case for case in CASES if case["id"] == "A09")
TOKEN: Final = 0x1234ABCD


def row(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    given_row = next(entry for entry in A09["input"] if entry["row"] == name)
    return given_row, next(entry for entry in A09["expected"] if entry["row"] == name)


@pytest.mark.parametrize("name", ["r1", "r2", "r3"])
@pytest.mark.parametrize("step_ms", [5000, 997, 86_400_000])
def test_a09_expires_when_it_is_over_and_not_before(name: str, step_ms: int) -> None:
    """A09 r1, r2, r3: whether seen often, oddly or once a day."""
    given_row, expected = row(name)
    board = TurnedBoard(given_row.get("ticks_start", 0))
    board.timer(messages.timer_set(1, TOKEN, given_row["arm_s"] * 1000))
    seen = []
    for probe_s in given_row["probe_s"]:
        board.turn_to(round(probe_s * 1000), step_ms)
        state = board.timer(messages.timer_get(2)).state
        seen.append(state == codes.STATE_EXPIRED)
    assert seen == expected["expired"]
    assert board.expiries == 1


def test_a09_out_of_range_leaves_the_running_countdown_alone() -> None:
    """A09 r4."""
    board = TurnedBoard()
    board.timer(messages.timer_set(1, TOKEN, 60_000))
    board.turn_to(1000)
    before = board.timer(messages.timer_get(2))
    for arm_s in row("r4")[0]["arm_s"]:
        request = messages.Request(3, codes.OP_TIMER_SET, [7, arm_s * 1000]).encode()
        assert board.ask(request).status == codes.STATUS_OUT_OF_RANGE
    assert board.timer(messages.timer_get(4)) == before


def test_a09_twenty_days_are_three_countdowns() -> None:
    """A09 r5: the legs as the planner cuts them, each counted to its end."""
    legs_s = row("r5")[1]["countdowns_s"]
    board = TurnedBoard(ticks_start_ms=12345)
    for leg_s in legs_s:
        end_ms = board.now_ms + leg_s * 1000
        board.timer(messages.timer_set(1, TOKEN + leg_s, leg_s * 1000))
        board.turn_to(end_ms - 1)
        before = board.expiries
        board.turn_to(end_ms)
        assert board.expiries == before + 1
    assert board.now_ms == 1_728_000_000


@pytest.mark.parametrize("duration_ms", [1, 536_870_911, 536_870_912, COUNTDOWN_MAX_MS])
def test_remaining_is_exact_to_the_millisecond(duration_ms: int) -> None:
    board = TurnedBoard(ticks_start_ms=TICKS_PERIOD_MS - 1)
    board.timer(messages.timer_set(1, TOKEN, duration_ms))
    board.turn_to(duration_ms // 2, 4999)
    assert board.timer(messages.timer_get(2)).remaining_ms == duration_ms - duration_ms // 2
    board.turn_to(duration_ms - 1, 4999)
    assert board.expiries == 0
    board.turn_to(duration_ms)
    assert board.expiries == 1


@given(
    start=st.integers(0, TICKS_PERIOD_MS - 1),
    duration_ms=st.integers(1, COUNTDOWN_MAX_MS),
    steps=st.lists(st.integers(0, (1 << 29) - 1), max_size=20),
)
def test_any_sequence_of_steps_counts_true(start: int, duration_ms: int, steps: list[int]) -> None:
    countdown = Countdown(start)
    countdown.set(TOKEN, duration_ms, 0)
    now_ms = 0
    for step_ms in steps:
        was_over = now_ms >= duration_ms
        now_ms += step_ms
        expired = countdown.advance((start + now_ms) % TICKS_PERIOD_MS)
        assert countdown.s * 1000 + countdown.ms == now_ms
        assert expired == (not was_over and now_ms >= duration_ms)
        assert countdown.left_ms == max(0, duration_ms - now_ms)


def test_ticks_that_run_backwards_move_nothing() -> None:
    countdown = Countdown(1000)
    countdown.set(TOKEN, 60_000, 0)
    countdown.advance(900)
    assert (countdown.s, countdown.ms, countdown.left_ms) == (0, 0, 60_000)
    countdown.advance(1900)
    assert (countdown.s, countdown.left_ms) == (1, 59_000)


def test_ticks_of_a_64_bit_build_count_the_same() -> None:
    """Their period is 2^62 ms."""
    countdown = Countdown(TICKS_PERIOD_MS - 5)
    countdown.advance(TICKS_PERIOD_MS + 5)
    assert countdown.step_ms == 10
