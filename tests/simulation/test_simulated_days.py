"""A day of a device under continuous faults."""

import time

import pytest

from .kernel import DAY
from .seeds import DAYS, live


@pytest.mark.parametrize("device", DAYS)
def test_every_promise_is_kept_through_a_day_of_trouble(device: str) -> None:
    began = time.process_time()
    outcome = live(device)
    print(f"{outcome.at_ns / DAY:.2f} days in {time.process_time() - began:.1f} s")
    assert outcome.figures["occurrences checked"] > 0
    assert sum(outcome.faults.values()) > 100
