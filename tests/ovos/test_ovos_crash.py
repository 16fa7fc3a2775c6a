"""E51 on a real message bus: `kill -9` of the real daemon in the middle of a storm of fires."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ovos_bridge import BridgeProcess
from ovos_processes import Listener, OvosBus

STORM = 600
OWNER = {"skill_id": "storm"}


async def test_e51_no_fire_is_lost_and_at_most_one_repeated(bus: OvosBus, tmp_path: Path) -> None:
    fired: Counter[str] = Counter()
    async with Listener(bus.url) as ear:
        with BridgeProcess(bus.port, tmp_path):
            await ear.next("ovos.scheduler.ready")
            due = (datetime.now(UTC) + timedelta(seconds=2)).isoformat()
            for n in range(STORM):
                schedule = {"id": f"s{n}", "event": "storm.s", "at": due, "grace_s": 600}
                await ear.say("ovos.scheduler.schedule", schedule, OWNER)
            for _ in range(STORM):
                answer = await ear.next("ovos.scheduler.schedule.response")
                assert answer["data"]["ok"]
            for _ in range(STORM // 3):
                fire = await ear.next("storm.s")
                fired[fire["context"]["scheduler"]["id"]] += 1
        with BridgeProcess(bus.port, tmp_path):
            ready = await ear.next("ovos.scheduler.ready", "storm.s")
            while ready["type"] == "storm.s":  # what had left before the end
                fired[ready["context"]["scheduler"]["id"]] += 1
                ready = await ear.next("ovos.scheduler.ready", "storm.s")
            left = ready["data"]["schedules"]
            assert left < STORM, "it was killed in the middle"
            for _ in range(left):
                fire = await ear.next("storm.s")
                fired[fire["context"]["scheduler"]["id"]] += 1
            listed = await ear.ask("ovos.scheduler.list", {}, OWNER)
            assert listed["data"]["schedules"] == []
    assert len(fired) == STORM
    assert sum(fired.values()) <= STORM + 1
