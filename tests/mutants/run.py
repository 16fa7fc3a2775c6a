"""Applies mutants to copies of the tree and has the simulation hunt for them."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .catalogue import Mutant

ROOT: Final = Path(__file__).parents[2]

PARTS: Final = (
    "host/wakebridge",
    "protocol/wakewire",
    "firmware/wakeboard",
    "tests/simulation",
    "tests/fixtures/micropython.py",
    "tests/mutants/hunt.py",
)
"""What the simulation needs of the tree."""

_TURN: Final = ("storm", "storm", "day", "month", "storm", "storm", "day", "month", "years")

DEVICES: Final = tuple(
    f"{profile}-mutants-{turn}.{place}"
    for turn in range(1, 9)
    for place, profile in enumerate(_TURN, 1)
)
"""The same for every mutant: short lives full of trouble first."""

BUDGET_S: Final = 240.0
"""Processor time for one mutant; one that lives longer has survived."""


@dataclass(frozen=True)
class Result:
    """What became of a mutant, or of the tree as it is when `mutant` is None.

    `world_ns` is the time that passed on all `devices` of the series, `device` the last of them.
    `caught_by` is the property, None when no device broke one. `problem` says why the hunt itself
    did not come to its end: such a mutant is not caught either.
    """

    mutant: Mutant | None
    caught_by: str | None
    detail: str
    device: str
    world_ns: int
    devices: int
    cpu_s: float
    took_s: float
    problem: str = ""


class Tree:
    """A copy of the tree in memory, that each hunt is given a copy of."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pristine = folder / "pristine"
        for part in PARTS:
            source, target = ROOT / part, self._pristine / part
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, target)

    def hunt(
        self, mutant: Mutant | None, devices: tuple[str, ...] = DEVICES, budget_s: float = BUDGET_S
    ) -> Result:
        """Run the devices on a copy that has this mutant, until one breaks a promise."""
        with tempfile.TemporaryDirectory(dir=self._folder) as place:
            copy = Path(place) / "tree"
            shutil.copytree(self._pristine, copy)
            if mutant is not None:
                path = copy / mutant.path
                path.write_text(mutant.applied(path.read_text()))
            began_s = time.monotonic()
            process = subprocess.run(
                [
                    sys.executable,
                    str(copy / "tests/mutants/hunt.py"),
                    str(copy),
                    str(budget_s),
                    *devices,
                ],
                cwd=copy,
                env=os.environ | {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                text=True,
            )
            return _result(mutant, process, time.monotonic() - began_s)


@contextmanager
def tree() -> Iterator[Tree]:
    """Copy the tree for as long as it is needed."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Tree(Path(folder))


def _result(
    mutant: Mutant | None, process: subprocess.CompletedProcess[str], took_s: float
) -> Result:
    if process.returncode != 0:
        last = (process.stderr.strip().splitlines() or ["it was ended"])[-1]
        return Result(mutant, None, "", "", 0, 0, 0.0, took_s, f"no verdict: {last}")
    found: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    problem = ""
    if mutant is not None and mutant.path not in found["files"]:
        problem = f"no verdict: {mutant.path} was not in use"
    return Result(
        mutant,
        found["property"] if not problem else None,
        found.get("detail", ""),
        found["devices"][-1],
        found["world_ns"],
        len(found["devices"]),
        found["cpu_s"],
        took_s,
        problem,
    )


def hunt_all(mutants: tuple[Mutant, ...], jobs: int) -> Iterator[Result]:
    """Hunt for every mutant, `jobs` at a time; yields in the order of the catalogue."""
    with tree() as copy, ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(copy.hunt, mutants)


def control(jobs: int, devices: tuple[str, ...] = DEVICES) -> Iterator[Result]:
    """Run the same devices on the tree as it is: none may break a promise."""
    with tree() as copy, ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda device: copy.hunt(None, (device,), 600.0), devices)
