"""What is told of a run: figures over all devices, or a failure with all that replays it."""

import dataclasses
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from .board import BoardConfig
from .history import Config, History
from .kernel import YEAR
from .outcome import Outcome
from .schedule_model import text_of

_DECIDE: Final = ("host", "firmware", "protocol", "tests/simulation")
"""What a run depends on."""


class Totals:
    """Figures over many devices."""

    def __init__(self) -> None:
        self.devices = 0
        self.world_ns = 0
        self.figures: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.late_ms: list[int] = []

    def add(self, outcome: Outcome) -> None:
        self.devices += 1
        self.world_ns += outcome.at_ns
        self.figures.update(outcome.figures)
        self.faults.update(outcome.faults)
        self.late_ms.extend(outcome.late_ms[: max(0, 1_000_000 - len(self.late_ms))])

    @property
    def years(self) -> float:
        return self.world_ns / YEAR

    def lines(self, took_s: float, jobs: int) -> Iterable[str]:
        yield (
            f"{self.years:.2f} device-years on {self.devices} devices"
            f" in {took_s:.0f} s, {jobs} at a time"
        )
        yield f"  {took_s / max(self.years, 1e-9):.2f} s of real time for a device-year"
        yield "checked:"
        yield from (f"  {count:>12,} {name}" for name, count in sorted(self.figures.items()))
        yield "faults injected:"
        yield from (
            f"  {count:>12,} {kind}" for kind, count in sorted(self.faults.items()) if count
        )
        if self.late_ms:
            prompt = sum(1 for late_ms in self.late_ms if late_ms <= 1000) / len(self.late_ms)
            yield (
                f"{prompt:.1%} of the fires that are no misfires left within a second;"
                " the others waited for their bus, the disk or the host"
            )


def commit() -> str:
    """Return which code this is."""
    root = Path(__file__).parents[2]

    def git(*words: str) -> str:
        run = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
        return run.stdout.strip()

    changed = " with changes" if git("status", "--porcelain", "--", *_DECIDE) else ""
    return (git("rev-parse", "--short", "HEAD") or "unknown") + changed


def failure(device: str, outcome: Outcome, again: str) -> Iterable[str]:
    """Return what to say of a device that broke a promise; `again` are the words that replay it."""
    years = outcome.at_ns / YEAR
    yield f"VIOLATION on device {device} at commit {commit()}, after {years:.4f} years"
    yield f"  {outcome.violation}"
    yield f"  again: python -m tests.simulation {again}"


def story(history: History) -> Iterable[str]:
    """Return a history for a person to read."""
    config = history.config
    yield f"  a device that starts {text_of(config.wall_start_ns)} and lives {config.days:.3f} days"
    ordinary = Config(config.seed, config.days, config.wall_start_ns, BoardConfig())
    yield from _differences(config, ordinary)
    yield from _differences(config.board, ordinary.board)
    yield from (f"  {op.line()}" for op in history.ops)


def _differences(device: Config | BoardConfig, ordinary: Config | BoardConfig) -> Iterable[str]:
    """Return what about a device is not as usual."""
    for each in dataclasses.fields(device):
        value = getattr(device, each.name)
        if value != getattr(ordinary, each.name) and not dataclasses.is_dataclass(value):
            yield f"    {each.name}={value}"
