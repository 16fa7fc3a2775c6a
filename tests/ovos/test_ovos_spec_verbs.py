"""`ovos.scheduler.*` on a real message bus, heard by a plain websocket (E20 to E63)."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ovos_bridge import bridge
from ovos_processes import Listener, OvosBus
from wakebridge.adapters.ovos import OvosAdapter, OvosConfig, adapter
from wakebridge.adapters.ovos.adapter import LIST_ANSWER_S, REQUEST_MAX_CHARS
from wakebridge.clock import SystemClock
from wakebridge.schedule.fields import CONTEXT_MAX_BYTES
from wakebridge.schedule.instants import format_instant, parse_instant

SCHEDULE = "ovos.scheduler.schedule"
CONTEXT: dict[str, Any] = {
    "skill_id": "brief",
    "source": "sat-7",
    "destination": ["hub", "other"],
    "session": {"session_id": "sat-7-kitchen", "lang": "pt-PT"},
    "layer": {"deep": [1, {"é": None}]},
}


def event(**fields: object) -> dict[str, object]:
    return {"id": "morning", "event": "brief.morning", **fields}


def ahead(seconds: float) -> str:
    return format_instant(SystemClock().now().wall_ns + int(seconds * 1e9))


async def test_e20_e22_e23_e24_each_request_is_answered_on_its_response_type(
    bus: OvosBus, tmp_path: Path
) -> None:
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
        await ear.next("ovos.scheduler.ready")
        due = ahead(3600)
        answer = await ear.ask(SCHEDULE, event(at=due, data={"n": 1}), CONTEXT)
        assert answer["data"] == {
            "ok": True,
            "id": "morning",
            "skill_id": "brief",
            "next": due,
            "replaced": False,
        }
        got = (await ear.ask("ovos.scheduler.get", {"id": "morning"}, CONTEXT))["data"]
        assert got["ok"] is got["existed"] is True
        assert got["record"]["data"] == {"n": 1}
        assert got["record"]["context"] == CONTEXT
        assert got["state"]["next"] == due
        listed = (await ear.ask("ovos.scheduler.list", {}, CONTEXT))["data"]
        assert listed["schedules"] == [{"record": got["record"], "state": got["state"]}]
        for existed in (True, False):
            answer = await ear.ask("ovos.scheduler.cancel", {"id": "morning"}, CONTEXT)
            assert answer["data"]["existed"] is existed
        answer = await ear.ask("ovos.scheduler.get", {"id": "morning"}, CONTEXT)
        assert answer["data"] == {"ok": True, "existed": False, "record": None, "state": None}


async def test_e20_answers_swap_source_and_destination_and_keep_the_rest(
    bus: OvosBus, tmp_path: Path
) -> None:
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
        await ear.next("ovos.scheduler.ready")
        pairs: list[tuple[dict[str, Any], dict[str, Any]]] = [
            (CONTEXT, {**CONTEXT, "source": "hub", "destination": "sat-7"}),
            ({"source": "a", "destination": "b"}, {"source": "b", "destination": "a"}),
            ({"source": "a"}, {"source": "a", "destination": "a"}),
            ({"session": {"session_id": "x"}}, {"session": {"session_id": "x"}}),
            ({}, {}),
        ]
        for asked, answered in pairs:
            answer = await ear.ask("ovos.scheduler.list", {}, asked)
            assert answer["context"] == answered


async def test_e30_e31_the_fire_is_the_data_and_the_context_plus_one_key(
    bus: OvosBus, tmp_path: Path
) -> None:
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
        await ear.next("ovos.scheduler.ready")
        answer = await ear.ask(SCHEDULE, event(**{"in": {"seconds": 0.3}}, data={"n": 1}), CONTEXT)
        fire = await ear.next("brief.morning")
        told = fire["context"].pop("scheduler")
        assert fire == {"type": "brief.morning", "data": {"n": 1}, "context": CONTEXT}
        assert told["due"] == answer["data"]["next"], "E34"
        assert (told["id"], told["skill_id"], told["remaining"]) == ("morning", "brief", 0)
        late_ns = parse_instant(told["fired"]) - parse_instant(told["due"])
        assert 0 <= late_ns < 1_000_000_000
        assert [kind for kind in ear.heard_types() if kind.startswith("mycroft")] == [], "no twins"


async def test_e41_e53_ready_then_missed_then_the_late_fire(bus: OvosBus, tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    async with Listener(bus.url) as ear, bridge(bus.port, store):
        await ear.next("ovos.scheduler.ready")
        await ear.ask(SCHEDULE, event(at=ahead(0.5), grace_s=0), CONTEXT)
    await asyncio.sleep(0.7)
    async with Listener(bus.url) as ear, bridge(bus.port, store):
        fire = await ear.next("brief.morning")
        heard = [each for each in ear.heard if each["type"] != "connected"]
        assert [each["type"] for each in heard] == [
            "ovos.scheduler.ready",
            "ovos.scheduler.missed",
            "brief.morning",
        ]
        ready, missed, _ = heard
        assert ready["data"] == {"schedules": 1, "missed": 1, "clock": "synchronized"}
        assert missed["data"]["fired_late"] == fire["context"]["scheduler"]["due"]


async def test_e53_late_fires_wait_for_the_message_that_says_who_is_there(
    bus: OvosBus, tmp_path: Path
) -> None:
    store = tmp_path / "s.db"
    async with Listener(bus.url) as ear, bridge(bus.port, store):
        await ear.next("ovos.scheduler.ready")
        await ear.ask(SCHEDULE, event(at=ahead(0.2)), CONTEXT)
    await asyncio.sleep(0.3)
    async with Listener(bus.url) as ear, bridge(bus.port, store, replay_delay_s=60):
        await ear.next("ovos.scheduler.ready")
        await ear.ask("ovos.scheduler.list", {}, CONTEXT)
        assert "brief.morning" not in ear.heard_types()
        await ear.say("skills.loaded")
        await ear.next("brief.morning", timeout_s=1)


async def test_e35_an_event_that_the_bus_refuses_holds_up_nobody(
    bus: OvosBus, tmp_path: Path
) -> None:
    """The pre-release bus keeps a message whose session is no object to itself."""
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db") as service:
        await ear.next("ovos.scheduler.ready")
        # Such a request can have been made while the bus was an older one.
        due = ahead(0.2)
        odd = {"skill_id": "brief", "session": "not an object"}
        assert (await service.request("schedule", event(at=due), odd, "ovos", None))["ok"]
        after = {"id": "after", "event": "brief.after", "at": due}
        assert (await ear.ask(SCHEDULE, after, CONTEXT))["data"]["ok"]
        await ear.next("brief.after", timeout_s=3)
        for schedule_id in ("morning", "after"):
            got = await ear.ask("ovos.scheduler.get", {"id": schedule_id}, CONTEXT)
            assert got["data"]["existed"] is False


async def test_what_comes_due_while_the_bus_is_down_fires_when_it_is_back(
    own_bus: OvosBus, tmp_path: Path
) -> None:
    async with bridge(own_bus.port, tmp_path / "s.db"):
        async with Listener(own_bus.url) as ear:
            await ear.ask(SCHEDULE, event(at=ahead(0.6)), CONTEXT)
        own_bus.kill()
        await asyncio.sleep(0.8)
        await asyncio.to_thread(own_bus.start)
        async with Listener(own_bus.url) as ear:
            fire = await ear.next("brief.morning", "ovos.scheduler.missed", timeout_s=3)
            assert fire["type"] == "brief.morning", "within its grace it is no misfire"


async def test_e60_e61_owners_are_told_apart_by_the_context(bus: OvosBus, tmp_path: Path) -> None:
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
        await ear.next("ovos.scheduler.ready")
        await ear.ask(SCHEDULE, event(at=ahead(3600)), CONTEXT)
        nobody = await ear.ask("ovos.scheduler.get", {"id": "morning"})
        assert nobody["data"]["error"] == "invalid_record"
        other = await ear.ask("ovos.scheduler.get", {"id": "morning"}, {"skill_id": "other"})
        assert other["data"]["error"] == "skill_id_mismatch"
        listed = await ear.ask("ovos.scheduler.list", {}, {"skill_id": "admin.skill"})
        assert [each["record"]["id"] for each in listed["data"]["schedules"]] == ["morning"], "E62"


@pytest.mark.parametrize(
    "data",
    [
        '{"id": "a", "event": "brief.a", "in": {"seconds": NaN}}',
        '{"id": "a", "event": "brief.a", "in": {"seconds": -Infinity}}',
        '{"id": "a", "event": "brief.a", "at": "2031-01-01T00:00:00Z", "data": {"n": NaN}}',
        '{"id": "a", "event": "brief.a", "in": {"seconds": %s}}' % ("9" * 5000),
        '{"id": ["a"], "event": "brief.a", "in": {"seconds": 9}}',
        '{"id": "\\ud800", "event": "brief.a", "in": {"seconds": 9}}',
        '{"id": "a", "event": "brief.a", "in": {"seconds": 9}, "data": {"t": "\\ud800"}}',
        "[1]",
        '"a"',
        '{"a":' * 100_000 + "1" + "}" * 100_000,
    ],
    ids=lambda text: text[:60],
)
async def test_e13_e20_hardly_json_is_refused_exactly_once(
    bus: OvosBus, tmp_path: Path, data: str
) -> None:
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
        await ear.next("ovos.scheduler.ready")
        context = json.dumps(CONTEXT)
        await ear.say_text(f'{{"type": "{SCHEDULE}", "data": {data}, "context": {context}}}')
        answer = await ear.next(f"{SCHEDULE}.response")
        assert (answer["data"]["ok"], answer["data"]["error"]) == (False, "invalid_record")
        listed = await ear.ask("ovos.scheduler.list", {}, CONTEXT)
        assert listed["data"] == {"ok": True, "schedules": []}
        assert ear.heard_types().count(f"{SCHEDULE}.response") == 1


async def test_e13_a_context_that_is_hardly_json_comes_back_as_json(
    bus: OvosBus, tmp_path: Path
) -> None:
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
        await ear.next("ovos.scheduler.ready")
        context = '{"skill_id": "brief", "n": NaN, "half": "\\ud800"}'
        due = ahead(3600)
        text = json.dumps({"type": SCHEDULE, "data": event(at=due)})[:-1]
        await ear.say_text(f'{text}, "context": {context}}}')
        answer = await ear.next(f"{SCHEDULE}.response")
        assert answer["data"]["error"] == "invalid_record"
        assert answer["context"] == {"skill_id": "brief", "n": None, "half": "\ud800"}


_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
_fields = ("id", "event", "at", "in", "every", "local", "data", "until", "count", "misfire")
_request = _value | st.dictionaries(st.sampled_from(_fields), _value, max_size=5)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(verb=st.sampled_from(["schedule", "cancel", "get", "list"]), data=_request, context=_value)
def test_e20_every_request_whatever_it_holds_gets_exactly_one_answer(
    bus: OvosBus, tmp_path: Path, verb: str, data: object, context: object
) -> None:
    async def scenario() -> None:
        async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
            await ear.next("ovos.scheduler.ready")
            request = {"type": f"ovos.scheduler.{verb}", "data": data}
            # The pre-release bus itself keeps a message with a malformed session from everybody.
            await ear.say_text(
                json.dumps(request | {"context": {"skill_id": "brief", "x": context}})
            )
            await ear.next(f"ovos.scheduler.{verb}.response")
            await ear.ask("ovos.scheduler.get", {"id": "no such"}, {"skill_id": "fence"})
            answers = ear.heard_types().count(f"ovos.scheduler.{verb}.response")
            assert answers == (2 if verb == "get" else 1)

    asyncio.run(scenario())


class _StalledScheduler:
    """Answers nothing for a long time, as a service does whose disk stalls."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.is_up = asyncio.Event()

    async def request(self, verb: str, *_: object, **__: object) -> dict[str, object]:
        await self.released.wait()
        return {"ok": True, "schedules": [], "verb": verb}

    def bus_up(self, name: str) -> None:
        self.is_up.set()

    def bus_down(self, name: str) -> None:
        pass

    def replay_now(self, name: str) -> None:
        pass

    def clock_synced(self) -> None:
        pass


