"""What a `kill -9` leaves and how a start replays it, seen from outside (E5, E40, E41, E50 to E55).

One story for all of these tests: schedules of every kind are accepted over both transports, some
fire, the bridge is killed, time passes, it starts again, and everything heard is looked at.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from conformance.conftest import World
from conformance.ears import Ear, Message
from conformance.instants import in_s, moment

DOWN_S = 1.0
"""How long the bridge is away at least."""


@dataclass
class Story:
    """What happened on one transport."""

    owner: str
    ear: Ear
    dues: dict[str, str] = field(default_factory=dict)
    """The instants that were answered."""
    before: list[Message] = field(default_factory=list)
    after: list[Message] = field(default_factory=list)
    """What was heard before the crash, and after it."""
    listed: list[str] = field(default_factory=list)
    states: dict[str, Any] = field(default_factory=dict)
    """What the bridge said after the replay."""

    async def prepare(self) -> None:
        """Have one schedule of each kind accepted."""
        soon = in_s(0.8).isoformat()
        later = in_s(4.0).isoformat()
        every = {"seconds": 0.3, "start": in_s(0.8).isoformat()}
        kinds: dict[str, dict[str, Any]] = {
            "late": {"at": soon, "grace_s": 0, "data": {"n": 1}},
            "skip": {"at": soon, "grace_s": 0, "misfire": "skip"},
            "graceful": {"at": soon, "misfire": "skip"},
            "delay": {"in": {"seconds": 4.0}},
            "ephemeral": {"at": later, "ephemeral": True},
            "cancelled": {"at": later},
            "replaced": {"at": soon},
            "daily": {"local": {"time": "12:34", "zone": "Europe/Lisbon"}},
            "counted": {"every": every, "count": 20, "grace_s": 0},
            "fired": {"at": in_s(0.3).isoformat()},
            "hourly": {"every": {"seconds": 3600, "start": in_s(0.3).isoformat()}},
        }
        for name, fields in kinds.items():
            self.dues[name] = await self.ear.schedule(self.owner, name, **fields)
        await self.ear.fired(self.owner, "fired")
        await self.ear.fired(self.owner, "hourly")
        assert (await self.ear.ask("cancel", {"id": "cancelled"}, self.owner))["existed"]
        self.dues["replaced"] = await self.ear.schedule(self.owner, "replaced", at=later)
        await self.ear.fence()

    async def look(self) -> None:
        """Hear the replay to its end, and ask what is left."""
        await self.ear.fired(self.owner, "delay")
        await self.ear.fired(self.owner, "replaced")
        await self.ear.fence()
        self.listed = await self.ear.listed(self.owner)
        for name in ("daily", "counted", "hourly"):
            self.states[name] = await self.ear.state(self.owner, name)
            await self.ear.ask("cancel", {"id": name}, self.owner)

    def fires(self, name: str) -> list[Message]:
        """Return the fires of a schedule after the crash."""
        return [m for m in self.after if m.type == f"{self.owner}.{name}"]

    def missed(self, name: str) -> list[Any]:
        """Return the reports about a schedule after the crash."""
        told = [m.data for m in self.after if m.type == "ovos.scheduler.missed"]
        return [d for d in told if (d["skill_id"], d["id"]) == (self.owner, name)]


@pytest.fixture(scope="module")
def stories(world: World) -> dict[str, Story]:
    """Let it all happen, once, on both transports at the same time."""
    return asyncio.run(_happen(world))


async def _happen(world: World) -> dict[str, Story]:
    async with world.ears() as ears:
        told = {name: Story(f"story.{name}.conf", ear) for name, ear in ears.items()}
        await asyncio.gather(*(each.prepare() for each in told.values()))
        marks = {name: ear.mark() for name, ear in ears.items()}
        world.bridge.kill()
        soon = max(moment(each.dues["counted"]) for each in told.values())
        wait_s = (soon - in_s(0)).total_seconds() + DOWN_S
        await asyncio.sleep(max(wait_s, DOWN_S))
        await world.start(*ears.values())
        await asyncio.gather(*(each.look() for each in told.values()))
        for name, story in told.items():
            heard = ears[name].heard
            story.before, story.after = heard[: marks[name]], heard[marks[name] :]
        return told


@pytest.fixture(params=["mqtt", "ovos"])
def story(stories: dict[str, Story], request: pytest.FixtureRequest) -> Story:
    """What happened on each transport."""
    return stories[request.param]


def test_ready_then_missed_then_the_late_fires_e53(story: Story) -> None:
    order = [m.type for m in story.after if m.type != "connected"]
    assert order[0] == "ovos.scheduler.ready"
    ready = story.after[0].data
    # Of each transport: late, skip and counted; graceful is not late by its grace.
    assert (ready["missed"], ready["clock"]) == (6, "synchronized")
    assert ready["schedules"] >= 14
    first_fire = min(n for n, kind in enumerate(order) if kind.startswith(story.owner))
    assert first_fire > 0
    assert order.count("ovos.scheduler.ready") == 1


def test_missed_is_told_before_the_late_fire_e41(story: Story) -> None:
    (report,) = story.missed("late")
    assert report == {
        "id": "late",
        "skill_id": story.owner,
        "missed": [story.dues["late"]],
        "fired_late": story.dues["late"],
        "next": None,
    }
    places = [
        n
        for n, m in enumerate(story.after)
        if m.type == f"{story.owner}.late"
        or (
            (m.type == "ovos.scheduler.missed" and m.data["skill_id"] == story.owner)
            and m.data["id"] == "late"
        )
    ]
    assert story.after[places[0]].type == "ovos.scheduler.missed"


def test_late_fires_once_with_its_own_due_and_data_e34_e40_e50(story: Story) -> None:
    (fire,) = story.fires("late")
    assert fire.fire["due"] == story.dues["late"]
    assert moment(fire.fire["fired"]) > moment(fire.fire["due"]) + timedelta(seconds=DOWN_S / 2)
    assert fire.data == {"n": 1}


def test_skip_is_reported_and_never_fired_e40(story: Story) -> None:
    (report,) = story.missed("skip")
    assert (report["missed"], report["fired_late"]) == ([story.dues["skip"]], None)
    assert story.fires("skip") == []


def test_within_its_grace_a_replayed_fire_is_no_misfire_e40(story: Story) -> None:
    (fire,) = story.fires("graceful")
    assert fire.fire["due"] == story.dues["graceful"]
    assert story.missed("graceful") == []


def test_a_delay_is_an_instant_after_a_restart_e5_e34(story: Story) -> None:
    (fire,) = story.fires("delay")
    assert fire.fire["due"] == story.dues["delay"]
    late_s = fire.heard_ns / 1e9 - moment(story.dues["delay"]).timestamp()
    assert 0 <= late_s < 1


def test_an_ephemeral_schedule_is_gone_e10_e50(story: Story) -> None:
    assert story.fires("ephemeral") == []
    assert "ephemeral" not in story.listed


def test_a_cancelled_schedule_stays_cancelled_e50(story: Story) -> None:
    assert story.fires("cancelled") == []
    assert "cancelled" not in story.listed


def test_a_replacement_has_taken_the_place_of_what_it_replaced_e26_e50_e54(story: Story) -> None:
    (fire,) = story.fires("replaced")
    assert fire.fire["due"] == story.dues["replaced"]
    assert story.missed("replaced") == []


def test_what_has_fired_does_not_fire_again_e32_e51(story: Story) -> None:
    for name in ("fired", "hourly"):
        assert len([m for m in story.before if m.type == f"{story.owner}.{name}"]) == 1
        assert story.fires(name) == []
    assert story.states["hourly"]["last_fired"] == story.dues["hourly"]


def test_an_absent_owners_schedules_stay_and_fire_e55(story: Story) -> None:
    """Nobody of this owner said a word between acceptance and fire."""
    assert story.listed == ["counted", "daily", "hourly"]
    assert story.states["daily"]["next"] == story.dues["daily"]


def test_dropped_occurrences_are_counted_and_the_phase_is_kept_e6_e9_e40(story: Story) -> None:
    first = moment(story.dues["counted"])
    (report, *_) = story.missed("counted")
    lost = [moment(text) for text in report["missed"]]
    assert len(lost) >= 3
    assert moment(report["fired_late"]) == lost[-1]
    fires = [moment(m.fire["due"]) for m in story.fires("counted")]
    assert fires[0] == lost[-1]
    steps = [(each - first) / timedelta(seconds=0.3) for each in [*lost, *fires]]
    assert steps == [float(round(step)) for step in steps]
    for fire in story.fires("counted"):
        number = round((moment(fire.fire["due"]) - first) / timedelta(seconds=0.3))
        assert fire.fire["remaining"] == 19 - number
