"""Hours of a device with all kinds of trouble at once."""

import pytest

from .seeds import FOUND, STORMS, live


@pytest.mark.parametrize("device", [*STORMS, *FOUND])
def test_every_promise_is_kept_in_a_storm(device: str) -> None:
    assert live(device).figures["occurrences checked"] > 0
