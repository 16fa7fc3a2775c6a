"""`kill -9` in the middle of many that are due at once, seen from outside (E50, E51, E52)."""

import asyncio
import json
from collections import Counter

import pytest

from conformance.conftest import World
from conformance.ears import Ear
from conformance.instants import at, in_s, moment

STORM = 500
CRASHES = 2
AT_ONCE = 50


async def accept(ear: Ear, owner: str, due: str) -> None:
    """Have all of the storm accepted for one instant."""
    body = {"event": f"{owner}.storm", "at": due}
    mark = ear.mark()
    for begin in range(0, STORM, AT_ONCE):
        for number in range(begin, begin + AT_ONCE):
            text = ear.frame(
                "schedule",
                json.dumps({"id": f"s{number}", **body}),
                json.dumps({"skill_id": owner}),
            )
            await ear.say_text("schedule", text, owner)
        kind = "ovos.scheduler.schedule.response"
        answers = await ear.several(begin + AT_ONCE, kind, owner, after=mark)
    assert {each.data["ok"] for each in answers} == {True}
    assert {moment(each.data["next"]) for each in answers} == {moment(due)}


@pytest.mark.parametrize("over", ["mqtt", "ovos"])
async def test_a_storm_with_crashes_loses_none_and_repeats_one_each_at_most_e50_e51_e52(
    world: World, owner: str, over: str
) -> None:
    async with world.ears() as ears:
        ear = ears[over]
        due = at(4.0)
        await accept(ear, owner, due)
        for crash in range(1, CRASHES + 1):
            await ear.fired(owner, "storm", times=STORM * crash // (CRASHES + 1))
            world.bridge.kill()
            await world.start(*ears.values())
        await ear.until(lambda: len({m.fire["id"] for m in ear.fires(owner, "storm")}) == STORM)
        await ear.fence()
        times = Counter(m.fire["id"] for m in ear.fires(owner, "storm"))
        assert set(times) == {f"s{number}" for number in range(STORM)}
        assert times.total() - STORM <= CRASHES
        assert {moment(m.fire["due"]) for m in ear.fires(owner, "storm")} == {moment(due)}
        assert ear.all("ovos.scheduler.missed", owner) == []
        while await ear.listed(owner):  # noqa: ASYNC110 - the last commit comes after its event
            await asyncio.sleep(0.05)
        assert in_s(0) > moment(due)
