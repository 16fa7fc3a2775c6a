"""The state on disk: private whatever the umask, never through a link, never lost (R30, R31)."""

import asyncio
import json
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from bridges import BridgeProcess, Owner
from brokers import Mosquitto
from wakebridge.simboard import DeskBoard


def modes(directory: Path) -> dict[str, str]:
    """Return the mode of everything in a directory, and of itself."""
    return {
        str(path.relative_to(directory)): oct(stat.S_IMODE(path.lstat().st_mode))
        for path in (directory, *directory.rglob("*"))
    }


@pytest.fixture
def stopped(board: DeskBoard, broker: Mosquitto, tmp_path: Path) -> BridgeProcess:
    """A daemon that has not been started yet."""
    return BridgeProcess(tmp_path / "bridge", port=board.port, mqtt_port=broker.port)


@pytest.mark.parametrize("umask", [0o000, 0o777], ids=oct)
async def test_r30_files_are_0600_in_directories_0700_whatever_the_umask(
    umask: int, stopped: BridgeProcess, owner: Owner, tmp_path: Path
) -> None:
    deep = tmp_path / "not" / "there" / "yet"
    stopped.config |= {"state_dir": str(deep / "state"), "config_dir": str(deep / "config")}
    stopped.umask = umask
    async with stopped:
        await owner.online()
        await stopped.said("countdown", error="")
        await stopped.open_session("chat")
        assert (await stopped.tool("chat", action="create", task="x", delay_s=60)).result
        await owner.schedule("a", **{"in": {"seconds": 60}})
        await stopped.kill()
    found = modes(tmp_path / "not")
    assert found.pop("there/yet/state/schedules.db-wal") == "0o600"
    for path, mode in found.items():
        wanted = "0o700" if (tmp_path / "not" / path).is_dir() else "0o600"
        assert (path, mode) == (path, wanted)
    assert "there/yet/config/routines/state.json" in found


@pytest.mark.parametrize("name", ["schedules.db", "bridge.lock"])
async def test_a_link_in_the_state_directory_is_refused_and_what_it_names_is_left_alone(
    name: str, stopped: BridgeProcess, tmp_path: Path
) -> None:
    target = tmp_path / "somebody-elses"
    target.write_text("precious")
    stopped.state_dir.mkdir(mode=0o700)
    (stopped.state_dir / name).symlink_to(target)
    ended = await stopped.run_to_end()
    assert ended.code == 1
    path = stopped.state_dir / name
    assert ended.text == f"wakebridge: {path} is a symbolic link, which is refused"
    assert target.read_text() == "precious"


@pytest.fixture
async def two_routines(stopped: BridgeProcess) -> bytes:
    """The document of a bridge that has two routines and was stopped."""
    async with stopped:
        await stopped.open_session("chat")
        await stopped.said("countdown", error="")
        for task in ("one", "two"):
            assert (await stopped.tool("chat", action="create", task=task, delay_s=600)).result
    return stopped.state_file.read_bytes()


PROBLEM = {
    "r1": "the file is empty",
    "r2": "it is not JSON: ",
    "r3": "Invalid value 'lunar' - at `$.routines[1].rule.kind`",
    "link": "is a symbolic link, which is refused",
    "directory": "is not a regular file",
    "folder-link": "routines is a symbolic link, which is refused",
}


@pytest.mark.parametrize("row", PROBLEM)
async def test_a15_r31_with_an_unreadable_state_all_else_serves_and_the_file_stays_as_it_is(
    row: str, two_routines: bytes, stopped: BridgeProcess, owner: Owner, tmp_path: Path
) -> None:
    path = stopped.state_file
    previous = path.with_name("state.json.previous")
    break_state(row, path, previous, two_routines)
    before = {each.name: _content(each) for each in path.parent.iterdir()}
    async with stopped:
        await check_that_the_rest_serves(row, stopped, owner)
        await stopped.kill()
        assert {each.name: _content(each) for each in path.parent.iterdir()} == before
        if row in {"r1", "link", "directory"}:
            await check_repair(stopped)


