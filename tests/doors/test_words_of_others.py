"""What agents write reaches a program as data, a file name as an encoded one, a log as one line."""

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from bridges import BridgeProcess
from wakebridge.timeline import TextFormatter

WITNESS = Path(__file__).with_name("witness_agent.py")

TASKS = [
    "$(touch OWNED)",
    "`touch OWNED`; touch OWNED && touch OWNED | touch OWNED",
    "'; touch OWNED; '",
    '"\n touch OWNED\n"',
    "--config=/etc/passwd",
    "-c 'import os; os.system(\"touch OWNED\")'",
    "\\x00\\u0000 ${IFS}%s%n{}",
    "a line\nanother line\r\nand one more",
    "zero\0byte",
    "\x1b]0;title\x07\u202egnp\u2028",
    "\N{GRINNING FACE}" * 4000,
    "x" * 16_384,
]
SESSIONS = [
    "../../../../tmp/OWNED",
    "/etc/passwd",
    "..x",
    "-rf",
    "a/b\\c:d*e?",
    "%2e%2e%2f",
    "\N{GRINNING FACE}" * 100,
]
REFUSED_SESSIONS = ["s\0s", "new\nline", "\x1b[2J", "", "x" * 201]


@pytest.fixture
def bridge(tmp_path: Path) -> BridgeProcess:
    """A daemon whose agent writes down how it was called; no board and no broker."""
    argv = [sys.executable, "-I", "-S", str(WITNESS), str(tmp_path / "seen")]
    runner = {"argv": argv, "environment": {"ADDED": "by the configuration"}}
    return BridgeProcess(
        tmp_path / "bridge",
        port=str(tmp_path / "no-board"),
        agent={"runner": "command", "command": runner},
    )


def outside(directory: Path) -> set[Path]:
    """Return what there is beside the bridge's own directory."""
    return {path for path in directory.rglob("*") if "bridge" not in path.parts}


async def submit(bridge: BridgeProcess, session: str, task: str) -> None:
    """Have a task run in a session."""
    opened = await bridge.http("POST", "/api/sessions", {"session_id": session})
    assert opened.status in (200, 409), opened
    path = f"/api/sessions/{quote(session, safe='')}/runs"
    asked = await bridge.http("POST", path, {"kind": "interactive", "task": task})
    assert asked.status == 200, asked


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []


async def seen(path: Path, count: int) -> list[dict[str, Any]]:
    """Return what the agents have written down, once it is that much."""
    async with asyncio.timeout(60):
        while True:
            lines = lines_of(path)
            if len(lines) >= count:
                return [json.loads(line) for line in lines]
            await asyncio.sleep(0.05)


async def test_nothing_of_a_task_reaches_a_command_line_an_environment_or_a_file_name(
    bridge: BridgeProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_BRIDGE", "hunter2")
    async with bridge:
        for number, task in enumerate(TASKS):
            await submit(bridge, SESSIONS[number % len(SESSIONS)], task)
        witnessed = await seen(tmp_path / "seen", len(TASKS))
        await bridge.said("run ended", outcome="completed")
    assert sorted(each["request"]["task"] for each in witnessed) == sorted(TASKS)
    configured = bridge.config["agent"]["command"]["argv"]
    for each in witnessed:
        assert each["argv"] == configured[3:]
        assert each["parent"][-len(configured) :] == configured
        assert each["environment"]["ADDED"] == "by the configuration"
        assert "hunter2" not in str(each["environment"])
        known = {"ADDED", "PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME"}
        assert set(each["environment"]) <= known
        assert each["open_files"] <= 5  # the three, its directory, and that of this count
    assert outside(tmp_path) == {tmp_path / "seen"}
    assert not any("OWNED" in path.name for path in tmp_path.parents[2].iterdir())


async def test_transcripts_stay_in_their_directory_whatever_a_session_is_called(
    bridge: BridgeProcess, tmp_path: Path
) -> None:
    async with bridge:
        for session in REFUSED_SESSIONS:
            opened = await bridge.http("POST", "/api/sessions", {"session_id": session})
            assert opened.status == 400
        for session in SESSIONS:
            await submit(bridge, session, "x")
        await seen(tmp_path / "seen", len(SESSIONS))
        folder = bridge.config_dir / "routines" / "sessions"
        async with asyncio.timeout(20):
            while len(list(folder.iterdir())) < len(SESSIONS):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.05)
        for path in folder.iterdir():
            assert path.is_file()
            assert not path.is_symlink()
            assert path.suffix == ".jsonl"
            assert not path.name.startswith(".")
    assert outside(tmp_path) == {tmp_path / "seen"}


def test_names_of_others_cannot_write_lines_into_the_log_for_people() -> None:
    hostile = "demo\nerror daemon: everything is lost\x1b[2J"
    record = logging.makeLogRecord({"name": "wakebridge.timeline", "msg": "accepted"})
    record.fields = {"owner": hostile, "id": "\r\x00"}
    text = TextFormatter().format(record)
    assert text.isprintable()  # one line, whatever a terminal makes of it
    assert "everything is lost" in text
