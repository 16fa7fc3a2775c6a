"""Boards, supervisors and open files of the board tests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from firmware_board import PtyBoard
from supervised import Supervised
from wakebridge.board.serial_port import SerialOpener


@pytest.fixture(autouse=True)
def no_file_is_left_open() -> Iterator[None]:
    """Every test gives back the descriptors it opened."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    yield
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


@pytest.fixture
def link(tmp_path: Path) -> Path:
    """The stable name of the board's port."""
    return tmp_path / "usb-a_board-if00"


@pytest.fixture
async def pty_board(link: Path) -> AsyncIterator[PtyBoard]:
    board = PtyBoard(link)
    yield board
    board.vanish()


@pytest.fixture
async def supervise() -> AsyncIterator[Callable[[str | Path], Supervised]]:
    """Start supervisors; they are stopped after the test."""
    running: list[tuple[Supervised, asyncio.Task[None]]] = []

    def start(port: str | Path) -> Supervised:
        supervised = Supervised(SerialOpener(str(port)))
        running.append((supervised, asyncio.create_task(supervised.supervisor.run())))
        return supervised

    yield start
    for _, task in running:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
