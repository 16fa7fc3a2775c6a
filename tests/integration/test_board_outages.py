"""The board loses power, its cable, its firmware or its mind; the plan stands (cases A10, A11)."""

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bridges import BridgeProcess, Journal, Owner
from wakebridge.simboard import DeskBoard

HALF_FRAME = bytes.fromhex("a2626964")


def wall_s(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp()


def left_s(due: str) -> float:
    return wall_s(due) - datetime.now(UTC).timestamp()


async def until_wall(instant_s: float) -> None:
    """Let real time pass: what must not happen by then announces itself to nobody."""
    await asyncio.sleep(max(0.0, instant_s - time.time()))


async def until_armed(bridge: BridgeProcess, owner: Owner, *, after: int) -> float:
    """Return how many seconds the board has left, once it was armed after that mark."""
    line = await bridge.said("countdown", after=after, state="armed", error="")
    return float(line["remaining_ms"]) / 1000


async def test_a10_r2_power_loss_while_armed_is_rearmed_for_the_remaining_time_r49(
    board: DeskBoard, bridge: BridgeProcess, owner: Owner
) -> None:
    due = await owner.schedule("a", **{"in": {"seconds": 5}})
    await bridge.said("countdown", state="armed", error="")
    pulses = board.wake_pulses()
    mark = bridge.mark()
    await board.power_loss(off_s=0.3)
    back_s = time.monotonic()
    up = await bridge.said("board up", after=mark)
    remaining_s = await until_armed(bridge, owner, after=mark)
    assert time.monotonic() - back_s < 5
    assert remaining_s == pytest.approx(left_s(due), abs=1)
    assert up["boot_id"] != bridge.all_said("board up")[0]["boot_id"]
    pulse = await pulses.pulse(10)
    await owner.until(lambda: len(owner.fired) == 1)
    assert pulse.wall_ns / 1e9 == pytest.approx(wall_s(due), abs=1)
    assert wall_s(owner.fired[0].fired) - wall_s(due) < 1
    assert owner.fired[0].due == due
    assert owner.missed == []


async def test_a10_r3_a_host_restarted_before_the_wake_keeps_the_countdown_r44(
    board: DeskBoard, bridge: BridgeProcess, owner: Owner
) -> None:
    due = await owner.schedule("a", **{"in": {"seconds": 3}})
    armed = await bridge.said("countdown", state="armed", error="")
    await bridge.kill()
    await bridge.start()
    again = await bridge.said("countdown", state="armed", error="")
    # The matching countdown runs on: it was read, and not set anew.
    assert again["token"] == armed["token"]
    assert (await bridge.health())["board"]["link"]["requests"] == 3
    assert (await bridge.timer())["remaining_s"] == pytest.approx(left_s(due), abs=1)
    await owner.until(lambda: len(owner.fired) == 1)
    assert owner.fired[0].key == ("a", due)
    assert wall_s(owner.fired[0].fired) - wall_s(due) < 1


async def test_a10_r1_after_each_fire_the_next_one_is_armed_never_one_in_the_past_r44(
    board: DeskBoard, bridge: BridgeProcess, owner: Owner
) -> None:
    first = await owner.schedule("a", every={"seconds": 1.2}, count=3)
    pulses = board.wake_pulses()
    for number in range(3):
        pulse = await pulses.pulse(10)
        assert pulse.wall_ns / 1e9 == pytest.approx(wall_s(first) + 1.2 * number, abs=1)
    await owner.until(lambda: len(owner.fired) == 3)
    due_s = [wall_s(fired.due) - wall_s(first) for fired in owner.fired]
    assert due_s == pytest.approx([0, 1.2, 2.4])
    armed = bridge.all_said("countdown", state="armed", error="")
    assert len(armed) == 3  # once for each occurrence
    for line in armed:
        assert 0 < line["remaining_ms"] <= 1300


async def test_r44_polling_never_restarts_a_matching_countdown_also_not_of_a_delay_e5(
    board: DeskBoard, bridge: BridgeProcess, owner: Owner
) -> None:
    await owner.schedule("a", **{"in": {"seconds": 60}})
    await owner.schedule("b", **{"in": {"seconds": 70}})
    await owner.until_timer(state="armed", timer_error="")
    before, mark = await bridge.at_rest(), bridge.mark()
    for _ in range(20):  # each one has the countdown read back
        assert (await bridge.tool(action="list")).timer_error == ""
    after = await bridge.health()
    assert after["timer"]["token"] == before["timer"]["token"]
    assert bridge.all_said("countdown", after=mark) == []
    requests = after["board"]["link"]["requests"] - before["board"]["link"]["requests"]
    assert requests == 2 * 20  # timer_get and events_get, and never timer_set


async def test_r43_unplugged_over_a_due_routine_nothing_runs_and_then_exactly_one_run(
    board: DeskBoard, bridge: BridgeProcess, journal: Journal
) -> None:
    created = (await bridge.tool("chat", action="create", task="x", delay_s=1)).result
    await board.unplug()
    await bridge.said("board down")
    await until_wall(wall_s(created["next_run"]) + 1.5)
    listed = await bridge.tool(action="list")
    assert listed.result[0]["status"] == "scheduled"
    assert listed.timer_error != ""
    assert journal.runs() == []
    await board.replug()
    await bridge.said("routine", status="completed")
    assert journal.runs() == journal.runs("end") == [created["id"]]
    done = await bridge.routine(created["id"])
    assert (done["status"], done["run_count"]) == ("completed", 1)
    assert done["latest_run"]["due"] == created["next_run"]


async def test_r43_r49_without_power_over_a_due_routine_it_runs_once_when_the_board_is_back(
    board: DeskBoard, bridge: BridgeProcess, journal: Journal
) -> None:
    """The countdown is gone with the power, so the overdue target is armed anew."""
    created = (await bridge.tool("chat", action="create", task="x", delay_s=1)).result
    losing = asyncio.create_task(board.power_loss(off_s=2.2))
    await until_wall(wall_s(created["next_run"]) + 0.8)
    assert journal.runs() == []
    await losing
    await bridge.said("routine", status="completed")
    assert journal.runs() == journal.runs("end") == [created["id"]]
    assert (await bridge.tool(action="list")).timer_error == ""


async def test_r42_a_wake_while_no_bridge_runs_is_found_in_the_log_at_the_start(
    board: DeskBoard, bridge: BridgeProcess, journal: Journal
) -> None:
    created = (await bridge.tool("chat", action="create", task="x", delay_s=1)).result
    pulses = board.wake_pulses()
    await bridge.kill()
    await pulses.pulse(10)
    await bridge.start()
    await bridge.said("routine", status="completed")
    await bridge.kill()
    await bridge.start()
    await bridge.said("countdown")
    assert journal.runs() == [created["id"]]
    assert (await bridge.routine(created["id"]))["run_count"] == 1


async def test_a11_unplug_with_half_a_frame_and_replug_as_another_device(
    board: DeskBoard, bridge: BridgeProcess, owner: Owner
) -> None:
    due = await owner.schedule("a", **{"in": {"seconds": 7}})
    await bridge.said("countdown", state="armed", error="")
    mark = bridge.mark()
    board.inject("to_host", HALF_FRAME)
    await board.unplug()
    await bridge.said("board down", after=mark)
    cpu_before_s = cpu_s(bridge.pid)
    attempts = (await bridge.health())["board"]["open_attempts"]
    await asyncio.sleep(4)
    assert cpu_s(bridge.pid) - cpu_before_s < 0.4  # A11: below 1 s in 10 s
    assert (await bridge.health())["board"]["open_attempts"] - attempts <= 8  # A11: 20 in 10 s
    await board.replug()
    replugged_s = time.monotonic()
    up = await bridge.said("board up", after=mark)
    assert time.monotonic() - replugged_s < 3
    assert up["boot_id"] == bridge.all_said("board up")[0]["boot_id"]
    await bridge.said("countdown", after=mark, state="armed", error="")
    link = (await bridge.health())["board"]["link"]
    assert link["requests"] == 3  # hello, timer_get, events_get: it agrees and is left alone
    assert link["crc_errors"] == link["malformed"] == link["retries"] == 0
    assert len(bridge.all_said("board down")) == 1
    await owner.until(lambda: len(owner.fired) == 1)
    assert owner.fired[0].key == ("a", due)
    assert wall_s(owner.fired[0].fired) - wall_s(due) < 1


def cpu_s(pid: int) -> float:
    """Return the processor time a process has used."""
    return time.clock_gettime(~pid << 3 | 2)  # the kernel's clock id of another process


async def exact_remaining_s(bridge: BridgeProcess) -> float:
    """Return what is left once the board has been set right, which it must be within 5 s."""
    async with asyncio.timeout(5):
        while True:
            read = await bridge.http("GET", "/api/mcu/timer")
            if (
                read.status == 200
                and read.body["state"] == "armed"
                and not read.body["approximate"]
            ):
                return float(read.body["remaining_s"])
            await asyncio.sleep(0.05)  # the board may restart once more; nothing announces that


@pytest.mark.parametrize("how", ["soft_reset", "hard_reset"])
async def test_a_reset_board_is_rearmed_exactly_and_the_wake_is_on_time(
    how: str, board: DeskBoard, bridge: BridgeProcess, owner: Owner
) -> None:
    """The checkpoint brings the countdown back roughly; the bridge sets it right."""
    due = await owner.schedule("a", **{"in": {"seconds": 3}})
    await bridge.said("countdown", state="armed", error="")
    pulses = board.wake_pulses()
    mark = bridge.mark()
    await getattr(board, how)()
    await bridge.said("board up", after=mark)
    assert await exact_remaining_s(bridge) == pytest.approx(left_s(due), abs=1)
    pulse = await pulses.pulse(10)
    assert pulse.wall_ns / 1e9 == pytest.approx(wall_s(due), abs=1)
    await owner.until(lambda: len(owner.fired) == 1)
    assert owner.fired[0].key == ("a", due)


async def test_a12_a_firmware_left_at_a_bare_prompt_is_started_again(
    board: DeskBoard, bridge: BridgeProcess, owner: Owner
) -> None:
    due = await owner.schedule("a", **{"in": {"seconds": 3}})
    await bridge.said("countdown", state="armed", error="")
    mark = bridge.mark()
    await board.stop_at_prompt()
    assert board.at_prompt
    await bridge.said("board up", after=mark)
    assert await exact_remaining_s(bridge) == pytest.approx(left_s(due), abs=1)
    assert not board.at_prompt
    await owner.until(lambda: len(owner.fired) == 1)
    assert owner.fired[0].key == ("a", due)


async def test_a_link_that_comes_and_goes_leaves_nothing_behind(
    board: DeskBoard, bridge: BridgeProcess, owner: Owner
) -> None:
    await owner.schedule("a", **{"in": {"seconds": 3600}})
    before = await bridge.at_rest()
    opened = open_files(bridge.pid)
    for _ in range(6):
        mark = bridge.mark()
        await board.unplug()
        await bridge.said("board down", after=mark)
        await board.replug()
        await bridge.said("countdown", after=mark, state="armed", error="")
    after = await bridge.at_rest()
    assert open_files(bridge.pid) <= opened
    assert after["timer"]["token"] == before["timer"]["token"]


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
