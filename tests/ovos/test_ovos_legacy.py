"""E90: `mycroft.scheduler.*` on a real message bus, heard by a plain websocket."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from ovos_bridge import bridge
from ovos_processes import Listener, OvosBus
from wakebridge.schedule import legacy
from wakebridge.schedule.instants import parse_instant

SCHEDULE = "mycroft.scheduler.schedule_event"
REMOVE = "mycroft.scheduler.remove_event"
LIST = "mycroft.scheduler.list_events"
CONTEXT = {"skill_id": "old.skill", "source": "a", "destination": "b", "session": {"id": "s"}}


async def events(ear: Listener) -> dict[str, Any]:
    answer = await ear.ask(LIST)
    found: dict[str, Any] = answer["data"]["scheduled_events"]
    return found


def due_of(fire: dict[str, Any]) -> float:
    return parse_instant(fire["context"]["scheduler"]["due"]) / 1e9


async def test_e90_an_event_fires_under_its_own_type_with_its_data_and_context(
    bus: OvosBus, tmp_path: Path
) -> None:
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
        await ear.next("ovos.scheduler.ready")
        due = time.time() + 0.4
        request = {"event": "old.skill:tick", "time": due, "repeat": None, "data": {"n": 1}}
        await ear.say(SCHEDULE, request, CONTEXT)
        assert await events(ear) == {"old.skill:tick": [[due, None, {"n": 1}, CONTEXT]]}
        fire = await ear.next("old.skill:tick")
        assert due_of(fire) == pytest.approx(due, abs=1e-6)
        del fire["context"]["scheduler"]
        assert fire == {"type": "old.skill:tick", "data": {"n": 1}, "context": CONTEXT}
        assert await events(ear) == {}
        answered = [each for each in ear.heard_types() if each.endswith("_event.response")]
        assert answered == [], "the older protocol has no answer to it"


async def test_e90_the_event_name_alone_is_the_identity(bus: OvosBus, tmp_path: Path) -> None:
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
        await ear.next("ovos.scheduler.ready")
        later = time.time() + 3600
        for name, context in (
            ("old.skill:a", CONTEXT),
            ("old.skill:a", {"skill_id": "another"}),
            ("old.skill:a", {}),
            ("without colon", {"skill_id": "whoever"}),
            (":empty", {}),
        ):
            await ear.say(SCHEDULE, {"event": name, "time": later}, context)
        assert await events(ear) == {
            "old.skill:a": [[later, None, {}, {}]],
            "without colon": [[later, None, {}, {"skill_id": "whoever"}]],
            ":empty": [[later, None, {}, {}]],
        }
        await ear.say(REMOVE, {"event": "without colon"}, {"skill_id": "somebody else"})
        await ear.say(REMOVE, {"event": "never scheduled"}, CONTEXT)
        assert set(await events(ear)) == {"old.skill:a", ":empty"}


async def test_e25_e61_a_legacy_schedule_is_its_owners_in_the_new_protocol(
    bus: OvosBus, tmp_path: Path
) -> None:
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
        await ear.next("ovos.scheduler.ready")
        await ear.say(SCHEDULE, {"event": "old.skill:a", "time": time.time() + 3600}, {})
        listed = await ear.ask("ovos.scheduler.list", {}, {"skill_id": "old.skill"})
        (only,) = listed["data"]["schedules"]
        assert (only["record"]["id"], only["record"]["event"]) == (
            "legacy:old.skill:a",
            "old.skill.a",
        )
        other = {"skill_id": "another"}
        refused = await ear.ask("ovos.scheduler.cancel", {"id": "legacy:old.skill:a"}, other)
        assert refused["data"]["error"] == "skill_id_mismatch"


async def test_e90_a_time_that_has_passed_fires_at_once(bus: OvosBus, tmp_path: Path) -> None:
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
        await ear.next("ovos.scheduler.ready")
        await ear.say(SCHEDULE, {"event": "old.skill:a", "time": time.time() - 1}, CONTEXT)
        await ear.next("old.skill:a", timeout_s=1)
        await ear.say(SCHEDULE, {"event": "old.skill:b", "time": 1_000_000_000}, CONTEXT)
        first = await ear.next("old.skill:b", "ovos.scheduler.missed", timeout_s=1)
        assert first["type"] == "ovos.scheduler.missed", "E41: older than the grace, so reported"
        await ear.next("old.skill:b", timeout_s=1)


async def test_e90_a_repeat_begins_now_and_keeps_its_phase(bus: OvosBus, tmp_path: Path) -> None:
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
        await ear.next("ovos.scheduler.ready")
        first = time.time()
        await ear.say(SCHEDULE, {"event": "old.skill:t", "time": first, "repeat": 0.5}, CONTEXT)
        dues = [due_of(await ear.next("old.skill:t")) for _ in range(3)]
        assert dues == pytest.approx([first, first + 0.5, first + 1.0], abs=1e-6)


async def test_e6_e90_asking_again_from_now_on_keeps_the_phase(
    bus: OvosBus, tmp_path: Path
) -> None:
    """A skill that starts more often than its period would otherwise never hear its event."""
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
        await ear.next("ovos.scheduler.ready")

        async def schedule(time_s: float, repeat: float, data: dict[str, object]) -> list[Any]:
            request = {"event": "old.skill:t", "time": time_s, "repeat": repeat, "data": data}
            await ear.say(SCHEDULE, request, CONTEXT)
            (entry,) = (await events(ear))["old.skill:t"]
            found: list[Any] = entry
            return found

        first = time.time() + 3600
        assert await schedule(first, 3600, {"n": 1}) == [first, 3600, {"n": 1}, CONTEXT]
        await asyncio.sleep(0.2)
        again = await schedule(time.time() + 3600, 3600, {"n": 2})
        assert again == [first, 3600, {"n": 2}, CONTEXT], "the same phase, the new data"
        named = time.time() + 1800
        assert (await schedule(named, 3600, {}))[0] == named, "a first time that was named counts"
        other = time.time() + 60
        assert (await schedule(other, 60, {}))[0] == other, "another period is another series"


@pytest.mark.parametrize(
    "update", ["mycroft.scheduler.update_event", "mycroft.schedule.update_event"]
)
async def test_e90_an_update_changes_the_data_alone(
    bus: OvosBus, tmp_path: Path, update: str
) -> None:
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
        await ear.next("ovos.scheduler.ready")
        first = time.time() + 3600
        request = {"event": "old.skill:t", "time": first, "repeat": 60, "data": {"n": 1}}
        await ear.say(SCHEDULE, request, CONTEXT)
        await ear.say(update, {"event": "old.skill:t", "data": {"n": 2}}, {"skill_id": "another"})
        await ear.say(update, {"event": "old.skill:unknown", "data": {"n": 2}}, CONTEXT)
        assert await events(ear) == {"old.skill:t": [[first, 60, {"n": 2}, CONTEXT]]}
        await ear.say(update, {"event": "old.skill:t", "data": None}, CONTEXT)
        assert await events(ear) == {"old.skill:t": [[first, 60, {}, CONTEXT]]}


async def test_e90_the_status_is_an_object_always(bus: OvosBus, tmp_path: Path) -> None:
    """A bare list, which the protocol once had here, disconnects every stable client."""
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
        await ear.next("ovos.scheduler.ready")
        first = time.time() + 3600
        await ear.say(SCHEDULE, {"event": "old.skill:t", "time": first}, CONTEXT)

        async def status(name: str) -> dict[str, Any]:
            answer_type = f"mycroft.event_status.callback.{name}"
            get = "mycroft.scheduler.get_event"
            return await ear.ask(get, {"name": name}, CONTEXT, answer_type)

        known = await status("old.skill:t")
        assert known["data"] == {
            "event": "old.skill:t",
            "schedule": [first, None, {}, CONTEXT],
        }
        assert known["context"] == {**CONTEXT, "source": "b", "destination": "a"}
        assert (await status("old.skill:unknown"))["data"] == {}


@pytest.mark.parametrize(
    "data",
    [
        "{}",
        "[]",
        '{"event": "old.skill:t"}',
        '{"event": "old.skill:t", "time": null}',
        '{"event": "old.skill:t", "time": "soon"}',
        '{"event": "old.skill:t", "time": true}',
        '{"event": "old.skill:t", "time": NaN}',
        '{"event": "old.skill:t", "time": 1e300}',
        '{"event": "old.skill:t", "time": %s}' % ("9" * 400),
        '{"event": ["old.skill:t"], "time": 4000000000}',
        '{"event": "", "time": 4000000000}',
        '{"event": "old.skill:t", "time": 4000000000, "repeat": "60"}',
        '{"event": "old.skill:t", "time": 4000000000, "repeat": NaN}',
        '{"event": "old.skill:t", "time": 4000000000, "repeat": Infinity}',
        '{"event": "old.skill:t", "time": 4000000000, "data": [1]}',
        '{"event": "old.skill:\\ud800", "time": 4000000000}',
    ],
    ids=lambda text: text[:70],
)
async def test_e13_e90_what_is_malformed_changes_nothing(
    bus: OvosBus, tmp_path: Path, data: str
) -> None:
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
        await ear.next("ovos.scheduler.ready")
        for verb in ("schedule_event", "remove_event", "update_event", "get_event"):
            context = json.dumps(CONTEXT)
            message_type = f"mycroft.scheduler.{verb}"
            await ear.say_text(
                f'{{"type": "{message_type}", "data": {data}, "context": {context}}}'
            )
        assert await events(ear) == {}
        await ear.say(SCHEDULE, {"event": "old.skill:t", "time": time.time()}, CONTEXT)
        await ear.next("old.skill:t", timeout_s=1)


async def test_e90_requests_about_an_event_take_effect_in_order(
    bus: OvosBus, tmp_path: Path
) -> None:
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
        await ear.next("ovos.scheduler.ready")
        later = time.time() + 3600
        for n in range(50):
            request = {"event": "old.skill:t", "time": later, "repeat": 3600, "data": {"n": n}}
            await ear.say(SCHEDULE, request, CONTEXT)
            await ear.say(
                "mycroft.scheduler.update_event", {"event": "old.skill:t", "data": {"u": n}}
            )
            if n < 49:
                await ear.say(REMOVE, {"event": "old.skill:t"})
        assert [entry[2] for entry in (await events(ear))["old.skill:t"]] == [{"u": 49}]


async def test_e71_e90_the_clock_signal_reaches_the_service(bus: OvosBus, tmp_path: Path) -> None:
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db") as service:
        await ear.next("ovos.scheduler.ready")
        signalled = asyncio.Event()
        service.clock_synced = signalled.set  # type: ignore[method-assign] # to see it called
        await ear.say("system.clock.synced")
        async with asyncio.timeout(2):
            await signalled.wait()


def test_names_of_the_older_protocol() -> None:
    assert legacy.owner_of("a.b:c:d") == "a.b"
    assert legacy.owner_of("nobody") == legacy.owner_of(":x") == legacy.NAMELESS_OWNER
    assert legacy.stand_in("a.b:c:d") == "a.b.c.d"
    assert legacy.stand_in("a.b:") == "a.b.unnamed"
    assert legacy.stand_in("nobody") == "legacy.nobody"
    assert legacy.event_of(legacy.id_of("legacy:x")) == "legacy:x"
