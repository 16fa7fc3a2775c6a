"""A day of the whole system in virtual time, under faults that never stop."""

import asyncio
import time
from pathlib import Path
from typing import Final

from bench.report import OURS, Row, Table, Target, Value, figure, median_of
from bench.sizes import Size
from simulation.history import PROFILES, draw
from simulation.world import run

_REAL_S: Final = 60.0
"""A day of the simulation takes no longer than this."""


def _live(device: str) -> tuple[dict[str, Value], str | None]:
    """Let one device live; return its figures, and the promise it broke."""
    began_s = time.perf_counter()
    outcome = run(draw(device, PROFILES["day"]))
    took_s = time.perf_counter() - began_s
    figures: dict[str, Value] = {
        "real s": took_s,
        "faults": sum(outcome.faults.values()),
        "fires": outcome.figures["fires"],
        "runs": outcome.figures["runs"],
        "commits": outcome.figures["commits"],
    }
    broken = None if outcome.violation is None else f"{device}: {outcome.violation}"
    return figures, broken


async def virtual_day(directory: Path, size: Size) -> Table:
    """Measure how long a day takes in which something breaks every few minutes."""
    del directory  # the simulation makes its own
    # In a thread of its own: the simulated hosts have event loops, and one thread runs one loop.
    lives = [await asyncio.to_thread(_live, f"day-bench-{n}") for n in range(size.days)]
    row = Row(f"{OURS}, simulated", median_of([figures for figures, _ in lives]))
    return Table(
        "24 h of virtual time under continuous faults",
        [row],
        targets=[Target("real time of a day", figure(row, "real s"), _REAL_S, "s")],
        faults=[broken for _, broken in lives if broken is not None],
        notes=[f"median of {size.days} devices; what is simulated is in explanation/simulation.md"],
    )