async def test_a_list_is_answered_within_half_a_second_always(bus: OvosBus) -> None:
    """A skill that hears nothing in 0.5 s speaks the older protocol for the rest of its life."""
    stalled = _StalledScheduler()
    adapter = OvosAdapter(OvosConfig(port=bus.port), stalled, SystemClock())
    running = asyncio.ensure_future(adapter.run())
    try:
        async with Listener(bus.url) as ear:
            await stalled.is_up.wait()
            began = asyncio.get_running_loop().time()
            answer = await ear.ask("ovos.scheduler.list", {}, CONTEXT)
            assert asyncio.get_running_loop().time() - began < 0.5
            assert answer["data"]["error"] == "internal"
            assert LIST_ANSWER_S < 0.5
            stalled.released.set()
            await ear.ask("ovos.scheduler.get", {"id": "x"}, CONTEXT)
            assert ear.heard_types().count("ovos.scheduler.list.response") == 1
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_an_answer_larger_than_the_bus_carries_is_a_refusal(
    bus: OvosBus, tmp_path: Path
) -> None:
    """The bus disconnects whoever sends such a frame, and nobody would be answered."""
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
        await ear.next("ovos.scheduler.ready")
        big = {"pad": "x" * 16_000}
        for n in range(700):
            schedule = {"id": f"s{n}", "event": "brief.s", "at": ahead(3600), "data": big}
            await ear.say(SCHEDULE, schedule, {"skill_id": "brief"})
        for _ in range(700):
            assert (await ear.next(f"{SCHEDULE}.response"))["data"]["ok"]
        listed = await ear.ask("ovos.scheduler.list", {}, {"skill_id": "brief"})
        assert (listed["data"]["ok"], listed["data"]["error"]) == (False, "internal")
        assert "bytes are more" in listed["data"]["reason"]
        assert (await ear.ask("ovos.scheduler.get", {"id": "s1"}, {"skill_id": "brief"}))["data"][
            "ok"
        ]


