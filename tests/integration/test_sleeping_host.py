"""The host sleeps over the due instant, and the board's wake line is what wakes it.

SIGSTOP stands for the suspended host, SIGCONT at the pulse for its wake: of what really happens,
only the clocks are missing, which go on in both.
"""

import asyncio
import os
import signal
from datetime import datetime
from pathlib import Path

import pytest

from bridges import BridgeProcess, Journal, Owner
from brokers import Mosquitto
from wakebridge.simboard import DeskBoard


def wall_s(instant: str) -> float:
    return datetime.fromisoformat(instant).timestamp()


async def test_the_pulse_wakes_the_host_and_then_everything_due_happens_once_e31_r40(
    board: DeskBoard, bridge: BridgeProcess, owner: Owner, journal: Journal
) -> None:
    created = (await bridge.tool("chat", action="create", task="x", delay_s=3)).result
    due = await owner.schedule("a", at=created["next_run"])
    await owner.schedule("later", **{"in": {"seconds": 3600}})
    await bridge.at_rest()
    pulses = board.wake_pulses()
    os.kill(bridge.pid, signal.SIGSTOP)
    pulse = await pulses.pulse(10)
    os.kill(bridge.pid, signal.SIGCONT)
    await owner.until(lambda: len(owner.fired) == 1)
    await bridge.said("routine", id=created["id"], status="completed")
    assert pulse.wall_ns / 1e9 == pytest.approx(wall_s(due), abs=0.5)
    assert owner.fired[0].key == ("a", due)
    assert wall_s(owner.fired[0].fired) - wall_s(due) < 1
    assert journal.runs() == [created["id"]]
    assert (await bridge.at_rest())["timer"]["timer_error"] == ""
    assert bridge.all_said("board down") == []
    assert owner.statuses == ["online"]
    print(f"figures: fired {(wall_s(owner.fired[0].fired) - wall_s(due)) * 1000:.1f} ms after due")


async def test_with_a_lead_the_host_is_up_before_the_due_instant_and_fires_at_it(
    board: DeskBoard, broker: Mosquitto, owner: Owner, tmp_path: Path
) -> None:
    bridge = BridgeProcess(tmp_path / "bridge", port=board.port, mqtt_port=broker.port)
    bridge.config["wake"] = {"lead_s": 1.5}
    async with bridge:
        await owner.online()
        due = await owner.schedule("a", **{"in": {"seconds": 3}})
        await bridge.said("countdown", state="armed", error="")
        pulses = board.wake_pulses()
        os.kill(bridge.pid, signal.SIGSTOP)
        first = await pulses.pulse(10)
        await asyncio.sleep(0.7)  # what a host takes to resume
        os.kill(bridge.pid, signal.SIGCONT)
        await owner.until(lambda: len(owner.fired) == 1)
    assert first.wall_ns / 1e9 == pytest.approx(wall_s(due) - 1.5, abs=0.5)
    assert 0 <= wall_s(owner.fired[0].fired) - wall_s(due) < 0.1


async def test_a_host_that_finds_its_broker_restarted_when_it_wakes_fires_and_answers(
    board: DeskBoard, bridge: BridgeProcess, broker: Mosquitto, owner: Owner
) -> None:
    """Its connection is gone and it does not know; the broker has kept what was asked meanwhile."""
    due = await owner.schedule("a", **{"in": {"seconds": 2.5}})
    await bridge.said("countdown", state="armed", error="")
    pulses = board.wake_pulses()
    os.kill(bridge.pid, signal.SIGSTOP)
    await asyncio.to_thread(broker.stop)
    await asyncio.to_thread(broker.start)
    asked = asyncio.create_task(owner.ask("list", {}))
    await pulses.pulse(10)
    os.kill(bridge.pid, signal.SIGCONT)
    await owner.until_fired(1)
    assert owner.fired[0].key == ("a", due)
    assert wall_s(owner.fired[0].fired) - wall_s(due) < 1
    assert (await asked)["ok"]
    assert owner.statuses[-1] == "online"
    assert len(owner.fired) == 1
