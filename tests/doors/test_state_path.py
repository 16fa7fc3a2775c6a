"""A link or a FIFO in the path of the state has us read or write nowhere else (R30)."""

import asyncio
import os
import stat
import sys
from pathlib import Path

import pytest

from bridges import BridgeProcess


def mode_of(path: Path) -> str:
    return oct(stat.S_IMODE(path.lstat().st_mode))


@pytest.fixture
def bridge(tmp_path: Path) -> BridgeProcess:
    """A daemon without a board and a broker, which its state has no need of."""
    return BridgeProcess(tmp_path / "bridge", port=str(tmp_path / "no-board"))


async def test_a_link_in_place_of_the_state_directory_is_refused(
    bridge: BridgeProcess, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    bridge.state_dir.symlink_to(elsewhere)
    ended = await bridge.run_to_end()
    assert ended.code == 1
    assert ended.text.startswith(f"wakebridge: {bridge.state_dir} is a symbolic link")
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
async def test_a_link_beside_the_database_is_refused_and_what_it_names_is_left_alone(
    bridge: BridgeProcess, tmp_path: Path, suffix: str
) -> None:
    target = tmp_path / "somebody-elses"
    target.write_text("precious")
    bridge.state_dir.mkdir(mode=0o700)
    link = bridge.state_dir / f"schedules.db{suffix}"
    link.symlink_to(target)
    ended = await bridge.run_to_end()
    assert ended.code == 1
    assert ended.text == f"wakebridge: {link} is a symbolic link, which is refused"
    assert target.read_text() == "precious"


@pytest.mark.parametrize("name", ["state.json", "state.json.previous"])
async def test_a_fifo_in_place_of_the_document_is_not_waited_for(
    bridge: BridgeProcess, name: str
) -> None:
    folder = bridge.config_dir / "routines"
    folder.mkdir(parents=True, mode=0o700)
    os.mkfifo(folder / name)
    async with bridge:
        assert (await bridge.health())["routines"]["available"] is False


async def test_a_link_in_place_of_the_transcripts_costs_the_line_and_nothing_else(
    bridge: BridgeProcess, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder = bridge.config_dir / "routines"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "sessions").symlink_to(elsewhere)
    async with bridge:
        await bridge.open_session("s")
        answer = await bridge.http("GET", "/api/sessions/s/transcript")
        assert answer.status == 503
    assert list(elsewhere.iterdir()) == []


async def test_the_unix_socket_is_private_under_a_hostile_umask(
    bridge: BridgeProcess, tmp_path: Path
) -> None:
    path = tmp_path / "socket"
    bridge.config["http"]["unix_socket"] = str(path)
    bridge.umask = 0
    async with bridge:
        assert mode_of(path) == "0o600"
        assert stat.S_ISSOCK(path.lstat().st_mode)


async def test_the_desk_boards_control_socket_and_fifo_are_private_under_a_hostile_umask(
    tmp_path: Path,
) -> None:
    control = tmp_path / "control"
    board = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "wakebridge.simboard", "--dir", str(tmp_path / "board")),
        *("--control", str(control)),
        stdout=asyncio.subprocess.PIPE,
        umask=0,
    )
    assert board.stdout is not None
    try:
        async with asyncio.timeout(20):
            assert await board.stdout.readline()
        assert mode_of(control) == "0o600"
        assert mode_of(tmp_path / "board" / "desk") == "0o700"
        assert mode_of(tmp_path / "board" / "desk" / "wake_line") == "0o600"
    finally:
        board.terminate()
        await board.wait()
