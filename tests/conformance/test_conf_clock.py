"""A bridge whose clock reads earlier than what it has written, seen from outside (E71)."""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from conformance.conftest import World
from conformance.ears import Ear, OvosEar
from conformance.instants import at

_DAY_NS = 86_400_000_000_000


def written_tomorrow(state_file: Path) -> None:
    """Have the store say that it was last written a day from now: the clock has been lost."""
    with contextlib.closing(sqlite3.connect(state_file)) as db:
        db.execute("UPDATE bridge SET written_ns = ?", (time.time_ns() + _DAY_NS,))
        db.commit()


@pytest.fixture
async def clockless(world: World, state_file: Path) -> AsyncIterator[dict[str, Ear]]:
    """Run the bridge without a clock to believe; ears on both transports."""
    async with world.ears() as ears:
        world.bridge.kill()
        written_tomorrow(state_file)
        await world.start(*ears.values())
        yield ears


@pytest.mark.parametrize("over", ["mqtt", "ovos"])
async def test_accept_persist_and_defer_until_the_clock_is_set_e71_e53(
    clockless: dict[str, Ear], world: World, owner: str, over: str
) -> None:
    """`system.clock.synced` on the OVOS bus is the signal, for both transports."""
    ear, platform = clockless[over], clockless["ovos"]
    assert isinstance(platform, OvosEar)
    started = ear.all("ovos.scheduler.ready")
    assert [m.data["clock"] for m in started] == ["unsynchronized"]
    local: dict[str, Any] = {"time": "12:34", "zone": "Europe/Lisbon"}
    await ear.schedule(owner, "daily", local=local)
    due = await ear.schedule(owner, at=at(0.2))
    delayed: dict[str, Any] = {"in": {"seconds": 0.3}}
    await ear.schedule(owner, "delay", **delayed)
    # A delay needs no wall clock.
    await ear.fired(owner, "delay")
    assert ear.fires(owner) == []
    mark = ear.mark()
    await platform.say("system.clock.synced", {}, {})
    again = await ear.ready(after=mark)
    assert again.data["clock"] == "synchronized"
    (fire,) = await ear.fired(owner)
    assert fire.fire["due"] == due
    assert ear.heard.index(again) < ear.heard.index(fire)
    assert (await ear.state(owner, "daily"))["next"] is not None
    # The signal holds: the next start believes the clock.
    world.bridge.kill()
    mark = ear.mark()
    await world.start(*clockless.values())
    assert (await ear.ready(after=mark)).data["clock"] == "synchronized"
    assert await ear.listed(owner) == ["daily"]
    await ear.ask("cancel", {"id": "daily"}, owner)
    await asyncio.gather(*(each.fence() for each in clockless.values()))
