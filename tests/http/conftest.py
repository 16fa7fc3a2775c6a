"""What the tests of the HTTP interface share: a board on the desk and the daemon."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridges import BridgeProcess, Journal
from wakebridge.simboard import DeskBoard


@pytest.fixture
async def board(tmp_path: Path) -> AsyncIterator[DeskBoard]:
    """The real firmware, powered and plugged in."""
    async with DeskBoard(tmp_path / "board") as powered:
        yield powered


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """What the agents of the bridge write down."""
    return Journal(tmp_path / "journal")


@pytest.fixture
async def bridge(
    board: DeskBoard, journal: Journal, tmp_path: Path
) -> AsyncIterator[BridgeProcess]:
    """The running daemon with its link to the board, and the session `chat`."""
    async with BridgeProcess(tmp_path / "bridge", port=board.port, agent=journal.runner) as daemon:
        await daemon.said("countdown")
        await daemon.open_session("chat")
        yield daemon
