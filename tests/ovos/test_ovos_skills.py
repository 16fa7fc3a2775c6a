"""Real OVOSSkills of both vintages, unchanged, with the bridge in place of their scheduler."""

import asyncio
import contextlib
import itertools
import time
from pathlib import Path
from typing import Any

import pytest

from ovos_bridge import BridgeProcess, bridge
from ovos_envs import STABLE
from ovos_processes import Listener, OvosBus, Skill, SkillRaised
from wakebridge.schedule.instants import parse_instant


def due_of(fire: dict[str, Any]) -> float:
    return parse_instant(fire["context"]["scheduler"]["due"]) / 1e9


async def accepted(ear: Listener) -> None:
    """Return when the bridge has taken the request that a skill just made."""
    await ear.next("ovos.scheduler.schedule.response", "mycroft.scheduler.schedule_event")
    # The older protocol has no answer; the bridge serves a list after what came before it.
    await ear.ask("mycroft.scheduler.list_events")


async def test_a_one_shot_reaches_its_handler_on_time(bus: OvosBus, tmp_path: Path) -> None:
    async with bridge(bus.port, tmp_path / "s.db"), Skill(bus) as skill:
        began = time.time()
        await skill.call("schedule_event", handler="ring", when=1, data={"n": 1}, name="wake")
        fire = await skill.fired()
        assert (fire["fired"], fire["data"]) == ("ring", {"n": 1})
        assert fire["context"]["skill_id"] == "demo.skill"
        assert due_of(fire) == pytest.approx(began + 1, abs=0.7)
        assert time.time() - due_of(fire) < 0.5


async def test_a_one_shot_at_a_moment_and_without_a_name(bus: OvosBus, tmp_path: Path) -> None:
    async with bridge(bus.port, tmp_path / "s.db"), Skill(bus) as skill:
        began = time.time()
        await skill.call("schedule_event", handler="ring", in_s=0.8)
        fire = await skill.fired()
        assert due_of(fire) == pytest.approx(began + 0.8, abs=0.2)
        assert fire["data"] == {}


async def test_a_repeating_event_keeps_its_phase_until_it_is_cancelled(
    bus: OvosBus, tmp_path: Path
) -> None:
    async with bridge(bus.port, tmp_path / "s.db"), Skill(bus) as skill:
        every = {"frequency": 0.5, "name": "beat", "data": {"n": 1}}
        await skill.call("schedule_repeating_event", handler="tick", when=None, **every)
        dues = [due_of(await skill.fired()) for _ in range(4)]
        gaps = [later - earlier for earlier, later in itertools.pairwise(dues)]
        assert gaps == pytest.approx([0.5] * 3, abs=1e-6)
        async with Listener(bus.url) as ear:
            await skill.call("cancel_scheduled_event", name="beat")
            await ear.next("ovos.scheduler.cancel.response", "mycroft.scheduler.remove_event")
            listed = await ear.ask("ovos.scheduler.list", {}, {"skill_id": "demo.skill"})
            assert listed["data"]["schedules"] == []


async def test_a_repeating_event_from_now_on_begins_now(bus: OvosBus, tmp_path: Path) -> None:
    """Its first moment has passed when the request arrives; it counts all the same."""
    async with bridge(bus.port, tmp_path / "s.db"), Skill(bus) as skill:
        await skill.call(
            "schedule_repeating_event", handler="tick", in_s=0, frequency=3600, name="beat"
        )
        await skill.fired(timeout_s=3)


async def test_an_update_changes_the_data_and_neither_moment_nor_context(
    bus: OvosBus, tmp_path: Path
) -> None:
    async with bridge(bus.port, tmp_path / "s.db"), Skill(bus) as skill, Listener(bus.url) as ear:
        # A stable skill passes its caller's context on only when it handles a message itself.
        await skill.call("schedule_event", handler="ring", when=1.5, data={"n": 1}, name="wake")
        await accepted(ear)
        pairs = (await ear.ask("ovos.scheduler.list", {}, {"skill_id": "demo.skill"}))["data"]
        (before,) = pairs["schedules"]
        await skill.call("update_scheduled_event", name="wake", data={"n": 2})
        fire = await skill.fired()
        assert fire["data"] == {"n": 2}
        stored_session = before["record"]["context"]["session"]["session_id"]
        assert fire["context"]["session"]["session_id"] == stored_session
        assert due_of(fire) == pytest.approx(parse_instant(before["state"]["next"]) / 1e9, abs=1e-6)
        assert skill.fires.empty()


