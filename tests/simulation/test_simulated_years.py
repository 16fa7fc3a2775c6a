"""Years of a device, with legs of seven days, summer times and new releases of the zone rules."""

import pytest

from .seeds import YEARS, live


@pytest.mark.parametrize("device", YEARS)
def test_every_promise_is_kept_through_years(device: str) -> None:
    outcome = live(device)
    assert outcome.figures["countdown checks"] > 0
    assert outcome.figures["sleeps held to their wake"] > 0
