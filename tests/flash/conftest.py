import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from desk_mpremote import Ran
from flash_runs import FlashedBoard, checkout, flash
from wakebridge.simboard import DeskBoard


@pytest.fixture(scope="session")
def version_one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout(tmp_path_factory.mktemp("one") / "checkout", "1.0.0")


@pytest.fixture(scope="session")
def version_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout(tmp_path_factory.mktemp("two") / "checkout", "2.0.0-rc1")


@pytest.fixture(scope="session")
def flashed(tmp_path_factory: pytest.TempPathFactory, version_one: Path) -> FlashedBoard:
    template = tmp_path_factory.mktemp("flashed") / "desk"

    async def put_version_one() -> Ran:
        async with DeskBoard(template) as board:
            ran = await flash(version_one, "--port", board.port)
        for factory in ("wakeboard", "wakewire"):
            shutil.rmtree(template / "flash" / factory)  # only /wb can be what runs
        return ran

    began_s = time.monotonic()
    ran = asyncio.run(put_version_one())
    return FlashedBoard(template / "flash", ran, time.monotonic() - began_s)


@pytest.fixture
async def desk_with_one(tmp_path: Path, flashed: FlashedBoard) -> AsyncIterator[DeskBoard]:
    """A desk board that runs version 1.0.0, put there by flash.sh."""
    async with DeskBoard(flashed.copy_to(tmp_path / "desk")) as board:
        yield board
