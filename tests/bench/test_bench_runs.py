"""Each benchmark runs, in a size whose figures mean nothing: no time is asserted here."""

import dataclasses
from pathlib import Path

import pytest

from bench import catalogue, machine, page
from bench.report import Row, Table, Target, median_of, quantile, ratio
from bench.sizes import TINY


def check(table: Table) -> None:
    assert table.rows
    assert list(table.faults) == []
    text = "\n".join(table.lines())
    for row in table.rows:
        assert row.system in text
    assert table.as_json()["title"] == table.title


@pytest.mark.parametrize("name", catalogue.MEASUREMENTS)
async def test_a_measurement_runs_and_finds_nothing_lost(name: str, tmp_path: Path) -> None:
    check(await catalogue.MEASUREMENTS[name](tmp_path, TINY))


@pytest.mark.parametrize("name", ["lateness", "answers"])
async def test_the_peers_are_measured_in_the_same_run(name: str, tmp_path: Path) -> None:
    table = await catalogue.MEASUREMENTS[name](tmp_path, dataclasses.replace(TINY, peers=True))
    check(table)
    systems = " ".join(row.system for row in table.rows)
    for peer in ("stock OVOS scheduler", "OVOS pre-release", "SQLite WAL"):
        assert peer in systems
    assert any(line.rstrip().endswith("x") for line in table.lines())


def test_the_head_names_machine_and_versions() -> None:
    head = "\n".join(machine.describe(catalogue.peer_versions()))
    for part in ("cores", "Linux", "CPython", "SQLite", "mosquitto", "APScheduler", "prerelease"):
        assert part in head


def test_the_page_shows_every_measurement_without_a_fault_or_a_missed_target() -> None:
    figures = page.shown()
    assert figures.count("## ") == len(catalogue.MEASUREMENTS)
    assert "met: " in figures
    assert "FAULT" not in figures
    assert "MISSED" not in figures
    for part in ("machine  ", "versions  ", "APScheduler"):
        assert part in figures


def test_medians_quantiles_and_ratios() -> None:
    assert median_of([{"a": 1, "b": "x"}, {"a": 9, "b": "x"}, {"a": 2, "b": "x"}]) == {
        "a": 2,
        "b": "x",
    }
    assert quantile(range(1, 101), 0.5) == 51
    assert quantile([1.0], 0.99) == 1.0
    assert ratio(3.0, 2.0) == "1.5x"
    assert ratio(None, 2.0) == ratio(1.0, "never") == "-"


def test_a_missed_target_and_a_fault_are_said_aloud() -> None:
    table = Table(
        "t",
        [Row("wakebridge", {"p50": 3.0}), Row("other", {"p50": 6.0})],
        compared="p50",
        targets=[Target("p50", 3.0, 2.0, "ms"), Target("p50", 1.0, 2.0, "ms")],
        faults=["one lost"],
    )
    text = "\n".join(table.lines())
    assert "MISSED: p50 <= 2 ms, is 3" in text
    assert "met: p50 <= 2 ms, is 1" in text
    assert "FAULT: one lost" in text
    assert "2x" in text
