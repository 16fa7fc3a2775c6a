"""Runs many devices, in one process or in several. What comes of it is the same."""

import itertools
import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from .history import days_of, draw, profile_of
from .kernel import DAY, YEAR
from .outcome import Outcome
from .world import run

_ROUND: Final = ("years", "storm", "years", "day", "years", "month")
"""Devices that live for years, and some whose trouble is denser, again and again."""


def devices(seed: int, years: float, profile: str | None = None) -> list[str]:
    """Return the names of devices that live so many years together."""
    names: list[str] = []
    left_days = years * YEAR / DAY
    for number in itertools.count(1):
        kind = profile or _ROUND[(number - 1) % len(_ROUND)]
        names.append(f"{kind}-{seed}-{number}")
        left_days -= days_of(names[-1], profile_of(names[-1]))
        if left_days <= 0:
            break
    return names


def run_device(name: str) -> Outcome:
    """Run the device of that name."""
    return run(draw(name, profile_of(name)))


@contextmanager
def outcomes(names: Sequence[str], jobs: int) -> Iterator[Iterator[Outcome]]:
    """Run devices in so many processes; gives their outcomes in the order of the names."""
    if jobs <= 1:
        yield map(run_device, names)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield pool.imap(run_device, names)
