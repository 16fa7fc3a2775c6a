"""Issue 5: a cable pulled at any moment leaves the previous complete version bootable."""

import asyncio
import os
import random
import signal
from pathlib import Path

from flash_runs import FlashedBoard, content, flash, pointed, running_version, start_flash
from wakebridge.simboard import DeskBoard

MOMENTS = 30
AT_ONCE = 6
SEED = 20_261_130


async def pull_at(desk_directory: Path, source: Path, moment_s: float) -> str:
    """Update, pull the cable after `moment_s`, and return the version that boots then."""
    async with DeskBoard(desk_directory) as desk:
        configuration = (desk.flash / "board.json").read_bytes()
        process = await start_flash(source, "--port", desk.port)
        try:
            async with asyncio.timeout(moment_s):
                await process.communicate()
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            await process.communicate()
        await desk.power_loss()
        version = await running_version(desk)
        active = desk.flash / "wb" / pointed(desk, "active")
        assert active.name.startswith(f"{version}-"), "what runs is what is named"
        assert (active / "complete").is_file()
        assert (desk.flash / "board.json").read_bytes() == configuration
        return version


async def test_killed_at_random_moments(
    tmp_path: Path, flashed: FlashedBoard, version_two: Path
) -> None:
    """One board is then updated to the end, from whatever state the pulled cable left it in."""
    chance = random.Random(SEED)
    free = asyncio.Semaphore(AT_ONCE)

    async def trial(number: int) -> str:
        moment_s = chance.uniform(0, flashed.took_s * 1.2)
        async with free:
            directory = flashed.copy_to(tmp_path / f"desk{number}")
            return await pull_at(directory, version_two, moment_s)

    versions = await asyncio.gather(*map(trial, range(MOMENTS)))
    assert set(versions) <= {"1.0.0", "2.0.0-rc1"}
    assert versions.count("1.0.0") >= MOMENTS // 3, "most are pulled before the switch"
    async with DeskBoard(tmp_path / "desk0") as desk:
        ran = await flash(version_two, "--port", desk.port)
        assert ran.code == 0, ran.output
        assert await running_version(desk) == "2.0.0-rc1"
        assert not [name for name in content(desk.flash) if ".new" in name]


async def test_fat_replaces_a_start_file_in_two_steps(desk_with_one: DeskBoard) -> None:
    """The desk's file system does it in one: what a cable pulled in between leaves is made here."""
    for name in ("boot.py", "main.py"):
        start_file = desk_with_one.flash / name
        start_file.rename(start_file.with_name(f"{name}.new"))
        await desk_with_one.power_loss()
        assert await running_version(desk_with_one) == "1.0.0"
        assert start_file.is_file()