async def test_e13_e20_a_request_too_large_to_be_read_is_refused_and_holds_up_nobody(
    bus: OvosBus, tmp_path: Path
) -> None:
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
        await ear.next("ovos.scheduler.ready")
        large = {"skill_id": "brief", "pad": "x" * REQUEST_MAX_CHARS}
        for _ in range(3):
            refused = (await ear.ask(SCHEDULE, event(at=ahead(3600)), large))["data"]
            assert (refused["ok"], refused["error"]) == (False, "invalid_record")
            assert f"the limit is {REQUEST_MAX_CHARS}" in refused["reason"]
        listed = await ear.ask("ovos.scheduler.list", {}, {"skill_id": "brief"})
        assert listed["data"]["schedules"] == []


async def test_e11_a_context_that_could_not_come_back_with_a_fire_is_refused(
    bus: OvosBus, tmp_path: Path
) -> None:
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
        await ear.next("ovos.scheduler.ready")
        context = {"skill_id": "brief", "pad": ""}
        room = CONTEXT_MAX_BYTES - len(json.dumps(context, separators=(",", ":")))
        large = {**context, "pad": "x" * (room + 1)}
        refused = (await ear.ask(SCHEDULE, event(at=ahead(0.2)), large))["data"]
        assert (refused["ok"], refused["error"]) == (False, "invalid_record")
        assert f"the context is {CONTEXT_MAX_BYTES + 1} bytes" in refused["reason"]
        largest = {**context, "pad": "x" * room}
        assert (await ear.ask(SCHEDULE, event(at=ahead(0.2)), largest))["data"]["ok"] is True
        fired = await ear.next("brief.morning")
        assert fired["context"]["pad"] == largest["pad"]


