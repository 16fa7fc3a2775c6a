"""Some rounds of real crashes in every test run; `make crash ROUNDS=200` runs many."""

import asyncio
from pathlib import Path

import pytest

from crash.crash_rounds import crash_rounds
from crash.faults import FAULTS, draw

ROUNDS = 7
SEEDS = {"command": 167, "mqtt": 562}


@pytest.mark.timeout(180)
async def test_crashes_lose_nothing_and_repeat_at_most_one_each_e27_e41_e50_e51_r40_r47_r48(
    tmp_path: Path,
) -> None:
    """Both ways to an agent at the same time, each in a world of its own."""

    async def rounds_with(runner: str) -> None:
        directory = tmp_path / runner
        directory.mkdir()
        figures = await crash_rounds(directory, seed=SEEDS[runner], rounds=ROUNDS, runner=runner)
        print(f"{ROUNDS} rounds with the {runner} runner:\n{figures}")
        assert figures.seen > 40
        assert figures.runs > 3

    await asyncio.gather(*(rounds_with(runner) for runner in SEEDS))


def test_the_seeds_strike_in_most_ways() -> None:
    struck = {
        fault.name
        for seed in SEEDS.values()
        for faults in draw(seed, ROUNDS, has_disk=True)
        for fault in faults
    }
    assert {"kill the bridge", "kill the broker", "fill the disk"} <= struck
    assert len(struck) >= len(FAULTS) - 2
