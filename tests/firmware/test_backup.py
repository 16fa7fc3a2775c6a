"""The checkpoint: twelve bytes that bring a countdown over a soft reset, and what spoils them."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wakeboard.backup import SIZE, restore
from wakeboard.countdown import Countdown

from wakewire.limits import COUNTDOWN_MAX_MS, TOKEN_MAX

TOKEN: Final = 0xDEADBEEF
TICKS_MAX: Final = (1 << 30) - 1
APPROXIMATE: Final = 1


def checkpoint(left_ms: int, ticks_ms: int = 0, token: int = TOKEN) -> bytes:
    countdown = Countdown(ticks_ms)
    countdown.set(token, left_ms, 0)
    record = countdown.checkpoint()
    assert len(record) == SIZE
    return record


def restored(record: bytes, ticks_ms: int = 0) -> Countdown:
    countdown = Countdown(ticks_ms)
    restore(countdown, record)
    return countdown


@given(
    st.integers(1, TOKEN_MAX), st.integers(1, COUNTDOWN_MAX_MS), st.integers(0, TICKS_MAX),
    st.integers(0, COUNTDOWN_MAX_MS),
)  # fmt: skip
def test_what_is_left_comes_back_less_the_time_in_between(
    token: int, left_ms: int, ticks_ms: int, gone_ms: int
) -> None:
    after_ms = ticks_ms + gone_ms
    if after_ms > TICKS_MAX:
        after_ms -= TICKS_MAX + 1  # the ticks wrapped: how long it took is unknown
        gone_ms = 0
    countdown = restored(checkpoint(left_ms, ticks_ms, token), after_ms)
    assert countdown.armed
    assert (countdown.token, countdown.flags) == (token, APPROXIMATE)
    lower = max(0, left_ms - gone_ms - 1024)
    upper = max(0, left_ms - gone_ms + 1024) + 1000
    assert lower <= countdown.left_ms <= upper or gone_ms == 0


def test_ticks_that_began_anew_take_nothing_off() -> None:
    """Late, never lost."""
    assert restored(checkpoint(60_000, ticks_ms=500_000), ticks_ms=3000).left_ms == 60_000


def test_countdown_that_ran_out_meanwhile_fires_at_once() -> None:
    countdown = restored(checkpoint(60_000), ticks_ms=120_000)
    assert countdown.advance(120_000)


def test_expired_countdown_stays_expired() -> None:
    """R42."""
    countdown = restored(checkpoint(0))
    assert (countdown.armed, countdown.token) == (False, TOKEN)
    assert not countdown.advance(10_000)


def test_idle_countdown_stays_idle() -> None:
    assert restored(checkpoint(0, token=0)).token == 0


@pytest.mark.parametrize("record", [b"", bytes(SIZE), b"\xff" * SIZE, bytes(11), bytes(2048)])
def test_memory_that_was_never_written_is_none(record: bytes) -> None:
    assert restored(record).token == 0


@given(st.integers(0, SIZE * 8 - 1))
def test_one_flipped_bit_spoils_it(bit: int) -> None:
    record = bytearray(checkpoint(604_800_000, 123_456))
    record[bit // 8] ^= 1 << bit % 8
    assert restored(bytes(record)).token == 0
