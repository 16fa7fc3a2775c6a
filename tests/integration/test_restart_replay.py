"""What was due while the bridge did not run: case A07, E40, E41, E51, E53, and R47 for routines."""

import asyncio
from datetime import UTC, datetime, timedelta

from bridges import BridgeProcess, Journal, Owner
from wakebridge.simboard import DeskBoard


def in_s(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


async def test_a07_one_late_fire_at_the_first_start_and_none_at_later_ones(
    bridge: BridgeProcess, owner: Owner
) -> None:
    due = await owner.schedule("a", at=in_s(0.5), grace_s=0.2)
    skipped = await owner.schedule(
        "skipped", every={"seconds": 0.4}, misfire="skip", grace_s=0.3, until=in_s(60)
    )
    assert await bridge.stop() == 0
    await asyncio.sleep(1.5)  # it is due while nobody is there
    await bridge.start()
    await owner.until(lambda: len(owner.fires_of("a")) == 1)
    await owner.until(lambda: len(owner.fires_of("skipped")) >= 1)

    # r1: fired once, at the start, with its own due instant, and told before (E41).
    (late,) = owner.fires_of("a")
    (told,) = [each for each in owner.missed if each.id == "a"]
    assert (late.due, told.fired_late, told.missed) == (due, due, [due])
    assert "a" not in {each.id for each in owner.fired[: told.before]}
    # E53: announced first. What a skipped one missed does not come back, and its phase stays (r2).
    assert owner.ready[-1] == {"schedules": 2, "missed": 2, "clock": "synchronized"}
    # A slow machine may make it miss some more while it runs: those do not come back either.
    reported = [each for each in owner.missed if each.id == "skipped"]
    assert reported
    dropped = {instant(due) for each in reported for due in each.missed}
    for fired in owner.fires_of("skipped"):
        assert instant(fired.due) not in dropped
        phase = (instant(fired.due) - instant(skipped)) / timedelta(seconds=0.4)
        assert abs(phase - round(phase)) < 0.01

    for _ in range(2):
        await bridge.kill()
        await bridge.start()
        await owner.ask("list", {})
    # r3: something unrelated does not bring it back either.
    await owner.schedule("b", **{"in": {"seconds": 3600}})
    await owner.ask("cancel", {"id": "skipped"})
    assert len(owner.fires_of("a")) == 1
    assert [each.id for each in owner.missed].count("a") == 1
    assert (await owner.ask("get", {"id": "a"}))["existed"] is False


async def test_r47_a_repeating_routine_that_was_late_runs_once_and_keeps_its_cadence(
    board: DeskBoard, bridge: BridgeProcess, journal: Journal
) -> None:
    created = (await bridge.tool("chat", action="create", task="x", delay_s=1, interval_s=1)).result
    await bridge.kill()
    first = instant(created["next_run"])
    await asyncio.sleep((first - datetime.now(UTC)).total_seconds() + 2.5)
    assert journal.runs() == []
    await bridge.start()
    await bridge.said("routine", status="running")
    await bridge.said("routine", status="scheduled")
    cancelled = await bridge.tool(action="cancel", id=created["id"])
    runs = cancelled.result["run_count"]
    latest = instant(cancelled.result["latest_run"]["due"])
    assert (latest - first) / timedelta(seconds=1) == round((latest - first).total_seconds())
    await bridge.at_rest()
    assert len(journal.runs()) == runs <= 2  # one for all that were missed, perhaps the next one
