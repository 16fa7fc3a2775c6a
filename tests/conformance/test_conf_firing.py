"""Firing and misfires of a running bridge, seen from outside (E30 to E42)."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conformance.conftest import World
from conformance.ears import Ear, Message, mqtt_ear, ovos_ear
from conformance.instants import at, in_s, moment


def late_s(fire: Message) -> float:
    """Return how long after it was due a fire was heard."""
    return fire.heard_ns / 1e9 - moment(fire.fire["due"]).timestamp()


async def test_what_a_fired_event_looks_like_e30(ear: Ear, owner: str) -> None:
    context = {"skill_id": owner, "source": "sat-7", "session": {"session_id": "k"}, "n": [None]}
    body = {"id": "a", "event": f"{owner}.a", "at": at(0.2), "data": {"x": [1, 2.5, "é"]}}
    due = (await ear.ask("schedule", body, owner, context))["next"]
    (fire,) = await ear.fired(owner)
    assert fire.data == {"x": [1, 2.5, "é"]}
    told = fire.context.pop("scheduler")
    assert fire.context == context
    assert told.keys() == {"id", "skill_id", "due", "fired", "remaining"}
    assert (told["id"], told["skill_id"], told["due"], told["remaining"]) == ("a", owner, due, 0)
    assert moment(told["fired"]) >= moment(due)


@pytest.mark.parametrize("form", ["at", "in", "every", "local"])
async def test_it_fires_within_a_second_and_never_early_e31_e34(
    ear: Ear, owner: str, form: str
) -> None:
    soon = in_s(0.3)
    # A wall-clock time has whole seconds.
    whole = (soon + timedelta(seconds=1)).replace(microsecond=0)
    timing: dict[str, Any] = {
        "at": {"at": soon.isoformat()},
        "in": {"in": {"seconds": 0.3}},
        "every": {"every": {"seconds": 3600, "start": soon.isoformat()}},
        "local": {"local": {"time": f"{whole:%H:%M:%S}", "zone": "UTC"}},
    }
    due = await ear.schedule(owner, **timing[form])
    (fire,) = await ear.fired(owner)
    assert fire.fire["due"] == due
    assert moment(fire.fire["fired"]) >= moment(due)
    assert 0 <= late_s(fire) < 1


async def test_a_one_shot_is_gone_after_its_fire_e32(ear: Ear, owner: str) -> None:
    await ear.schedule(owner, at=at(0.2))
    await ear.fired(owner)
    await ear.fence()
    assert (await ear.get(owner))["existed"] is False


async def test_nobody_has_to_listen_e33(world: World, ear: Ear, owner: str) -> None:
    """Who asked has gone when it fires; who comes later reads that it did."""
    on_mqtt = ear.name == "mqtt"
    made = mqtt_ear(world.broker.port) if on_mqtt else ovos_ear(world.ovos.url)
    async with made as asker:
        due = await asker.schedule(owner, every={"seconds": 3600, "start": at(0.3)})
    await asyncio.sleep(0.4)
    while (state := await ear.state(owner))["last_fired"] is None:  # noqa: ASYNC110 - to be read
        await asyncio.sleep(0.05)
    assert state["last_fired"] == due


async def test_no_record_delays_another_owner_e35(ear: Ear, owner: str) -> None:
    greedy = f"{owner}.greedy"
    context = json.dumps({"skill_id": greedy})
    records: list[dict[str, Any]] = [
        {"id": "tiny", "every": {"seconds": 1e-9, "start": "1970-01-01T00:00:00Z"}},
        {
            "id": "long ago",
            "every": {"seconds": 1, "start": "1970-01-01T00:00:00Z"},
            "grace_s": 9e9,
        },
        {"id": "large", "every": {"seconds": 0.01}, "data": {"x": "y" * 16_000}},
        {"id": "odd zone", "local": {"time": "23:59:59", "zone": "Africa/Monrovia"}},
    ]
    try:
        for record in records:
            body = json.dumps({"event": f"{greedy}.x", **record})
            answer = await ear.answer_to("schedule", ear.frame("schedule", body, context), greedy)
            assert answer.data["ok"], answer
        began = asyncio.get_running_loop().time()
        await ear.schedule(owner, at=at(0.3))
        assert asyncio.get_running_loop().time() - began < 1
        (fire,) = await ear.fired(owner)
        assert late_s(fire) < 1
    finally:
        for record in records:
            await ear.ask("cancel", {"id": record["id"]}, greedy)


# -- misfires while running ------------------------------------------------------------------------


async def hung_until(world: World, instant: datetime) -> None:
    """Have the bridge stand still, as a suspended host or a heavy load would."""
    world.bridge.hang()
    try:
        await asyncio.sleep((instant - datetime.now(UTC)).total_seconds())
    finally:
        world.bridge.go_on()


async def the_report(ear: Ear, owner: str, schedule_id: str) -> Any:
    """Return the one report of what a schedule missed."""
    await ear.until(lambda: bool(ear.missed(owner, schedule_id)))
    await ear.fence()
    (report,) = ear.missed(owner, schedule_id)
    return report.data


@pytest.mark.parametrize("policy", ["late", "skip"])
async def test_several_missed_while_running_late_fires_the_latest_skip_none_e9_e40_e41_e42(
    ear: Ear, owner: str, world: World, policy: str
) -> None:
    start = in_s(1.0)
    dues = [start + timedelta(seconds=0.2 * n) for n in range(3)]
    every = {"seconds": 0.2, "start": start.isoformat()}
    await ear.schedule(owner, every=every, count=3, misfire=policy, grace_s=0)
    await hung_until(world, dues[-1] + timedelta(seconds=0.3))
    report = await the_report(ear, owner, "a")
    assert [moment(text) for text in report["missed"]] == dues
    assert report["next"] is None
    state = await ear.state(owner)
    assert (state["next"], state["remaining"]) == (None, 0), "what is dropped is counted"
    if policy == "skip":
        assert report["fired_late"] is None
        assert ear.fires(owner) == []
        assert [moment(text) for text in state["missed"]] == dues, "E24: since the latest fire"
        return
    (fire,) = ear.fires(owner)
    assert moment(fire.fire["due"]) == moment(report["fired_late"]) == dues[-1]
    assert ear.heard.index(ear.missed(owner)[0]) < ear.heard.index(fire)
    assert (state["last_fired"], state["missed"]) == (fire.fire["due"], [])


async def test_a_recurrence_goes_on_in_its_phase_after_a_misfire_e6_e41_e42(
    ear: Ear, owner: str, world: World
) -> None:
    start = in_s(0.5)
    every = {"seconds": 3600, "start": start.isoformat()}
    await ear.schedule(owner, every=every, misfire="skip", grace_s=0)
    await hung_until(world, start + timedelta(seconds=0.3))
    report = await the_report(ear, owner, "a")
    assert moment(report["next"]) == start + timedelta(hours=1)
    assert (await ear.state(owner))["next"] == report["next"]


async def test_a_missed_one_shot_is_reported_once_and_deleted_e32_e40_e41(
    ear: Ear, owner: str, world: World
) -> None:
    dues = {}
    for policy in ("late", "skip"):
        dues[policy] = await ear.schedule(owner, policy, at=at(0.5), misfire=policy, grace_s=0.1)
    await hung_until(world, in_s(0.9))
    for policy in ("late", "skip"):
        assert await the_report(ear, owner, policy) == {
            "id": policy,
            "skill_id": owner,
            "missed": [dues[policy]],
            "fired_late": dues[policy] if policy == "late" else None,
            "next": None,
        }
    (fire,) = await ear.fired(owner, "late")
    assert fire.fire["due"] == dues["late"]
    await ear.fence()
    assert await ear.listed(owner) == []
    assert ear.fires(owner, "skip") == []
    assert len(ear.missed(owner, "late")) == len(ear.missed(owner, "skip")) == 1


async def test_within_its_grace_it_is_no_misfire_e40_e42(
    ear: Ear, owner: str, world: World
) -> None:
    due = await ear.schedule(owner, at=at(0.2), misfire="skip")
    await hung_until(world, in_s(0.6))
    (fire,) = await ear.fired(owner)
    assert fire.fire["due"] == due
    await ear.fence()
    assert ear.missed(owner) == []
