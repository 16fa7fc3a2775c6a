import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from desk_host_end import HostEnd
from desk_mpremote import echo_firmware
from wakebridge.simboard import DeskBoard


@pytest.fixture
async def echo_desk(tmp_path: Path) -> AsyncIterator[DeskBoard]:
    """A desk board whose firmware echoes what it reads."""
    async with DeskBoard(tmp_path / "desk", firmware=echo_firmware(tmp_path / "fw")) as desk:
        yield desk


@pytest.fixture
async def host_end(echo_desk: DeskBoard) -> AsyncIterator[HostEnd]:
    """An open host end on the echoing board, whose main.py is known to run."""
    end = HostEnd(echo_desk.port)
    end.write(b"^")
    await end.until(b"^")
    yield end
    end.close()


@pytest.fixture
def control_path() -> Iterator[Path]:
    """A path short enough for a unix socket, whatever the test's own directory is called."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory) / "control"
