"""`wakebridge board`: what is asked of the board, and what is seen of it as it happens."""

import asyncio
import json
import re
import signal
import time

import pytest

from bridges import BridgeProcess
from command_line import CommandLine
from wakebridge.simboard import DeskBoard

pytestmark = pytest.mark.timeout(60)


def fields(lines: list[str]) -> dict[str, str]:
    """Return the fields of a `name  value` print, whose values may go on in further lines."""
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        if line.startswith(" "):
            found[name] += " " + line.strip()
        else:
            name, found[name] = line[:12].strip(), line[14:]
    return found


async def watch(wakebridge: CommandLine, *words: str) -> asyncio.subprocess.Process:
    """Start to watch; return when it has told how the board is now."""
    process = await wakebridge.start("board", "watch", *words)
    assert process.stdout is not None
    async with asyncio.timeout(20):
        first = await process.stdout.readline()
    assert b"now" in first
    return process


async def test_who_the_board_is_and_how_it_is(
    board: DeskBoard, bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    shown = fields((await wakebridge("board", "info")).lines)
    as_json = (await wakebridge("board", "info", "--json")).json
    assert shown["unique id"] == as_json["unique_id"] == board.unique_id.hex()
    assert shown["boot id"] == f"{as_json['boot_id']}, reset: power on"
    assert shown["firmware"] == as_json["firmware"]
    assert shown["config"] == "no faults"
    assert re.fullmatch(r"\d+ requests, 0 retried, 0 bad frames here, 0 there", shown["link"])
    assert shown["clock"].startswith("crystal, runs ")


async def test_the_countdown_and_what_it_is_for(
    bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    idle = fields((await wakebridge("board", "timer")).lines)
    assert (idle["countdown"], idle["wakes for"]) == ("idle", "nothing is planned")
    added = (await wakebridge("event", "add", "x", "--owner", "d", "--in", "10m", "--json")).json
    await bridge.said("countdown", state="armed", error="")
    armed = fields((await wakebridge("board", "timer")).lines)
    assert armed["countdown"] == "armed"
    assert armed["wakes for"] == added["next"]
    assert re.fullmatch(r"10m|9m5\ds", armed["left"])
    assert armed["problem"] == "none"
    as_json = (await wakebridge("board", "timer", "--json")).json
    assert as_json["live"]["token"] == as_json["plan"]["token"]
    assert armed["token"] == f"{as_json['live']['token']:#010x}"


async def test_the_log_tells_why_the_board_woke_the_host(
    bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    """R40: source 4 is the timer."""
    await bridge.open_session("chat")
    await wakebridge("routine", "add", "look", "--session", "chat", "--in", "1s")
    await bridge.said("board event", source=4)
    shown = (await wakebridge("board", "events")).lines
    assert shown[0].split() == ["SEQ", "SOURCE", "UP", "TOKEN"]
    assert [line.split()[1:3] for line in shown[1:]] == [["1", "boot"], ["4", "rtc_timer"]]
    as_json = (await wakebridge("board", "events", "--json")).json
    assert [event["source"] for event in as_json["events"]] == [1, 4]


async def test_a_wake_is_watched_as_it_happens_for_people_and_for_programs(
    bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    people = await watch(wakebridge, "--count", "3")
    programs = await watch(wakebridge, "--count", "3", "--json")
    await bridge.open_session("chat")
    await wakebridge("routine", "add", "look", "--session", "chat", "--in", "1s")
    async with asyncio.timeout(20):
        told, _ = await people.communicate()
        lines, _ = await programs.communicate()
    assert (people.returncode, programs.returncode) == (0, 0)
    assert all(len(line) <= 80 for line in told.decode().splitlines())
    assert "countdown  state: armed  leg: final" in told.decode()
    assert "board event  source: 4 rtc_timer" in " ".join(told.decode().split("\n"))
    said = [json.loads(line)["message"] for line in lines.splitlines()]
    assert said[:2] == ["countdown", "board event"]


async def test_watching_ends_with_ctrl_c_and_says_when_the_bridge_has_gone(
    bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    ended, left = await watch(wakebridge), await watch(wakebridge)
    async with asyncio.timeout(20):
        ended.send_signal(signal.SIGINT)
        assert await ended.communicate() == (b"          countdown: idle\n", b"")
        assert ended.returncode == 0
        began_s = time.monotonic()
        await bridge.stop()
        assert time.monotonic() - began_s < 2  # nobody waits for a follower
        _, error = await left.communicate()
    assert (left.returncode, error) == (1, b"Error: the bridge has stopped\n")


async def test_of_a_board_that_is_away_every_command_says_so(
    board: DeskBoard, bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    await board.unplug()
    await bridge.said("board down")
    for command in ("info", "timer", "events"):
        said = await wakebridge("board", command, code=1)
        assert "no serial port" in said.reason or "hung up" in said.reason, said
    assert "not lent" in (await wakebridge("board", "take-back", code=1)).reason
