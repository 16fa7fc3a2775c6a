"""Who owns the countdown: people while nobody else does, then the routines (R8, R9, R46)."""

import pytest

from bridges import BridgeProcess
from wakebridge.simboard import DeskBoard

LATER = {"action": "create", "task": "x", "delay_s": 600}


async def set_by_hand(bridge: BridgeProcess, duration_s: float) -> int:
    return (await bridge.http("PUT", "/api/mcu/timer", {"duration_s": duration_s})).status


async def test_r46_the_timer_is_a_persons_while_nobody_owns_it_and_409_afterwards(
    bridge: BridgeProcess,
) -> None:
    assert (await bridge.timer())["state"] == "idle"
    put = await bridge.http("PUT", "/api/mcu/timer", {"duration_s": 90.5})
    assert (put.status, put.body["state"]) == (200, "armed")
    assert put.body["remaining_s"] == pytest.approx(90.5, abs=1)
    assert (await bridge.timer())["token"] == put.body["token"]
    gone = await bridge.http("DELETE", "/api/mcu/timer")
    assert (gone.status, gone.body["state"]) == (200, "idle")

    created = (await bridge.tool("chat", **LATER)).result
    armed = await bridge.timer()
    for method, body in (("PUT", {"duration_s": 5}), ("DELETE", None)):
        refused = await bridge.http(method, "/api/mcu/timer", body)
        assert (refused.status, refused.body["error"]["code"]) == (409, "CONFLICT")
        assert "schedules own the countdown" in refused.body["error"]["reason"]
    after = await bridge.timer()
    assert after["token"] == armed["token"]
    assert after["remaining_s"] <= armed["remaining_s"]

    await bridge.tool(action="cancel", id=created["id"])
    assert (await bridge.timer())["state"] == "idle"
    assert await set_by_hand(bridge, 5) == 200


async def test_r9_creation_fails_while_an_independently_programmed_timer_runs(
    bridge: BridgeProcess,
) -> None:
    """It is left alone, the state untouched; what was there before says so in `timer_error`."""
    assert await set_by_hand(bridge, 60) == 200
    live = await bridge.timer()
    before = bridge.state_file.read_bytes()
    refused = await bridge.tool("chat", **LATER)
    assert refused.error["code"] == "mcu_taken"
    assert "independently programmed" in refused.error["reason"]
    assert bridge.state_file.read_bytes() == before
    assert (await bridge.timer())["token"] == live["token"]
    assert (await bridge.tool(action="list")).timer_error == ""  # nothing is planned

    assert (await bridge.http("DELETE", "/api/mcu/timer")).status == 200
    created = await bridge.tool("chat", **LATER)
    assert created.timer_error == ""


async def test_r8_an_update_under_a_foreign_timer_is_saved_and_says_that_it_will_not_wake(
    bridge: BridgeProcess,
) -> None:
    created = (await bridge.tool("chat", **LATER)).result
    await bridge.tool(action="cancel", id=created["id"])
    assert await set_by_hand(bridge, 1.5) == 200
    mark = bridge.mark()
    update = {"action": "update", "id": created["id"], "task": "again", "delay_s": 600}
    updated = await bridge.tool(**update)
    assert updated.result["status"] == "scheduled"
    assert "independently programmed" in updated.timer_error
    # The service keeps trying: when the other countdown has run out, ours is armed.
    await bridge.said("countdown", after=mark, state="armed", error="")
    assert (await bridge.tool(action="list")).timer_error == ""


async def test_r8_r9_without_the_board_nothing_is_created_and_what_is_saved_says_so(
    board: DeskBoard, bridge: BridgeProcess
) -> None:
    created = (await bridge.tool("chat", **LATER)).result
    await board.unplug()
    await bridge.said("board down")
    before = bridge.state_file.read_bytes()
    refused = await bridge.tool("chat", **LATER)
    assert refused.error["code"] == "mcu_unavailable"
    assert bridge.state_file.read_bytes() == before
    timer = await bridge.http("GET", "/api/mcu/timer")
    assert (timer.status, timer.body["error"]["code"]) == (503, "mcu_unavailable")
    for method in ("PUT", "DELETE"):
        status = (await bridge.http(method, "/api/mcu/timer", {"duration_s": 5})).status
        assert status in (409, 503)

    updated = await bridge.tool(action="update", id=created["id"], task="y", delay_s=300)
    assert updated.result["task"] == "y"
    assert updated.timer_error != ""
    listed = await bridge.tool(action="list")
    assert [each["task"] for each in listed.result] == ["y"]
    assert listed.timer_error != ""

    mark = bridge.mark()
    await board.replug()
    await bridge.said("countdown", after=mark, state="armed", error="")
    assert (await bridge.tool(action="list")).timer_error == ""
