"""Weeks of a device: suspended most of the time, woken by its board, in trouble every few hours."""

import pytest

from .seeds import MONTHS, live


@pytest.mark.parametrize("device", MONTHS)
def test_every_promise_is_kept_through_a_month(device: str) -> None:
    figures = live(device).figures
    assert figures["occurrences checked"] > 0
    assert figures["sleeps held to their wake"] > 0
