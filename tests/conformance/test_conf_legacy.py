"""The older protocol on the OVOS bus with the running bridge (E90)."""

import time
from typing import Any

import pytest

from conformance.conftest import World
from conformance.ears import Message, OvosEar

SCHEDULE = "mycroft.scheduler.schedule_event"
REMOVE = "mycroft.scheduler.remove_event"
GET = "mycroft.scheduler.get_event"
LIST = "mycroft.scheduler.list_events"


async def plan(
    ear: OvosEar, owner: str, name: str, seconds: float, **fields: object
) -> tuple[str, float]:
    """Schedule an event as today's skills do; return its type and its epoch time."""
    event, due = f"{owner}:{name}", time.time() + seconds
    body = {"event": event, "time": due, "repeat": None, "data": {}, **fields}
    await ear.say(SCHEDULE, body, {"skill_id": owner})
    return event, due


async def listed(ear: OvosEar) -> Any:
    """Return the events that the scheduler lists."""
    mark = ear.mark()
    await ear.say(LIST, {}, {})
    return (await ear.first(f"{LIST}.response", after=mark)).data["scheduled_events"]


async def heard(ear: OvosEar, event: str, times: int = 1) -> list[Message]:
    """Return the fires of an event once there are so many."""
    return await ear.several(times, event)


# The parameter is the transport, as everywhere here.
over_ovos = pytest.mark.parametrize("transport", ["ovos"])


@over_ovos
async def test_a_one_shot_fires_with_its_own_type_and_data_e90(
    ovos: OvosEar, owner: str, transport: str
) -> None:
    event, due = await plan(ovos, owner, "tick", 0.3, data={"n": 1})
    assert (await listed(ovos))[event][0][0] == pytest.approx(due, abs=1e-6)
    (fire,) = await heard(ovos, event)
    assert fire.data == {"n": 1}
    assert 0 <= fire.heard_ns / 1e9 - due < 1
    assert event not in await listed(ovos)


@over_ovos
async def test_a_repeating_event_repeats_until_it_is_removed_e90(
    ovos: OvosEar, owner: str, transport: str
) -> None:
    event, _ = await plan(ovos, owner, "again", 0.2, repeat=0.2)
    await heard(ovos, event, times=3)
    await ovos.say(REMOVE, {"event": event}, {"skill_id": owner})
    assert event not in await listed(ovos)
    before = len(ovos.all(event))
    await ovos.fence()
    assert len(ovos.all(event)) == before


@over_ovos
@pytest.mark.parametrize("spelling", ["scheduler", "schedule"])
async def test_an_update_changes_the_data_only_under_both_spellings_e90(
    ovos: OvosEar, owner: str, transport: str, spelling: str
) -> None:
    event, due = await plan(ovos, owner, "tick", 0.5, data={"n": 1})
    update = {"event": event, "data": {"n": 2}}
    await ovos.say(f"mycroft.{spelling}.update_event", update, {"skill_id": owner})
    (fire,) = await heard(ovos, event)
    assert fire.data == {"n": 2}
    assert 0 <= fire.heard_ns / 1e9 - due < 1


@over_ovos
async def test_the_status_is_answered_on_the_callback_of_its_name_e90(
    ovos: OvosEar, owner: str, transport: str
) -> None:
    event, due = await plan(ovos, owner, "tick", 3600)
    for name, known in ((event, True), (f"{owner}:nothing", False)):
        mark = ovos.mark()
        await ovos.say(GET, {"name": name}, {"skill_id": owner})
        status = await ovos.first(f"mycroft.event_status.callback.{name}", after=mark)
        if known:
            assert status.data["schedule"][0] == pytest.approx(due, abs=1e-6)
        else:
            assert status.data == {}
    await ovos.say(REMOVE, {"event": event}, {"skill_id": owner})


@over_ovos
async def test_one_shots_and_repeating_events_survive_a_kill_e50_e90(
    ovos: OvosEar, world: World, owner: str, transport: str
) -> None:
    once, _ = await plan(ovos, owner, "once", 1.0)
    again, _ = await plan(ovos, owner, "again", 1.0, repeat=0.3)
    assert {once, again} <= set(await listed(ovos))
    world.bridge.kill()
    mark = ovos.mark()
    await world.start(ovos)
    await heard(ovos, once)
    await heard(ovos, again, times=2)
    await ovos.say(REMOVE, {"event": again}, {"skill_id": owner})
    assert not {once, again} & set(await listed(ovos))
    assert len(ovos.all(once, after=mark)) == 1
