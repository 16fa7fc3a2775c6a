"""What the tests of the command line share: the running bridge, with a board and a broker."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridges import BridgeProcess
from brokers import Mosquitto, MosquittoFactory, mosquitto
from command_line import CommandLine
from wakebridge.simboard import DeskBoard

__all__ = ["mosquitto"]


@pytest.fixture
async def board(tmp_path: Path) -> AsyncIterator[DeskBoard]:
    """The real firmware, powered and plugged in."""
    async with DeskBoard(tmp_path / "board") as powered:
        yield powered


@pytest.fixture
def broker(mosquitto: MosquittoFactory) -> Mosquitto:
    """A broker that everybody may use."""
    return mosquitto()


@pytest.fixture
def stopped(board: DeskBoard, broker: Mosquitto, tmp_path: Path) -> BridgeProcess:
    """A bridge that was not started yet; its configuration may still be changed."""
    return BridgeProcess(tmp_path / "bridge", port=board.port, mqtt_port=broker.port)


@pytest.fixture
async def bridge(stopped: BridgeProcess) -> AsyncIterator[BridgeProcess]:
    """The running daemon, with its link to the board up."""
    async with stopped:
        await stopped.said("countdown")
        yield stopped


@pytest.fixture
def wakebridge(stopped: BridgeProcess) -> CommandLine:
    """The command line for that bridge."""
    return CommandLine(stopped.directory / "bridge.toml")
