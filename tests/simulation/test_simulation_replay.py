"""One seed is one run: in any process, from a file, and in as many processes as one likes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wakebridge.store import schedules_sqlite

from . import cli
from .fleet import devices, outcomes
from .history import PROFILES, History, Op, draw
from .properties import DISK
from .world import run

ROOT = Path(__file__).parents[2]
SHORT = "storm-replay-1"


def test_two_processes_with_other_hashes_run_the_same_device_in_the_same_way() -> None:
    said = [
        subprocess.run(
            [sys.executable, "-m", "tests.simulation", "--device", SHORT],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0].startswith("trace ")
    assert said[0] == said[1]


def test_a_history_that_was_written_to_a_file_is_the_same_run() -> None:
    history = draw(SHORT, PROFILES["storm"])
    again = History.from_json(history.to_json())
    assert again == history
    assert run(again).trace_hash == run(history).trace_hash


def test_another_seed_is_another_run() -> None:
    assert draw("storm-replay-2", PROFILES["storm"]) != draw(SHORT, PROFILES["storm"])


def test_the_number_of_processes_changes_nothing() -> None:
    names = devices(9, 0.001, "storm")
    ends: list[list[tuple[str, str]]] = []
    for jobs in (1, 2):
        with outcomes(names, jobs) as coming:
            ends.append([(each.history.config.seed, each.trace_hash) for each in coming])
    assert [seed for seed, _ in ends[0]] == names
    assert ends[0] == ends[1]


def test_a_failure_says_all_that_replays_it_and_is_shrunk_to_a_few_lines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A store that writes nothing is found out at the first start after a crash."""
    monkeypatch.setattr(schedules_sqlite, "_commit", lambda *_: None)
    monkeypatch.chdir(tmp_path)

    assert _command(monkeypatch, "--seed", "3", "--years", "0.01", "--profile", "storm") == 1
    said = capsys.readouterr().out
    assert said.startswith("seed 3, commit ")
    assert DISK in said
    lines = said.splitlines()
    direct, shortest = [line.split("tests.simulation ")[1] for line in lines if " again: " in line]
    assert direct.startswith("--device storm-3-")

    history = History.from_json(Path(shortest.removeprefix("--history ")).read_text())
    assert len(history.ops) <= 5
    assert all(op.line() in said for op in history.ops)

    assert _command(monkeypatch, *shortest.split(), "--shrink-s", "0") == 1
    replayed = capsys.readouterr().out
    violation = next(line for line in lines[::-1] if DISK in line)
    assert violation in replayed.splitlines()

    assert _command(monkeypatch, *direct.split(), "--shrink-s", "0") == 1
    first = next(line for line in lines if DISK in line)
    assert first in capsys.readouterr().out.splitlines()


def _command(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["simulation", *words])
    return cli.main()


def test_an_operation_is_a_line_to_read() -> None:
    op = Op(93_784_500_000_000, "disk_full", {"for_s": 3.0})
    assert op.line() == "   1 d 02:03:04.500  disk_full for_s=3.0"
