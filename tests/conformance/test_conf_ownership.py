"""Who may do what, seen from outside (E60 to E63)."""

import pytest

from conformance.conftest import ADMINISTRATOR
from conformance.ears import Ear
from conformance.instants import at


async def test_the_owner_is_named_by_the_context_e60(ear: Ear, owner: str) -> None:
    """Before anything else is looked at, and never by the body."""
    body = {"id": 7, "event": f"{owner}.a", "skill_id": owner}
    for context in ({}, {"source": owner}, {"skill_id": ""}, {"skill_id": ["x"]}):
        for verb in ("schedule", "cancel", "get", "list"):
            answer = await ear.ask(verb, body, owner, context)
            assert answer["error"] == "invalid_record"
            assert "skill_id" in answer["reason"]


async def test_others_cannot_read_replace_or_cancel_e61(ear: Ear, owner: str) -> None:
    other = f"{owner}.other"
    due = await ear.schedule(owner, at=at(3600))
    for verb in ("get", "cancel"):
        for data in ({"id": "a"}, {"id": "a", "skill_id": owner}):
            answer = await ear.ask(verb, data, other)
            codes = {"skill_id_mismatch"}
            if verb == "get" and "skill_id" in data:
                codes = {"invalid_record"}  # `get` has no such field
            assert answer["error"] in codes, (verb, data, answer)
    # The same id of another owner is another schedule.
    answer = await ear.ask("schedule", {"id": "a", "event": f"{other}.a", "at": at(60)}, other)
    assert (answer["ok"], answer["replaced"]) == (True, False)
    assert (await ear.ask("cancel", {"id": "a"}, other))["existed"] is True
    assert (await ear.state(owner))["next"] == due


async def test_the_administrator_lists_and_cancels_and_no_more_e62(ear: Ear, owner: str) -> None:
    for schedule_id in ("a", "b"):
        await ear.schedule(owner, f"{owner}-{schedule_id}", at=at(3600))
    everybody = (await ear.ask("list", {}, ADMINISTRATOR))["schedules"]
    assert f"{owner}-a" in [pair["record"]["id"] for pair in everybody]
    answer = await ear.ask("cancel", {"id": f"{owner}-a"}, ADMINISTRATOR)
    assert (answer["ok"], answer["existed"], answer["skill_id"]) == (True, True, owner)
    named = {"id": f"{owner}-b", "skill_id": owner}
    assert (await ear.ask("cancel", named, ADMINISTRATOR))["existed"] is True
    await ear.schedule(owner, at=at(3600))
    assert (await ear.get(ADMINISTRATOR))["error"] == "skill_id_mismatch"
    body = {"id": "x", "event": f"{owner}.x", "at": at(3600)}
    assert (await ear.ask("schedule", body, ADMINISTRATOR))["error"] == "bad_event"
    assert await ear.listed(owner) == ["a"]


@pytest.mark.parametrize("ear", ["mqtt"], indirect=True)
async def test_an_authenticated_identity_must_match_e63(ear: Ear, owner: str) -> None:
    """Over MQTT it is the level of the topic, which the broker's own rules guard."""
    other = f"{owner}.other"
    body = {"id": "a", "event": f"{other}.a", "at": at(3600)}
    for verb, data in (
        ("schedule", body),
        ("cancel", {"id": "a"}),
        ("get", {"id": "a"}),
        ("list", {}),
    ):
        answer = await ear.ask(verb, data, owner, {"skill_id": other})
        assert answer["error"] == "skill_id_mismatch"
    assert await ear.listed(other) == []