def break_state(row: str, path: Path, previous: Path, valid: bytes) -> None:
    """Leave the state as the case has it."""
    path.unlink()
    previous.unlink(missing_ok=True)
    match row:
        case "r1":
            path.write_bytes(b"")
            previous.write_bytes(valid)
        case "r2":
            path.write_bytes(valid[: len(valid) // 2])
        case "r3":
            document = json.loads(valid)
            document["routines"][1]["rule"]["kind"] = "lunar"
            path.write_text(json.dumps(document))
        case "link":
            elsewhere = path.parent.parent / "elsewhere.json"
            elsewhere.write_bytes(valid)
            path.symlink_to(elsewhere)
            previous.write_bytes(valid)
        case "folder-link":
            path.write_bytes(valid)
            elsewhere = path.parent.rename(path.parent.parent / "elsewhere")
            path.parent.symlink_to(elsewhere)
        case "directory":
            path.mkdir()
            previous.write_bytes(valid)


def _content(path: Path) -> object:
    if path.is_symlink():
        return str(path.readlink()), path.read_bytes()
    return path.read_bytes() if path.is_file() else "directory"


async def check_that_the_rest_serves(row: str, bridge: BridgeProcess, owner: Owner) -> None:
    await bridge.said("countdown", error="")
    assert (await bridge.http("GET", "/api/tools")).body == []
    health = await bridge.health()
    assert health["routines"]["available"] is False
    assert health["routines"]["problem"].startswith(f"{bridge.state_file}: ")
    assert PROBLEM[row] in health["routines"]["problem"]
    (error,) = [line for line in bridge.lines[-20:] if line.get("level") == "error"]
    assert str(bridge.state_file) in error["message"]
    answer = await bridge.http(
        "POST",
        "/api/tools/schedule",
        {"input": {"action": "create", "task": "x", "delay_s": 60}},
        **{"X-Session-Id": "chat"},
    )
    assert answer.status == 404
    assert "tool is off" in answer.body["error"]["reason"]
    assert "[Errno" not in answer.body["error"]["reason"]
    for path, body in (
        ("/api/sessions", {"session_id": "new"}),
        ("/api/sessions/chat/runs", {"kind": "interactive", "task": "y"}),
    ):
        assert (await bridge.http("POST", path, body)).status == 503
    # Scheduled events and the countdown are none of it.
    await owner.online()
    await owner.schedule("a", **{"in": {"seconds": 0.2}})
    await bridge.said("countdown", state="armed")
    await owner.until(lambda: len(owner.fires_of("a")) == 1)
    assert (await bridge.timer())["state"] in {"armed", "expired"}


async def check_repair(bridge: BridgeProcess) -> None:
    """`wakebridge state restore` brings the previous generation back and keeps the broken one."""
    restored = await asyncio.to_thread(
        subprocess.run,
        (
            *(sys.executable, "-m", "wakebridge"),
            *("--config", str(bridge.directory / "bridge.toml"), "state", "restore"),
        ),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert restored.returncode == 0, restored.stderr
    await bridge.start()
    tasks = [each["task"] for each in (await bridge.tool(action="list")).result]
    assert tasks == ["one", "two"]
    assert bridge.state_file.with_name("state.json.broken-1").exists()


async def test_r31_starting_and_reading_an_unchanged_state_writes_nothing(
    two_routines: bytes, stopped: BridgeProcess
) -> None:
    async with stopped:
        await stopped.said("countdown", error="")
        before = _written(stopped.config_dir)
        assert len((await stopped.tool(action="list")).result) == 2
        await stopped.kill()
        await stopped.start()
        await stopped.said("countdown", error="")
        assert _written(stopped.config_dir) == before


def _written(directory: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in (directory, *directory.rglob("*"))}


async def test_schedules_that_cannot_be_read_stop_the_start_and_stay_as_they_are(
    stopped: BridgeProcess, owner: Owner
) -> None:
    async with stopped:
        await owner.online()
        await owner.schedule("a", **{"in": {"seconds": 600}})
        assert await stopped.stop() == 0
    path = stopped.state_dir / "schedules.db"
    valid = path.read_bytes()
    for what in ("garbage", "cut", "newer", "foreign"):
        for each in stopped.state_dir.glob("schedules.db*"):
            each.unlink()
        path.write_bytes(valid)
        _spoil(what, path)
        before = path.read_bytes()
        ended = await stopped.run_to_end()
        assert ended.code == 1
        assert ended.text.startswith(f"wakebridge: {path}"), what
        assert ended.text.count("\n") == 0
        assert path.read_bytes() == before
    path.write_bytes(valid)
    async with stopped:
        assert len(stopped.all_said("accepted")) == 1
        assert (await stopped.health())["events"]["schedules"] == 1


def _spoil(what: str, path: Path) -> None:
    match what:
        case "garbage":
            path.write_bytes(os.urandom(4096))
        case "cut":
            os.truncate(path, path.stat().st_size // 2)
        case "newer":
            with sqlite3.connect(path) as db:
                db.execute("PRAGMA user_version = 99")
            db.close()
        case "foreign":
            path.unlink()
            with sqlite3.connect(path) as db:
                db.execute("CREATE TABLE recipes (name)")
            db.close()
