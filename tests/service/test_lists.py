"""Lists are as large as what is stored, and delay nobody (E25, E35)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from event_world import World, ask, event
from wakebridge.bus import BusMessage
from wakebridge.clock import DeadlineTimer, SystemClock
from wakebridge.engine import EventEngine
from wakebridge.schedule.instants import format_instant
from wakebridge.service import events, lists
from wakebridge.store.schedules_sqlite import SchedulesSqlite

MANY = 4 * lists.PORTION + 7


async def stored(service: events.EventService, count: int = MANY) -> None:
    for begin in range(0, count, 500):
        numbers = range(begin, min(begin + 500, count))
        answers = await asyncio.gather(
            *(ask(service, "schedule", event(f"s{n}", at="2027-01-01T00:00:00Z")) for n in numbers)
        )
        assert all(each["ok"] for each in answers)


def test_e25_a_list_made_in_portions_is_the_whole_list(world: Any) -> None:
    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            await stored(service)
            answer = await ask(service, "list", {})
            ids = [pair["record"]["id"] for pair in answer["schedules"]]
            assert (answer["ok"], sorted(ids)) == (True, sorted(f"s{n}" for n in range(MANY)))
            # What was asked for first is there, what was asked for later is not.
            listing = asyncio.ensure_future(ask(service, "list", {}))
            await asyncio.sleep(0)
            await ask(service, "cancel", {"id": "s0"})
            assert len((await listing)["schedules"]) == MANY
            assert len((await ask(service, "list", {}))["schedules"]) == MANY - 1

    world(scenario)


def test_e35_an_owner_waits_for_few_lists_at_once_and_others_for_theirs(world: Any) -> None:
    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            await stored(service)
            asked = [ask(service, "list", {}) for _ in range(lists.ASKER_MAX + 2)]
            answers = await asyncio.gather(*asked, ask(service, "list", {}, owner="other"))
            refused = [each for each in answers if not each["ok"]]
            assert len(refused) == 2
            assert {each["error"] for each in refused} == {"internal"}
            assert answers[-1] == {"ok": True, "schedules": []}
            assert (await ask(service, "list", {}))["ok"], "and later for more"

    world(scenario)


def test_e35_a_batch_that_takes_long_is_cut_and_every_request_answered_in_order(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "BATCH_NS", -1)

    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            bodies = [event("a", at=f"2027-01-01T00:00:{n:02}Z") for n in range(20)]
            answers = await asyncio.gather(*(ask(service, "schedule", body) for body in bodies))
            assert [each["next"][17:19] for each in answers] == [f"{n:02}" for n in range(20)]
            assert [each["replaced"] for each in answers] == [False] + [True] * 19

    world(scenario)


class DeafBus:
    """Takes every message and tells when the first fire has come."""

    name = "mqtt"

    def __init__(self) -> None:
        self.fired = asyncio.Event()

    async def emit(self, message: BusMessage) -> None:
        if "scheduler" in message.context:
            self.fired.set()


async def test_e35_while_a_long_list_is_made_others_are_answered_and_fire(tmp_path: Path) -> None:
    """On the real clock: others come in between any two portions."""
    store, timer, bus = SchedulesSqlite(tmp_path / "s.db"), DeadlineTimer(), DeafBus()
    service = events.EventService(EventEngine(()), store, SystemClock(), timer, lambda: None)
    service.attach(bus)
    service.start()
    running = asyncio.create_task(service.run())
    service.bus_up("mqtt")
    try:
        await stored(service, 20_000)
        listing = asyncio.ensure_future(ask(service, "list", {}))
        await asyncio.sleep(0)
        due = format_instant(SystemClock().now().wall_ns)
        other = event("a", at=due) | {"event": "other.tick"}
        asked = asyncio.ensure_future(ask(service, "schedule", other, owner="other"))
        turns, fired_meanwhile = 0, False
        while not listing.done():
            await asyncio.sleep(0)
            turns += 1
            fired_meanwhile |= bus.fired.is_set() and not listing.done()
        assert len(listing.result()["schedules"]) == 20_000
        assert fired_meanwhile
        assert asked.result()["ok"]
        assert turns > 20_000 // lists.PORTION
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        timer.close()
        store.close()
