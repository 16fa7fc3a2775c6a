"""Hours of a device with all kinds of trouble at once."""

from pathlib import Path

import pytest

from .seeds import FOUND, STORMS, live, live_again


@pytest.mark.parametrize("device", STORMS)
def test_every_promise_is_kept_in_a_storm(device: str) -> None:
    assert live(device).figures["occurrences checked"] > 0


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_was_found_once_is_mended(path: Path) -> None:
    assert live_again(path).figures["answers checked"] > 0
