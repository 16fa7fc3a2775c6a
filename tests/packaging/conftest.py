"""What the tests of the service share: a real broker and a board on the desk."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

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
    """A broker that keeps what is retained."""
    return mosquitto(persistence=True)
