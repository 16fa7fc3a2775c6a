"""Whose the countdown is: ours, a person's, or somebody else's (R8, R9, R46)."""

from pathlib import Path

import pytest

from bridges import BridgeProcess, Owner, asking
from brokers import Mosquitto
from wakebridge.routine.change import Code
from wakebridge.simboard import DeskBoard

FOREIGN_TOKEN = 0xBEEF_0001
"""Of a lease that is not this bridge's: it is drawn at random, so the odds are good."""


async def test_r9_a_countdown_of_somebody_else_forbids_creation_and_is_never_touched(
    board: DeskBoard, broker: Mosquitto, owner: Owner, tmp_path: Path
) -> None:
    async with asking(board.port) as client:
        await client.timer_set(FOREIGN_TOKEN, 600_000)
    bridge = BridgeProcess(tmp_path / "bridge", port=board.port, mqtt_port=broker.port)
    async with bridge:
        await owner.online()
        await bridge.open_session("chat")
        refused = await bridge.tool("chat", action="create", task="x", delay_s=60)
        assert refused.error["code"] == Code.MCU_TAKEN
        assert "independently programmed" in refused.error["reason"]
        assert (await bridge.tool(action="list")).result == []
        # A scheduled event is accepted all the same: it is due by the clock, armed or not (E50).
        await owner.schedule("a", **{"in": {"seconds": 0.5}})
        await owner.until(lambda: "independently" in owner.state["timer"]["timer_error"])
        assert owner.state["timer"]["ours"] is False
        await owner.until(lambda: len(owner.fired) == 1)
        timer = await bridge.timer()
        assert timer["token"] == FOREIGN_TOKEN
        assert timer["remaining_s"] == pytest.approx(600, abs=10)
        assert await bridge.stop() == 0
    async with asking(board.port) as client:
        await client.timer_cancel(FOREIGN_TOKEN)
    async with bridge:
        await bridge.said("countdown", error="")
        created = await bridge.tool("chat", action="create", task="x", delay_s=60)
        assert created.timer_error == ""


async def test_r9_r10_nothing_is_created_without_the_board_and_nothing_of_it_remains(
    board: DeskBoard, bridge: BridgeProcess
) -> None:
    await board.unplug()
    await bridge.said("board down")
    before = bridge.state_file.read_bytes()
    refused = await bridge.tool("chat", action="create", task="x", delay_s=60)
    assert refused.error["code"] == Code.MCU_UNAVAILABLE
    stranger = await bridge.tool("stranger", action="create", task="x", delay_s=60)
    assert stranger.error["code"] == Code.NO_SESSION  # what is wrong in itself is told first
    assert bridge.state_file.read_bytes() == before
    timer = await bridge.http("GET", "/api/mcu/timer")
    assert timer.status == 503
    await board.replug()
    await bridge.said("board up", after=bridge.mark() - 1)
    assert (await bridge.tool(action="list")).result == []


async def test_r8_what_is_saved_but_not_armed_says_so_until_the_countdown_was_read_back(
    board: DeskBoard, bridge: BridgeProcess
) -> None:
    created = await bridge.tool("chat", action="create", task="x", delay_s=600)
    assert created.timer_error == ""
    ident = created.result["id"]
    await board.unplug()
    await bridge.said("board down")
    updated = await bridge.tool(action="update", id=ident, task="y", delay_s=300)
    assert (updated.result["task"], updated.timer_error != "") == ("y", True)
    assert (await bridge.tool(action="list")).timer_error != ""
    mark = bridge.mark()
    await board.replug()
    await bridge.said("countdown", after=mark, state="armed", error="")  # kept on trying
    assert (await bridge.tool(action="list")).timer_error == ""
    assert (await bridge.timer())["remaining_s"] == pytest.approx(300, abs=15)
    cancelled = await bridge.tool(action="cancel", id=ident)
    assert (cancelled.result["status"], cancelled.timer_error) == ("cancelled", "")
    assert (await bridge.timer())["state"] == "idle"


async def test_r8_a_silent_board_is_told_in_time_and_not_waited_for(
    board: DeskBoard, bridge: BridgeProcess
) -> None:
    """It has its port open and says nothing: an answer does not wait for its retries."""
    created = await bridge.tool("chat", action="create", task="x", delay_s=600)
    board.line("to_host").muted = True
    updated = await bridge.tool(action="update", id=created.result["id"], task="y", delay_s=300)
    assert updated.timer_error != ""
    board.line("to_host").muted = False
    mark = bridge.mark()
    await bridge.said("countdown", after=mark, state="armed", error="")
    assert (await bridge.tool(action="list")).timer_error == ""
    assert (await bridge.timer())["remaining_s"] == pytest.approx(300, abs=15)


async def test_r46_by_hand_only_while_nobody_else_owns_it(
    bridge: BridgeProcess, owner: Owner
) -> None:
    set_by_hand = await bridge.http("PUT", "/api/mcu/timer", {"duration_s": 500})
    assert (set_by_hand.status, set_by_hand.body["state"]) == (200, "armed")
    assert (await bridge.timer())["remaining_s"] == pytest.approx(500, abs=5)
    for wrong in (0, 604_801, "7", None):
        assert (await bridge.http("PUT", "/api/mcu/timer", {"duration_s": wrong})).status == 400
    assert (await bridge.timer())["remaining_s"] == pytest.approx(500, abs=5)
    # A countdown by hand is an independent one for whoever wants to create a routine (R9).
    refused = await bridge.tool("chat", action="create", task="x", delay_s=60)
    assert refused.error["code"] == Code.MCU_TAKEN
    deleted = await bridge.http("DELETE", "/api/mcu/timer")
    assert (deleted.status, deleted.body["state"]) == (200, "idle")

    created = await bridge.tool("chat", action="create", task="x", delay_s=600)
    for method, body in (("PUT", {"duration_s": 5}), ("DELETE", None)):
        conflict = await bridge.http(method, "/api/mcu/timer", body)
        assert conflict.status == 409
        assert conflict.body["error"]["code"] == "CONFLICT"
    assert (await bridge.timer())["remaining_s"] == pytest.approx(600, abs=5)
    assert (await bridge.tool(action="cancel", id=created.result["id"])).timer_error == ""
    assert (await bridge.http("PUT", "/api/mcu/timer", {"duration_s": 700})).status == 200
    assert (await bridge.http("DELETE", "/api/mcu/timer")).status == 200


async def test_r45_an_early_wake_of_a_cancelled_one_is_harmless_and_only_what_is_due_runs(
    board: DeskBoard, bridge: BridgeProcess
) -> None:
    soon = (await bridge.tool("chat", action="create", task="x", delay_s=1)).result
    later = (await bridge.tool("chat", action="create", task="y", delay_s=600)).result
    pulses = board.wake_pulses()
    board.line("to_board").muted = True  # the disarming is lost: the board wakes all the same
    assert (await bridge.tool(action="cancel", id=soon["id"])).timer_error != ""
    await pulses.pulse(10)
    board.line("to_board").muted = False
    await bridge.said("board event", source=4)
    await bridge.said("countdown", after=bridge.mark() - 1, state="armed", error="")
    shown = {each["id"]: each for each in (await bridge.tool(action="list")).result}
    assert shown[soon["id"]]["status"] == "cancelled"
    assert (shown[later["id"]]["status"], shown[later["id"]]["run_count"]) == ("scheduled", 0)
    assert (await bridge.timer())["remaining_s"] == pytest.approx(600, abs=20)
