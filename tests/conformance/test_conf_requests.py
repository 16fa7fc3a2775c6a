"""Requests and answers, seen from outside (E20 to E27)."""

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from conformance.conftest import ADMINISTRATOR, World
from conformance.ears import Ear
from conformance.instants import at

VERBS = ("schedule", "cancel", "get", "list")


def data_of(verb: str, owner: str) -> dict[str, Any]:
    """Return a request that is in order."""
    match verb:
        case "schedule":
            return {"id": "a", "event": f"{owner}.a", "at": at(3600)}
        case "list":
            return {}
        case _:
            return {"id": "a"}


async def test_each_request_has_one_answer_with_its_routing_swapped_e20(
    ear: Ear, owner: str
) -> None:
    context = {
        "skill_id": owner,
        "source": "kitchen",
        "destination": ["hub", "other"],
        "session": {"session_id": "s"},
        "own": [1],
    }
    for verb in VERBS:
        text = ear.frame(verb, json.dumps(data_of(verb, owner)), json.dumps(context))
        answer = await ear.answer_to(verb, text, owner)
        assert answer.data["ok"], answer
        swapped = {**context, "source": "hub", "destination": "kitchen"}
        assert answer.context == swapped
    await ear.fence()
    for verb in VERBS:
        answers = ear.all(f"ovos.scheduler.{verb}.response")
        assert len([each for each in answers if each.context.get("own") == [1]]) == 1


async def test_a_refusal_has_a_code_and_a_sentence_e21(ear: Ear, owner: str) -> None:
    for verb in VERBS[:3]:
        answer = await ear.ask(verb, {"id": 7}, owner)
        assert answer.keys() == {"ok", "error", "reason"}
        assert (answer["ok"], answer["error"]) == (False, "invalid_record")
        assert "id" in answer["reason"]


async def test_what_schedule_answers_e22(ear: Ear, owner: str) -> None:
    due = at(3600)
    body = {"id": "a", "event": f"{owner}.a", "at": due}
    expected = {"ok": True, "id": "a", "skill_id": owner, "next": due}
    assert await ear.ask("schedule", body, owner) == {**expected, "replaced": False}
    assert await ear.ask("schedule", body, owner) == {**expected, "replaced": True}


async def test_to_cancel_what_does_not_exist_is_fine_e23(ear: Ear, owner: str) -> None:
    await ear.schedule(owner, at=at(3600))
    for existed in (True, False, False):
        answer = await ear.ask("cancel", {"id": "a"}, owner)
        assert (answer["ok"], answer["existed"]) == (True, existed)


async def test_what_get_answers_e24(ear: Ear, owner: str) -> None:
    every = {"seconds": 3600, "start": at(1800)}
    due = await ear.schedule(owner, every=every, count=5, data={"n": 1}, grace_s=7)
    answer = await ear.get(owner)
    assert (answer["ok"], answer["existed"]) == (True, True)
    record = answer["record"]
    assert (record["id"], record["event"], record["skill_id"]) == ("a", f"{owner}.a", owner)
    assert (record["every"], record["count"], record["data"]) == (every, 5, {"n": 1})
    assert answer["state"] == {"next": due, "last_fired": None, "missed": [], "remaining": 5}
    nowhere = await ear.get(owner, "nowhere")
    assert nowhere == {"ok": True, "existed": False, "record": None, "state": None}


async def test_list_shows_the_callers_own_and_the_administrator_all_e25(
    ear: Ear, owner: str
) -> None:
    other = f"{owner}.other"
    for who, schedule_id in ((owner, "a"), (owner, "b"), (other, "c")):
        await ear.schedule(who, schedule_id, at=at(3600))
    listed = await ear.ask("list", {}, owner)
    assert [pair["record"]["id"] for pair in listed["schedules"]] == ["a", "b"]
    shown = await ear.get(owner)
    assert listed["schedules"][0] == {"record": shown["record"], "state": shown["state"]}
    everybody = await ear.ask("list", {}, ADMINISTRATOR)
    seen = {(p["record"]["skill_id"], p["record"]["id"]) for p in everybody["schedules"]}
    assert {(owner, "a"), (owner, "b"), (other, "c")} <= seen
    await ear.ask("cancel", {"id": "c"}, other)


async def test_the_same_identity_replaces_as_a_whole_e26_e54(ear: Ear, owner: str) -> None:
    await ear.schedule(owner, at=at(0.3), data={"old": True}, grace_s=7)
    await ear.schedule(owner, every={"seconds": 0.5}, count=1)
    record = (await ear.get(owner))["record"]
    assert "at" not in record
    assert (record["data"], record["grace_s"]) == ({}, 60)
    fires = await ear.fired(owner)
    assert [each.data for each in fires] == [{}]
    assert await ear.listed(owner) == ["a"]


@contextmanager
def full_disk(world: World) -> Iterator[None]:
    """No file of the bridge may grow, as on a disk that is full."""
    limit = resource.RLIMIT_FSIZE
    before = resource.prlimit(world.bridge.pid, limit)
    resource.prlimit(world.bridge.pid, limit, (1, before[1]))
    try:
        yield
    finally:
        resource.prlimit(world.bridge.pid, limit, before)


async def test_on_a_full_disk_the_answer_is_internal_and_nothing_changes_e27(
    ear: Ear, owner: str, world: World
) -> None:
    due = await ear.schedule(owner, at=at(3600))
    with full_disk(world):
        for verb, data in (
            ("schedule", {"id": "b", "event": f"{owner}.b", "at": at(3600)}),
            ("schedule", {"id": "a", "event": f"{owner}.a", "at": at(7200)}),
            ("cancel", {"id": "a"}),
        ):
            answer = await ear.ask(verb, data, owner)
            assert (answer["ok"], answer["error"]) == (False, "internal")
            assert answer["reason"]
        assert await ear.listed(owner) == ["a"]
        assert (await ear.state(owner))["next"] == due
    assert (await ear.ask("cancel", {"id": "a"}, owner))["existed"] is True
