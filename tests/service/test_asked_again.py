"""An owner that asks for its schedules again at every start loses nothing by it (E54, E26, E71)."""

import asyncio
from typing import Any

import pytest

from event_world import World, ask, event
from wakebridge.schedule.instants import parse_instant

DAILY: dict[str, Any] = {"local": {"time": "10:01", "zone": "UTC"}}
EVERY: dict[str, Any] = {"every": {"seconds": 86_400, "start": "2026-03-01T10:01:00Z"}}
UNANCHORED: dict[str, Any] = {"every": {"seconds": 60}}
DUE = "2026-03-01T10:01:00"


async def asked_again_while_away(world: World, back: str, again: dict[str, Any]) -> Any:
    """Ask for `again` after 10:01 went by without a bus; return the answer. The bus is back at
    `back`."""
    async with world.bridge() as service:
        await ask(service, "schedule", event(**again, misfire="late"))
        world.bus.down = True
        service.bus_down("mqtt")
        await world.until("2026-03-01T10:01:30Z")
        answer = await ask(service, "schedule", event(**again, data={"x": 2}))
        await world.until(back)
        world.bus.down = False
        service.bus_up("mqtt")
        await asyncio.sleep(1)
        state = (await ask(service, "get", {"id": "a"}))["state"]
    return answer, state


@pytest.mark.parametrize("again", [DAILY, EVERY, UNANCHORED])
def test_what_is_due_and_waits_for_its_bus_is_still_owed_e54(world: Any, again: Any) -> None:
    async def scenario(world: World) -> None:
        answer, state = await asked_again_while_away(world, "2026-03-01T10:01:40Z", again)
        assert (answer["replaced"], answer["next"][:19]) == (True, DUE)
        assert state["last_fired"][:19] == DUE

    done = world(scenario)
    assert done.bus.fires() == [("2026-03-01T10:01:40", DUE)]
    assert done.bus.data("demo.tick") == [{"x": 2}], "as it was asked for last"
    assert "ovos.scheduler.missed" not in done.bus.types()


@pytest.mark.parametrize("again", [DAILY, EVERY])
def test_what_was_missed_is_told_and_fired_late_once_e41_e54(world: Any, again: Any) -> None:
    async def scenario(world: World) -> None:
        await asked_again_while_away(world, "2026-03-01T10:30:00Z", again)

    done = world(scenario)
    assert done.bus.types()[-2:] == ["ovos.scheduler.missed", "demo.tick"]
    assert done.bus.fires() == [("2026-03-01T10:30:00", DUE)]


@pytest.mark.parametrize("again", [DAILY, EVERY])
def test_before_the_replay_of_a_start_as_well_e53_e54(world: Any, again: Any) -> None:
    """Owners may ask again before the bridge is allowed to fire what they have missed."""

    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            await ask(service, "schedule", event(**again))
        await world.off_until("2026-03-01T10:30:00Z")
        async with world.bridge(bus_up=False) as service:
            await ask(service, "schedule", event(**again))
            service.bus_up("mqtt")
            await asyncio.sleep(1)

    done = world(scenario)
    assert done.bus.types()[-2:] == ["ovos.scheduler.missed", "demo.tick"]
    assert done.bus.fires() == [("2026-03-01T10:30:00", DUE)]


@pytest.mark.parametrize("other", [{"local": {"time": "10:02", "zone": "UTC"}}, {"at": DUE + "Z"}])
def test_another_timing_discards_what_the_old_one_owed_e26(world: Any, other: Any) -> None:
    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            await ask(service, "schedule", event(**DAILY))
            world.bus.down = True
            service.bus_down("mqtt")
            await world.until("2026-03-01T10:01:30Z")
            await ask(service, "schedule", event(**{**other, "data": {"x": 2}}))
            world.bus.down = False
            service.bus_up("mqtt")
            await world.until("2026-03-01T10:10:00Z")

    done = world(scenario)
    assert done.bus.data("demo.tick") == [{"x": 2}]


def test_an_until_that_has_passed_owes_nothing_more_e9(world: Any) -> None:
    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            await ask(service, "schedule", event(**DAILY))
            world.bus.down = True
            service.bus_down("mqtt")
            await world.until("2026-03-01T10:01:30Z")
            body = event(**DAILY, until="2026-03-01T10:01:20Z")
            answer = await ask(service, "schedule", body)
            assert answer["error"] == "bad_recurrence"

    world(scenario)


def test_what_was_missed_stays_on_record_e24_e54(world: Any) -> None:
    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            await ask(service, "schedule", event(**DAILY, misfire="skip"))
        await world.off_until("2026-03-01T10:30:00Z")
        async with world.bridge() as service:
            await asyncio.sleep(1)
            await ask(service, "schedule", event(**DAILY, misfire="skip"))
            state = (await ask(service, "get", {"id": "a"}))["state"]
            assert [text[:19] for text in state["missed"]] == [DUE]

    world(scenario)


@pytest.mark.parametrize("again", [DAILY, EVERY])
def test_a_lost_clock_puts_off_nothing_that_was_promised_e71(world: Any, again: Any) -> None:
    """Skills ask again at every start, also at one that does not know the time yet."""

    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            promised = (await ask(service, "schedule", event(**again)))["next"]
        world.clock.step_to(parse_instant("2024-01-01T00:00:00Z"))
        async with world.bridge() as service:
            answer = await ask(service, "schedule", event(**again))
            assert answer["next"] == promised
            await asyncio.sleep(30)
            world.clock.step_to(parse_instant("2026-03-01T10:05:00Z"))
            await asyncio.sleep(1)

    done = world(scenario)
    assert done.bus.types()[-2:] == ["ovos.scheduler.missed", "demo.tick"]
    assert done.bus.fires() == [("2026-03-01T10:05:00", DUE)]


def test_after_a_step_back_nothing_is_left_of_what_has_fired_e9_e51(world: Any) -> None:
    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            body = event(**EVERY, until="2026-03-01T12:00:00Z")
            await ask(service, "schedule", body)
            await world.until("2026-03-01T10:02:00Z")
            world.clock.step_to(parse_instant("2026-03-01T10:00:30Z"))
            await asyncio.sleep(1)
            answer = await ask(service, "schedule", body)
            assert answer["error"] == "bad_recurrence"
            await asyncio.sleep(60)

    done = world(scenario)
    assert len(done.bus.fires()) == 1
