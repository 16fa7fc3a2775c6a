"""What the tests of routines end to end share: a board on the desk, agents, and the daemon."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridges import BridgeProcess
from brokers import mosquitto
from noting_agent import Notes
from wakebridge.simboard import DeskBoard

__all__ = ["mosquitto"]


@pytest.fixture
async def board(tmp_path: Path) -> AsyncIterator[DeskBoard]:
    """The real firmware, powered and plugged in."""
    async with DeskBoard(tmp_path / "board") as powered:
        yield powered


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    """What the agents of the bridge note."""
    return Notes(tmp_path)


@pytest.fixture
async def bridge(board: DeskBoard, notes: Notes, tmp_path: Path) -> AsyncIterator[BridgeProcess]:
    """The running daemon with its link to the board, and the session `chat`."""
    async with BridgeProcess(tmp_path / "bridge", port=board.port, agent=notes.runner) as daemon:
        await daemon.said("countdown")
        await daemon.open_session("chat")
        yield daemon