async def test_requests_are_bounded_by_their_size_together(
    bus: OvosBus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What is beyond every bound is dropped and counted; the others are served."""
    monkeypatch.setattr(adapter, "CHARS_IN_PROGRESS_MAX", 5_000)
    caplog.set_level("WARNING")
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
        await ear.next("ovos.scheduler.ready")
        big = {"pad": "x" * 9_000}
        for n in range(4):
            schedule = {"id": f"s{n}", "event": "brief.s", "at": ahead(3600), "data": big}
            await ear.say(SCHEDULE, schedule, {"skill_id": "brief"})
        listed = await ear.ask("ovos.scheduler.list", {}, {"skill_id": "brief"})
        assert listed["data"]["schedules"] == []
        assert "dropped 4 requests" in caplog.text


async def test_a_request_is_answered_without_the_stall_of_a_delayed_acknowledgement(
    bus: OvosBus, tmp_path: Path
) -> None:
    """40 ms, when either end of the way leaves its frames unacknowledged; durable answers, E50."""
    async with Listener(bus.url) as ear, bridge(bus.port, tmp_path / "s.db"):
        await ear.next("ovos.scheduler.ready")
        taken_s = []
        for n in range(60):
            began = time.perf_counter()
            await ear.ask(SCHEDULE, event(at=ahead(3600), data={"n": n}), CONTEXT)
            taken_s.append(time.perf_counter() - began)
        assert sorted(taken_s)[30] < 0.04
