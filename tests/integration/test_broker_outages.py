"""The broker is gone at the due instant: grace decides, once, when it is back (E40, E41, E42)."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bridges import BridgeProcess, Owner
from brokers import Mosquitto, MosquittoFactory
from wakebridge.simboard import DeskBoard


def in_s(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def until(moment: datetime) -> None:
    """Let real time pass: it is a due instant that has to go by without a broker."""
    await asyncio.sleep(max(0.0, (moment - datetime.now(UTC)).total_seconds()))


async def test_back_within_the_grace_fires_on_time_and_after_it_the_policy_decides_e40_e41_e42(
    bridge: BridgeProcess, broker: Mosquitto, owner: Owner
) -> None:
    graceful = await owner.schedule("graceful", at=in_s(1))
    series = await owner.schedule("series", every={"seconds": 0.5}, count=3)
    late = await owner.schedule("late", at=in_s(1), grace_s=0.2)
    await owner.schedule("skipped", at=in_s(1), grace_s=0.2, misfire="skip")
    latest = await owner.schedule("latest", every={"seconds": 0.4}, count=3, grace_s=0)
    await asyncio.to_thread(broker.stop)
    await until(instant(graceful) + timedelta(seconds=1.5))
    await asyncio.to_thread(broker.start)
    await owner.until(lambda: len(owner.fired) >= 6)
    # Whatever else was to come has come before the answer to this.
    assert (await owner.ask("get", {"id": "skipped"}))["existed"] is False

    fires = {each: owner.fires_of(each) for each in ("graceful", "series", "late", "skipped")}
    assert [fired.due for fired in fires["graceful"]] == [graceful]
    assert [instant(fired.due) - instant(series) for fired in fires["series"]] == [
        timedelta(seconds=n * 0.5) for n in range(3)
    ]
    assert [fired.due for fired in fires["late"]] == [late]
    assert fires["skipped"] == []
    assert [instant(fired.due) - instant(latest) for fired in owner.fires_of("latest")] == [
        timedelta(seconds=0.8)
    ]
    assert not any(fired.retained for fired in owner.fired)  # A16 r3
    reported = {each.id: each for each in owner.missed}
    assert len(owner.missed) == 3
    assert reported["late"].fired_late == late
    assert reported["skipped"].fired_late is None
    assert len(reported["latest"].missed) == 3
    assert reported["latest"].next is None
    for missed in owner.missed:  # E41: told before the late fire
        assert missed.id not in {fired.id for fired in owner.fired[: missed.before]}


async def test_a_bridge_that_starts_without_a_broker_serves_the_rest_and_fires_when_it_comes(
    board: DeskBoard, mosquitto: MosquittoFactory, tmp_path: Path
) -> None:
    """E31, E33: nothing of it depends on the order in which a host starts its services."""
    broker = mosquitto(persistence=True)
    await asyncio.to_thread(broker.stop)
    bridge = BridgeProcess(tmp_path / "bridge", port=board.port, mqtt_port=broker.port)
    async with bridge:
        body = {
            "data": {"id": "a", "event": "demo.a", "in": {"seconds": 0.5}},
            "context": {"skill_id": "demo"},
        }
        answer = (await bridge.http("POST", "/api/scheduler/schedule", body)).body
        assert answer["ok"], answer
        await until(instant(answer["next"]) + timedelta(seconds=0.3))
        assert bridge.all_said("fired") == []
        health = await bridge.health()
        assert health["events"]["buses"] == {"mqtt": False}
        # The held event is not what the board is armed for: it would wake the host for nothing.
        assert health["timer"]["wakes_for"] is None
        await asyncio.to_thread(broker.start)
        await bridge.said("fired", id="a")
        async with Owner(broker.port) as owner:
            await owner.online()
            assert owner.fired == []  # heard by nobody, and not retained: E33, A16 r3
