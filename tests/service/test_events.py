"""The writer of scheduled events, on the real store, in virtual time."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from event_world import World, ask, event
from virtual_time import NS, VirtualLoop, run_virtual
from wakebridge.bus import BusMessage
from wakebridge.schedule import misfire
from wakebridge.schedule.instants import Now, parse_instant
from wakebridge.schedule.misfire import Evaluation, Schedule
from wakebridge.store.errors import StoreError
from wakebridge.store.schedules_sqlite import SchedulesSqlite


def test_at_fires_once_at_its_due_instant_with_data_and_context_e30_e34(world: Any) -> None:
    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            answer = await ask(
                service,
                "schedule",
                event(at="2026-03-01T10:00:05+00:00", data={"x": [1, 2.5]}),
                session={"session_id": "k"},
            )
            assert answer == {
                "ok": True,
                "id": "a",
                "skill_id": "demo",
                "next": "2026-03-01T10:00:05+00:00",
                "replaced": False,
            }
            await world.until("2026-03-01T11:00:00+00:00")
            assert (await ask(service, "list", {}))["schedules"] == []

    done = world(scenario)
    assert done.bus.types() == ["ovos.scheduler.ready", "demo.tick"]
    at, message = done.bus.seen[1]
    assert at[:23] == "2026-03-01T10:00:05.000"
    assert json.loads(message.data) == {"x": [1, 2.5]}
    context = json.loads(message.encode())["context"]
    assert context.pop("scheduler") == {
        "id": "a",
        "skill_id": "demo",
        "due": "2026-03-01T10:00:05+00:00",
        "fired": at,
        "remaining": 0,
    }
    assert context == {"skill_id": "demo", "source": "sat-7", "session": {"session_id": "k"}}


def test_in_is_measured_on_the_boot_clock_e5(world: Any) -> None:
    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            answer = await ask(service, "schedule", event("a", **{"in": {"seconds": 60}}))
            assert answer["next"] == "2026-03-01T10:01:00+00:00"
            await asyncio.sleep(10)
            world.clock.step(3600 * NS)
            await asyncio.sleep(49)
            assert world.bus.fires() == []
            await asyncio.sleep(2)
            # 60 s after acceptance by elapsed time; `due` is what was answered (E34).
            assert world.bus.fires() == [("2026-03-01T11:01:00", "2026-03-01T10:01:00")]

    world(scenario)


def test_every_keeps_its_anchor_whatever_the_lateness_e6_a05_r2(world: Any) -> None:
    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            body = event(every={"seconds": 60, "start": "1970-01-01T00:00:00Z"}, grace_s=10)
            await ask(service, "schedule", body)
            await world.until("2026-03-01T11:20:30+00:00")
            world.bus.seen.clear()
            world.clock.step_to(parse_instant("2026-03-01T12:00:25Z"))
            await world.until("2026-03-01T12:03:30+00:00")

    done = world(scenario)
    assert done.bus.types() == ["ovos.scheduler.missed", *["demo.tick"] * 4]
    assert done.bus.fires() == [
        ("2026-03-01T12:00:25", "2026-03-01T12:00:00"),
        ("2026-03-01T12:01:00", "2026-03-01T12:01:00"),
        ("2026-03-01T12:02:00", "2026-03-01T12:02:00"),
        ("2026-03-01T12:03:00", "2026-03-01T12:03:00"),
    ]


@pytest.mark.parametrize(
    ("misfire", "processed_at", "fires", "status"),
    [
        ("skip", "2018-03-08T16:30:01.776Z", 1, "fired"),
        ("skip", "2018-03-08T16:31:00.000Z", 1, "fired"),
        ("skip", "2018-03-08T16:31:00.001Z", 0, "skipped"),
        ("late", "2018-03-08T17:30:00Z", 1, "late"),
    ],
)
def test_grace_is_inclusive_and_the_policy_decides_beyond_it_a06_e40(
    tmp_path: Path, misfire: str, processed_at: str, fires: int, status: str
) -> None:
    async def main(loop: VirtualLoop) -> None:
        world = World(loop, tmp_path, "2018-03-05T16:32:00Z")
        async with world.bridge() as service:
            rule = {"seconds": 259200, "start": "2018-03-05T16:30:00Z"}
            await ask(service, "schedule", event(every=rule, grace_s=60, misfire=misfire))
        await world.off_until(processed_at)
        async with world.bridge() as service:
            await asyncio.sleep(0)
            state = (await ask(service, "get", {"id": "a"}))["state"]
        due = "2018-03-08T16:30:00"
        assert [fired_due for _, fired_due in world.bus.fires()] == [due] * fires
        assert state["next"] == "2018-03-11T16:30:00+00:00"
        missed = world.bus.data("ovos.scheduler.missed")
        if status == "fired":
            assert missed == []
        else:
            late = f"{due}+00:00" if status == "late" else None
            assert [(m["missed"], m["fired_late"]) for m in missed] == [([f"{due}+00:00"], late)]
        assert state["missed"] == ([f"{due}+00:00"] if status == "skipped" else [])

    run_virtual(main)


def test_a_one_shot_missed_while_down_fires_late_once_and_never_again_a07_r1(world: Any) -> None:
    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            await ask(service, "schedule", event(at="2026-03-01T10:10:00Z"))
            await world.until("2026-03-01T10:09:00+00:00")
        await world.off_until("2026-03-01T10:12:00+00:00")
        async with world.bridge():
            await world.until("2026-03-01T10:13:00+00:00")
        for _ in range(2):
            async with world.bridge():
                await asyncio.sleep(60)

    done = world(scenario)
    assert done.bus.fires() == [("2026-03-01T10:12:00", "2026-03-01T10:10:00")]
    # `ready` is announced before what is replayed (E53), the report before the late fire (E41).
    assert done.bus.types()[1:4] == ["ovos.scheduler.ready", "ovos.scheduler.missed", "demo.tick"]
    assert done.bus.data("ovos.scheduler.ready")[1] == {
        "schedules": 1,
        "missed": 1,
        "clock": "synchronized",
    }


def test_skipped_alarms_come_back_at_their_next_time_a07_r2(world: Any) -> None:
    times = ["07:00", "07:10", "07:20", "07:30", "07:40"]

    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            for time in times:
                local = {"time": time, "zone": "Europe/London"}
                body = event(time, local=local, misfire="skip", grace_s=300)
                await ask(service, "schedule", body)
        await world.off_until("2026-03-04T12:00:00+00:00")
        async with world.bridge() as service:
            await asyncio.sleep(1)
            listed = (await ask(service, "list", {}))["schedules"]
            assert sorted(pair["state"]["next"] for pair in listed) == [
                f"2026-03-05T{time}:00+00:00" for time in times
            ]
            assert all(len(pair["state"]["missed"]) == 3 for pair in listed)

    done = world(scenario, start="2026-03-01T08:00:00Z")
    assert done.bus.fires() == []


def test_count_and_until_bound_a_recurrence_and_dropped_ones_count_e9_e40(world: Any) -> None:
    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            rule = {"seconds": 10}
            await ask(service, "schedule", event("c", every=rule, count=5, grace_s=1))
            until = "2026-03-01T10:00:30+00:00"
            await ask(service, "schedule", event("u", every=rule, until=until))
            await asyncio.sleep(12)
        # Down over the occurrences 2, 3 and 4 of c: 4 fires late, 2 and 3 are consumed.
        await asyncio.sleep(33)
        async with world.bridge() as service:
            await asyncio.sleep(1)
            state = (await ask(service, "get", {"id": "c"}))["state"]
            assert state["remaining"] == 1
            await asyncio.sleep(60)
            for schedule_id in "cu":
                state = (await ask(service, "get", {"id": schedule_id}))["state"]
                assert state["next"] is None

    done = world(scenario)
    dues = [
        message.context["scheduler"]["due"][17:19]
        for _, message in done.bus.seen
        if message.context.get("scheduler", {}).get("id") == "c"
    ]
    assert dues == ["10", "40", "50"]
    u_dues = [
        message.context["scheduler"]["due"][17:19]
        for _, message in done.bus.seen
        if message.context.get("scheduler", {}).get("id") == "u"
    ]
    assert u_dues == ["10", "20", "30"]


def test_a_step_back_waits_and_fires_nothing_twice_e70(world: Any) -> None:
    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            rule = {"seconds": 60, "start": "2026-03-01T10:00:00Z"}
            await ask(service, "schedule", event(every=rule))
            await world.until("2026-03-01T10:02:30+00:00")
            world.clock.step(-120 * NS)
            await asyncio.sleep(200)

    done = world(scenario)
    dues = [due for _, due in done.bus.fires()]
    assert dues == sorted(set(dues))
    assert dues[-1] == "2026-03-01T10:03:00"


def test_nothing_is_refused_or_dropped_before_the_clock_is_set_a08_e71(world: Any) -> None:
    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            local = {"time": "07:00", "zone": "Europe/London"}
            await ask(service, "schedule", event("morning", local=local))
            await ask(service, "schedule", event("once", at="2026-03-01T07:00:00Z"))
            rule = {"seconds": 3600, "start": "2020-01-01T00:00:00Z"}
            await ask(service, "schedule", event("hourly", every=rule))
            await world.until("2026-03-01T06:50:00+00:00")
            await ask(service, "schedule", event("last-write", at="2027-01-01T00:00:00Z"))
        world.bus.seen.clear()
        world.clock.step_to(parse_instant("2024-01-01T00:00:00Z"))
        async with world.bridge() as service:
            await asyncio.sleep(5)
            tea = await ask(service, "schedule", event("tea", **{"in": {"seconds": 600}}))
            assert tea["ok"] is True
            await asyncio.sleep(30)
            assert world.bus.fires() == []
            assert [r["clock"] for r in world.bus.data("ovos.scheduler.ready")] == [
                "unsynchronized"
            ]
            world.clock.step_to(parse_instant("2026-03-01T06:59:30Z"))
            await asyncio.sleep(1)
            assert world.bus.fires() == []
            await asyncio.sleep(1000)

    done = world(scenario, start="2026-03-01T06:30:00Z")
    assert sorted(at for at, _ in done.bus.fires()) == [
        "2026-03-01T07:00:00",
        "2026-03-01T07:00:00",
        "2026-03-01T07:00:00",
        "2026-03-01T07:09:00",
    ]
    assert [r["clock"] for r in done.bus.data("ovos.scheduler.ready")] == [
        "unsynchronized",
        "synchronized",
    ]


def test_a_sync_signal_ends_the_unsynchronized_state_e71(world: Any) -> None:
    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            await ask(service, "schedule", event(at="2026-03-01T10:10:00Z"))
        world.clock.step_to(parse_instant("2025-01-01T00:00:00Z"))
        async with world.bridge() as service:
            service.clock_synced()
            await asyncio.sleep(1)
            assert [r["clock"] for r in world.bus.data("ovos.scheduler.ready")][-1] == (
                "synchronized"
            )
        async with world.bridge() as service:
            await asyncio.sleep(1)
            assert service.health()["clock"] == "synchronized"

    world(scenario)


def test_an_ephemeral_schedule_dies_with_the_process_e10_e50(world: Any) -> None:
    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            await ask(service, "schedule", event("kept", at="2026-03-01T10:10:00Z"))
            body = event("kept", at="2026-03-01T10:20:00Z", ephemeral=True)
            assert (await ask(service, "schedule", body))["replaced"] is True
            await ask(service, "schedule", event("e", every={"seconds": 5}, ephemeral=True))
            await asyncio.sleep(11)
            assert len(world.bus.fires()) == 2
        async with world.bridge() as service:
            await asyncio.sleep(60)
            assert (await ask(service, "list", {}))["schedules"] == []

    world(scenario)


def test_without_a_bus_the_occurrence_waits_and_grace_decides(world: Any) -> None:
    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            await ask(service, "schedule", event("soon", at="2026-03-01T10:00:10Z"))
            await ask(service, "schedule", event("late", at="2026-03-01T10:00:10Z", grace_s=5))
            skip = event("skip", at="2026-03-01T10:00:10Z", grace_s=5, misfire="skip")
            await ask(service, "schedule", skip)
            world.bus.down = True
            service.bus_down("mqtt")
            await asyncio.sleep(40)
            world.bus.down = False
            service.bus_up("mqtt")
            await asyncio.sleep(1)

    done = world(scenario)
    ids = [
        (message.type, (message.context.get("scheduler") or {}).get("id"))
        for _, message in done.bus.seen[1:]
    ]
    assert sorted(ids, key=str) == sorted(
        [
            ("demo.tick", "soon"),
            ("ovos.scheduler.missed", None),
            ("demo.tick", "late"),
            ("ovos.scheduler.missed", None),
        ],
        key=str,
    )


def test_ownership_e60_to_e63(world: Any) -> None:
    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            await ask(service, "schedule", event(at="2026-03-01T11:00:00Z"))
            other = await ask(service, "get", {"id": "a"}, owner="other")
            assert other["error"] == "skill_id_mismatch"
            assert (await ask(service, "cancel", {"id": "a"}, owner="other"))["ok"] is False
            nowhere = await ask(service, "get", {"id": "zzz"}, owner="other")
            assert nowhere == {"ok": True, "existed": False, "record": None, "state": None}
            assert (await ask(service, "cancel", {"id": "zzz"}))["existed"] is False
            anonymous = await service.request("get", {"id": 7}, {"source": "x"}, "mqtt", None)
            assert anonymous["error"] == "invalid_record"
            claimed = await service.request("list", {}, {"skill_id": "demo"}, "mqtt", "other")
            assert claimed["error"] == "skill_id_mismatch"
            admin = await ask(service, "list", {}, owner="admin")
            assert [pair["record"]["skill_id"] for pair in admin["schedules"]] == ["demo"]
            assert (await ask(service, "get", {"id": "a"}, owner="admin"))["ok"] is False
            gone = await ask(service, "cancel", {"id": "a"}, owner="admin")
            assert (gone["existed"], gone["skill_id"]) == (True, "demo")

    world(scenario)


def test_a_full_disk_is_an_internal_answer_and_changes_nothing_e27(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            await ask(service, "schedule", event(at="2026-03-01T11:00:00Z"))
            before = await ask(service, "list", {})

            async def full(*_: object) -> None:
                raise StoreError("schedules could not be stored: database or disk is full")

            with monkeypatch.context() as patch:
                patch.setattr(SchedulesSqlite, "commit", full)
                answers = await asyncio.gather(
                    ask(service, "schedule", event("b", at="2026-03-01T11:00:00Z")),
                    ask(service, "schedule", event("a", at="2026-03-01T12:00:00Z")),
                    ask(service, "cancel", {"id": "a"}),
                    ask(service, "list", {}),
                )
            assert [answer.get("error") for answer in answers] == ["internal"] * 3 + [None]
            assert answers[3] == before
            assert await ask(service, "list", {}) == before

    world(scenario)


def test_a_tiny_period_delays_nobody_e35(world: Any) -> None:
    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            greedy = event("greedy", every={"seconds": 1e-9, "start": "1970-01-01T00:00:00Z"})
            assert (await ask(service, "schedule", greedy))["ok"] is True
            body = {"id": "b", "event": "other.tick", "at": "2026-03-01T10:00:01Z"}
            fired = asyncio.Event()

            async def watch(message: BusMessage) -> None:
                await asyncio.sleep(0.0003)  # what a real emission and commit cost
                if message.type == "other.tick":
                    fired.set()

            world.bus.emit = watch  # type: ignore[method-assign]
            started_s = asyncio.get_running_loop().time()
            answer = await ask(service, "schedule", body, owner="other")
            assert answer["ok"] is True
            assert asyncio.get_running_loop().time() - started_s < 1
            await asyncio.wait_for(fired.wait(), 2)
            assert (await ask(service, "cancel", {"id": "greedy"}))["existed"] is True

    world(scenario)


@pytest.mark.parametrize("misfire", ["skip", "late"])
def test_without_grace_a_prompt_fire_is_on_time_e10_e40(world: Any, misfire: str) -> None:
    """No timer wakes at the very nanosecond: 50 ms are on time whatever the grace."""

    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            due = "2026-03-01T10:00:10Z"
            await ask(service, "schedule", event(at=due, grace_s=0, misfire=misfire))
            await asyncio.sleep(20)
        await ask_late(world, misfire)

    async def ask_late(world: World, misfire: str) -> None:
        async with world.bridge() as service:
            body = event("b", at="2026-03-01T10:01:00Z", grace_s=0, misfire=misfire)
            await ask(service, "schedule", body)
        await world.off_until("2026-03-01T10:01:00.051Z")
        async with world.bridge():
            await asyncio.sleep(1)

    done = world(scenario)
    late = [] if misfire == "skip" else ["2026-03-01T10:01:00"]
    assert [due for _, due in done.bus.fires()] == ["2026-03-01T10:00:10", *late]
    assert len(done.bus.data("ovos.scheduler.missed")) == 1


def test_a_schedule_that_cannot_be_evaluated_stands_still_and_stops_nobody_e35(
    world: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    evaluate = misfire.evaluate

    def faulty(schedule: Schedule, now: Now) -> Evaluation | None:
        if schedule.record.id == "cursed":
            raise ZeroDivisionError
        return evaluate(schedule, now)

    monkeypatch.setattr(misfire, "evaluate", faulty)

    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            await ask(service, "schedule", event("cursed", at="2026-03-01T10:00:01Z"))
            await ask(service, "schedule", event("well", at="2026-03-01T10:00:01Z"))
            await asyncio.sleep(5)
            listed = (await ask(service, "list", {}))["schedules"]
            assert [each["record"]["id"] for each in listed] == ["cursed"], "and is not lost"

    assert len(world(scenario).bus.fires()) == 1
    assert "is set aside" in caplog.text


def test_a_clock_that_reads_beyond_the_store_s_numbers_stops_nothing_e71(world: Any) -> None:
    async def scenario(world: World) -> None:
        async with world.bridge() as service:
            world.clock.step_to(parse_instant("2300-01-01T00:00:00Z"))
            assert (await ask(service, "schedule", event("a", **{"in": {"seconds": 60}})))["ok"]
            world.clock.step_to(parse_instant("2026-03-01T10:00:30Z"))
            await asyncio.sleep(90)

    assert len(world(scenario).bus.fires()) == 1