async def test_the_time_that_is_left(bus: OvosBus, tmp_path: Path) -> None:
    """The stable skill cannot read any object, and the bus can carry nothing else.

    With the stock scheduler it waits in vain and raises; here it raises at once.
    """
    async with bridge(bus.port, tmp_path / "s.db"), Skill(bus) as skill:
        await skill.call("schedule_event", handler="ring", when=100, name="wake")
        if bus.vintage is STABLE:
            with pytest.raises(SkillRaised):
                await skill.call("get_scheduled_event_status", name="wake")
        else:
            assert await skill.call("get_scheduled_event_status", name="wake") in {98, 99, 100}
            assert await skill.call("get_scheduled_event_status", name="other") is None


async def test_one_shots_and_repeating_events_survive_kill_9_of_the_bridge(
    bus: OvosBus, tmp_path: Path
) -> None:
    """E50, E51, with the real daemon."""
    beat = {"handler": "tick", "when": None, "frequency": 1, "name": "beat", "data": {"n": 2}}
    async with Listener(bus.url) as ear, contextlib.AsyncExitStack() as stack:
        with BridgeProcess(bus.port, tmp_path):
            await ear.next("ovos.scheduler.ready")
            skill = await stack.enter_async_context(Skill(bus))
            await skill.call("schedule_event", handler="ring", when=3, data={"n": 1}, name="wake")
            await accepted(ear)
            await skill.call("schedule_repeating_event", **beat)
            first = await skill.fired()
        with BridgeProcess(bus.port, tmp_path):
            ready = await ear.next("ovos.scheduler.ready")
            assert ready["data"]["schedules"] == 2
            fires = [await skill.fired() for _ in range(4)]
    rings = [fire for fire in fires if fire["fired"] == "ring"]
    assert [fire["data"] for fire in rings] == [{"n": 1}]
    dues = [due_of(fire) for fire in fires if fire["fired"] == "tick"]
    assert (dues[0] - due_of(first)) % 1 == pytest.approx(0, abs=1e-6), "the phase is kept"


async def test_what_a_skill_asked_for_fires_while_it_is_away_and_when_it_is_back(
    bus: OvosBus, tmp_path: Path
) -> None:
    """E55: the owner's absence changes nothing; E6: its return does not shift the phase."""
    async with bridge(bus.port, tmp_path / "s.db"), Listener(bus.url) as ear:
        beat = {"handler": "tick", "when": None, "frequency": 1, "name": "beat"}
        async with Skill(bus) as skill:
            await skill.call("schedule_repeating_event", **beat)
            first = await skill.fired()
        await ear.next("demo.skill:beat", "demo.skill.beat")
        await ear.next("demo.skill:beat", "demo.skill.beat")
        async with Skill(bus) as skill:
            await skill.call("schedule_repeating_event", **beat)
            again = await skill.fired()
            moved_s = (due_of(again) - due_of(first)) % 1
            if bus.vintage is STABLE:
                assert moved_s == pytest.approx(0, abs=1e-6)
            listed = await ear.ask("ovos.scheduler.list", {}, {"skill_id": "demo.skill"})
            assert len(listed["data"]["schedules"]) == 1, "E54"


async def test_a_skill_keeps_the_new_protocol_although_the_bus_restarts(
    own_bus: OvosBus, tmp_path: Path
) -> None:
    async with bridge(own_bus.port, tmp_path / "s.db"), Skill(own_bus) as skill:
        async with Listener(own_bus.url) as ear:
            await skill.call("schedule_event", handler="ring", when=9, name="wake")
            await accepted(ear)
        own_bus.kill()
        await asyncio.to_thread(own_bus.start)
        # The stable client waits five seconds before it connects again.
        fire = await skill.fired(timeout_s=15)
        assert fire["fired"] == "ring"
