"""What the tests of the running pair share: a real broker, a board on the desk, the daemon."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridges import BridgeProcess, Journal, Owner
from brokers import Mosquitto, MosquittoFactory, mosquitto
from wakebridge.simboard import DeskBoard

__all__ = ["mosquitto"]


@pytest.fixture
async def board(tmp_path: Path) -> AsyncIterator[DeskBoard]:
    """The real firmware, powered and plugged in."""
    async with DeskBoard(tmp_path / "board") as powered:
        yield powered


@pytest.fixture
def broker(mosquitto: MosquittoFactory) -> Mosquitto:
    """A broker that keeps its sessions over a restart."""
    return mosquitto(persistence=True)


@pytest.fixture
async def owner(broker: Mosquitto) -> AsyncIterator[Owner]:
    """A component that is there all the time."""
    async with Owner(broker.port) as connected:
        yield connected


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """What the agents of the bridge write down."""
    return Journal(tmp_path / "journal")


@pytest.fixture
async def bridge(
    board: DeskBoard, broker: Mosquitto, owner: Owner, journal: Journal, tmp_path: Path
) -> AsyncIterator[BridgeProcess]:
    """The running daemon, with its links to the board and to the broker up, and one session."""
    daemon = BridgeProcess(
        tmp_path / "bridge", port=board.port, mqtt_port=broker.port, agent=journal.runner
    )
    async with daemon:
        await owner.online()
        await owner.until_timer(timer_error="")
        await daemon.open_session("chat")
        yield daemon
