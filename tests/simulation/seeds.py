"""What is run at every test: devices of each profile, and histories that once found a fault.

A history stays what it is; what is drawn for a device changes with every operation that is added.
"""

from pathlib import Path
from typing import Final

from . import report
from .history import History, draw, profile_of
from .outcome import Outcome
from .world import run

FOUND: Final = tuple(sorted((Path(__file__).parent / "histories").glob("*.json")))
"""Histories that once broke a promise, each named after what was wrong."""

STORMS: Final = tuple(f"storm-kept-{number}" for number in range(1, 13))
DAYS: Final = tuple(f"day-kept-{number}" for number in range(1, 7))
MONTHS: Final = tuple(f"month-kept-{number}" for number in range(1, 9))
YEARS: Final = tuple(f"years-kept-{number}" for number in range(1, 5))


def live(device: str) -> Outcome:
    """Run a device whose promises must all hold; what to do about one that does not is said."""
    return _held(draw(device, profile_of(device)), device, f"--device {device}")


def live_again(path: Path) -> Outcome:
    """Run a history from a file, in the same way."""
    return _held(History.from_json(path.read_text("utf-8")), path.stem, f"--history {path}")


def _held(history: History, name: str, again: str) -> Outcome:
    outcome = run(history)
    assert outcome.violation is None, "\n".join(report.failure(name, outcome, again))
    return outcome
