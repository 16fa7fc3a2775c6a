"""Devices that are run at every test: some of each profile, and those that once found a fault."""

from typing import Final

from . import report
from .fleet import run_device
from .outcome import Outcome

FOUND: Final = {
    "storm-101-16": "a countdown of another program, set while the host slept over its reading",
    "storm-102-62": "a short outage of a bus within a long one, which ended both",
    "storm-103-22": "a countdown of another program, set while the host slept over its request",
    "storm-a-11": "a step of the clock just after it was vouched for, with a full disk",
}
"""Devices that once broke a promise, and by what."""

STORMS: Final = tuple(f"storm-kept-{number}" for number in range(1, 13))
DAYS: Final = tuple(f"day-kept-{number}" for number in range(1, 7))
MONTHS: Final = tuple(f"month-kept-{number}" for number in range(1, 9))
YEARS: Final = tuple(f"years-kept-{number}" for number in range(1, 5))


def live(device: str) -> Outcome:
    """Run a device whose promises must all hold; what to do about one that does not is said."""
    outcome = run_device(device)
    said = report.failure(device, outcome, f"--device {device}")
    assert outcome.violation is None, "\n".join(said)
    return outcome
