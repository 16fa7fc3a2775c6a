"""When the wake line is pulsed, and for how long; a live host is never reset."""

from typing import Final

import pytest
from wakeboard import config
from wakeboard.wake_line import WakeLine

from wakebridge.board.connection import ATTEMPT_TIMEOUTS_NS
from wakebridge.service.waking import READBACK_S

PULSE_MS: Final = 200
WINDOW_MS: Final = 60_000
CONFIRM_MS: Final = 2000
GREETING_MS: Final = 10_000


class Bench:
    """A wake line whose level changes are kept with their time."""

    def __init__(self, awake_ms: int = WINDOW_MS) -> None:
        self.now_ms = 0
        self.changes: list[tuple[int, int]] = []
        self.line = WakeLine(self._set, PULSE_MS, awake_ms)
        self.run_ms(GREETING_MS)
        self.now_ms = 0
        self.changes.clear()

    def _set(self, level: int) -> None:
        self.changes.append((self.now_ms, level))

    def run_ms(self, duration_ms: int, step_ms: int = 10) -> None:
        for _ in range(duration_ms // step_ms):
            self.now_ms += step_ms
            self.line.count(step_ms)


def test_line_is_released_from_the_start() -> None:
    levels: list[int] = []
    WakeLine(levels.append, PULSE_MS, WINDOW_MS)
    assert levels == [0]


def test_sleeping_host_gets_one_pulse_at_once() -> None:
    bench = Bench()
    bench.line.wake()
    bench.run_ms(60_000)
    assert bench.changes == [(0, 1), (PULSE_MS, 0)]
    assert bench.line.pulses == 1


def test_awake_host_that_answers_gets_none() -> None:
    bench = Bench()
    bench.line.heard()
    bench.run_ms(30_000)
    bench.line.wake()
    bench.run_ms(50)
    bench.line.heard()
    bench.run_ms(60_000)
    assert bench.changes == []


def test_host_that_has_just_gone_to_sleep_is_woken_all_the_same() -> None:
    """It was heard a second ago, and does not confirm the event."""
    bench = Bench()
    bench.line.heard()
    bench.run_ms(1000)
    bench.line.wake()
    bench.run_ms(10_000)
    assert bench.changes == [(1000 + CONFIRM_MS, 1), (1000 + CONFIRM_MS + PULSE_MS, 0)]


def test_host_counts_as_awake_for_the_window() -> None:
    bench = Bench()
    bench.line.heard()
    bench.run_ms(WINDOW_MS)
    bench.line.wake()
    assert bench.changes == [(WINDOW_MS, 1)]


def test_host_may_be_awake_while_a_board_starts() -> None:
    """A countdown that ran out while the board was reset; its host may be what reset it."""
    for answers in (True, False):
        bench = Bench()
        bench.line = WakeLine(bench._set, PULSE_MS, WINDOW_MS)
        bench.changes.clear()
        bench.line.wake()
        bench.run_ms(CONFIRM_MS - 10)
        if answers:
            bench.line.heard()
        bench.run_ms(1000)
        assert bench.line.pulses == (not answers)


def test_time_in_which_nobody_was_listened_to_is_no_silence() -> None:
    """Firmware that a technician stopped for an hour, and whose countdown ended meanwhile."""
    bench = Bench()
    bench.line.heard()
    bench.line.count(3_600_000)
    bench.line.wake()
    bench.run_ms(100)
    bench.line.heard()
    bench.run_ms(10_000)
    assert bench.changes == []


def test_a_live_host_never_falls_silent_for_a_window() -> None:
    """An idle bridge reads the countdown back; one lost read-back and a fast board leave room."""
    window_s = config.parse("{}")[0]["awake_window_s"]
    assert isinstance(window_s, int)
    assert window_s >= 1.05 * READBACK_S + 3 * sum(ATTEMPT_TIMEOUTS_NS) / 1e9


def test_always_pulses_into_an_awake_host() -> None:
    bench = Bench(awake_ms=0)
    bench.line.heard()
    bench.line.wake()
    assert bench.changes == [(0, 1)]


def test_request_amid_a_pulse_does_not_stretch_it() -> None:
    bench = Bench()
    bench.line.wake()
    bench.run_ms(100)
    bench.line.heard()
    bench.run_ms(1000)
    assert bench.changes == [(0, 1), (PULSE_MS, 0)]


@pytest.mark.parametrize("step_ms", [1, 7, 5000])
def test_pulse_is_never_shorter_than_asked(step_ms: int) -> None:
    bench = Bench()
    bench.line.wake()
    bench.run_ms(10_000, step_ms)
    released_ms = bench.changes[1][0]
    assert PULSE_MS <= released_ms < PULSE_MS + step_ms


def test_without_a_line_nothing_is_pulsed() -> None:
    line = WakeLine(None, PULSE_MS, WINDOW_MS)
    line.wake()
    line.count(PULSE_MS)
    assert line.pulses == 0
