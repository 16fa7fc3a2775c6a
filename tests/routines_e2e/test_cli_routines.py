"""`wakebridge routine` and `session` with the running bridge (R1 to R4, R8, R10, R23)."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from bridges import BridgeProcess
from command_line import CommandLine, run
from noting_agent import Notes
from scenes import create, now, post, until
from wakebridge.simboard import DeskBoard


@pytest.fixture
def wakebridge(bridge: BridgeProcess) -> CommandLine:
    """The command line for the running bridge."""
    return CommandLine(bridge.directory / "bridge.toml")


async def test_r1_r2_r3_r4_a_routine_is_added_listed_shown_updated_and_cancelled(
    bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    added = await wakebridge(
        *("routine", "add", "check the shipment", "--session", "chat"),
        *("--in", "10m", "--every", "24h"),
    )
    shown = dict(line.split(maxsplit=1) for line in added.lines)
    assert (shown["status"], shown["every"], shown["task"]) == (
        *("scheduled", "1d", "check the shipment"),
    )
    routine_id = shown["id"]
    assert added.err == ""

    listed = await wakebridge("routine", "list")
    assert listed.lines[0].split() == ["ID", "STATUS", "NEXT", "RUN", "EVERY", "TASK"]
    [row] = listed.lines[1:]
    assert row.split()[:2] == [routine_id, "scheduled"]
    assert row.endswith("1d     check the shipment")

    one = await wakebridge("routine", "show", routine_id)
    assert one.lines == added.lines
    instant = (datetime.now(UTC) + timedelta(days=30)).isoformat(timespec="seconds")
    updated = await wakebridge("routine", "update", routine_id, "another task", "--at", instant)
    assert f"next run      {instant}" in updated.lines
    assert not any(line.startswith("every") for line in updated.lines)
    cancelled = await wakebridge("routine", "cancel", routine_id)
    assert "status        cancelled" in cancelled.lines
    assert (await bridge.routine(routine_id))["status"] == "cancelled"


async def test_programs_get_json_from_every_command(
    bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    added = await wakebridge("routine", "add", "x", "--session", "chat", "--in", "600", "--json")
    result = added.json["result"]
    assert added.json["timer_error"] == ""
    assert (await wakebridge("routine", "list", "--json")).json == {
        "result": [result],
        "timer_error": "",
    }
    assert (await wakebridge("routine", "show", result["id"], "--json")).json == result
    update = ("routine", "update", result["id"], "y", "--in", "1h", "--json")
    assert (await wakebridge(*update)).json["result"]["task"] == "y"
    cancel = ("routine", "cancel", result["id"], "--json")
    assert (await wakebridge(*cancel)).json["result"]["status"] == "cancelled"
    [ledger] = (await wakebridge("session", "list", "--json")).json
    assert (ledger["root"], ledger["status"]) == ("chat", "open")
    assert (await wakebridge("session", "show", "chat", "--json")).json == []


async def test_r23_results_errors_and_what_waits_are_shown_to_people(
    bridge: BridgeProcess, notes: Notes, wakebridge: CommandLine
) -> None:
    failed = await create(bridge, "fail on purpose")
    await until(bridge, failed, status="failed")
    gate = notes.gate()
    running = await create(bridge, f"wait {gate}")
    await until(bridge, running, partial_result="half of it")
    waiting = await create(bridge, "y")
    await until(bridge, waiting, waiting=True)
    listed = await wakebridge("routine", "list")
    assert [line.split()[1] for line in listed.lines if line.startswith("r-")] == [
        *("failed", "running", "waiting"),
    ]
    shown = await wakebridge("routine", "show", failed)
    assert "error         no such shipment" in shown.lines
    shown = await wakebridge("routine", "show", running)
    assert "partial       half of it" in shown.lines
    notes.open(gate)
    await until(bridge, waiting, status="completed")
    shown = await wakebridge("routine", "show", waiting)
    assert "result        done: y" in shown.lines
    transcript = await wakebridge("session", "show", "chat")
    assert [line.split()[2] for line in transcript.lines if line.startswith("20")] == [
        *("input", "error", "input", "progress", "result", "input", "result"),
    ]


async def test_whatever_is_in_a_task_its_width_and_the_terminal_stay_as_they_are(
    bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    nasty = "a\x1b[2J\x07\nb " + "word " * 3000
    await post(bridge, "/api/sessions", session_id="chat / with a slash")
    await create(bridge, nasty, "chat / with a slash", delay_s=600)
    routine_id = await create(bridge, nasty, delay_s=600)
    for words in (
        ("routine", "list"),
        ("routine", "show", routine_id),
        ("session", "list"),
        ("session", "show", "chat / with a slash"),
    ):
        said = await wakebridge(*words)
        assert "\x1b" not in said.out + said.err
        assert "\x07" not in said.out
    listed = await wakebridge("routine", "list")
    assert len(listed.lines) < 20


async def test_r4_cancelling_what_runs_says_what_becomes_of_it(
    bridge: BridgeProcess, notes: Notes, wakebridge: CommandLine
) -> None:
    routine_id = await create(bridge, f"wait {notes.gate()}")
    await until(bridge, routine_id, partial_result="half of it")
    cancelling = await wakebridge("routine", "cancel", routine_id)
    assert "status        cancelling" in cancelling.lines
    await until(bridge, routine_id, status="cancelled")
    shown = await wakebridge("routine", "show", routine_id)
    assert "cancellation  confirmed" in shown.lines


async def test_r8_a_wake_up_that_is_not_confirmed_is_said_beside_the_answer(
    board: DeskBoard, bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    routine_id = await create(bridge, "x", delay_s=600)
    await board.unplug()
    await bridge.said("board down")
    listed = await wakebridge("routine", "list")
    assert routine_id in listed.out
    assert "The wake-up is not confirmed:" in listed.reason
    refused = await wakebridge(*("routine", "add", "x", "--session", "chat", "--in", "1h"), code=1)
    assert "mcu_unavailable: the MCU cannot be reached" in refused.reason


async def test_mistakes_are_told_in_a_sentence_with_a_code_and_change_nothing(
    bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    before = bridge.state_file.read_bytes()
    add = ("routine", "add", "x", "--session", "chat")
    for words, code, reason in (
        (add, 2, "give exactly one of --in and --at"),
        ((*add, "--in", "1h", "--at", now()), 2, "give exactly one of --in and --at"),
        ((*add, "--in", "soon"), 2, "is not a length of time"),
        ((*add, "--in", "inf"), 2, "is not a length of time"),
        (("session", "open", ".."), 1, "neither . nor .."),
        ((*add, "--in", "0"), 1, "delay_s is a whole number of seconds from 1 to 604800"),
        ((*add, "--in", "8d"), 1, "delay_s is a whole number of seconds from 1 to 604800"),
        ((*add, "--in", "1.5s"), 1, "delay_s is a whole number of seconds"),
        ((*add, "--in", "1h", "--every", "8d"), 1, "interval_s is a whole number of seconds"),
        ((*add, "--at", "2126-01-01T09:00:00"), 1, "has no UTC offset"),
        ((*add, "--at", "2020-01-01T09:00:00Z"), 1, "is in the past"),
        (("routine", "add", "x", "--in", "1h"), 2, "Missing option '--session'"),
        (("routine", "add", "x", "--session", "no", "--in", "1h"), 1, "no session 'no'"),
        (("routine", "update", "r-none", "x", "--in", "1h"), 1, "no routine 'r-none'"),
        (("routine", "cancel", "r-none"), 1, "no routine 'r-none'"),
        (("routine", "show", "r-none"), 1, "no routine 'r-none'"),
        (("session", "show", "no"), 1, "no session 'no'"),
        (("routine", "fly"), 2, "No such command 'fly'"),
    ):
        said = await wakebridge(*words, code=code)
        assert reason in said.reason, said
        assert said.out == ""
    assert bridge.state_file.read_bytes() == before


async def test_a_bridge_that_is_not_there_is_said_to_be_away(
    bridge: BridgeProcess, wakebridge: CommandLine
) -> None:
    await bridge.kill()
    said = await wakebridge("routine", "list", code=1)
    assert "the bridge does not answer at" in said.reason
    assert "Is it running?" in said.reason
    lost = await run("--config", "/nowhere/bridge.toml", "routine", "list")
    assert lost.code == 1
    assert "cannot be read" in lost.check().reason
    # What is read from a file needs no bridge.
    shown = await wakebridge("state", "show")
    assert json.loads(shown.out)["version"] == 1
