"""The record, seen from outside (E1 to E13)."""

import json
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest

from conformance.ears import Ear
from conformance.instants import at, in_s, moment, next_local


def event(owner: str, schedule_id: str = "a", **fields: Any) -> dict[str, Any]:
    return {"id": schedule_id, "event": f"{owner}.tick", **fields}


async def refused(ear: Ear, owner: str, code: str, **fields: Any) -> str:
    """Have a schedule refused; return the reason."""
    answer = await ear.ask("schedule", event(owner, **fields), owner)
    assert (answer["ok"], answer["error"]) == (False, code), (fields, answer)
    return str(answer["reason"])


async def test_an_id_is_the_idempotency_key_of_its_owner_e1(ear: Ear, owner: str) -> None:
    other = f"{owner}.other"
    for who in (owner, other):
        answer = await ear.ask("schedule", event(who, "same", at=at(3600)), who)
        assert (answer["ok"], answer["replaced"]) == (True, False)
    again = await ear.ask("schedule", event(owner, "same", at=at(7200)), owner)
    assert again["replaced"] is True
    assert await ear.listed(owner) == await ear.listed(other) == ["same"]
    await ear.ask("cancel", {"id": "same"}, other)
    for bad in ("", 7, None, ["a"]):
        answer = await ear.ask("schedule", event(owner, at=at(3600)) | {"id": bad}, owner)
        assert answer["error"] == "invalid_record"


async def test_an_event_is_named_after_its_owner_e2(ear: Ear, owner: str) -> None:
    for bad in ("tick", f"{owner}.", f"{owner}.a:b", f"other.{owner}.tick", f"{owner}x.tick"):
        await refused(ear, owner, "bad_event", at=at(3600), event=bad)
    answer = await ear.ask("schedule", event(owner, at=at(3600)) | {"event": f"{owner}.a.b"}, owner)
    assert answer["ok"]


async def test_exactly_one_of_the_four_forms_e3(ear: Ear, owner: str) -> None:
    await refused(ear, owner, "invalid_record")
    await refused(ear, owner, "invalid_record", at=at(60), **{"in": {"seconds": 60}})
    every = {"seconds": 60}
    local = {"time": "07:00", "zone": "Europe/Lisbon"}
    await refused(ear, owner, "invalid_record", every=every, local=local)


async def test_instants_have_an_offset_e4(ear: Ear, owner: str) -> None:
    wanted = in_s(86_400).replace(microsecond=0)
    for offset in ("+00:00", "-07:00", "+05:45"):
        hours, minutes = int(offset[:3]), int(offset[0] + offset[4:])
        shifted = wanted + timedelta(hours=hours, minutes=minutes)
        written = shifted.replace(tzinfo=None).isoformat() + offset
        assert moment(await ear.schedule(owner, at=written)) == wanted
    for bad in (wanted.replace(tzinfo=None).isoformat(), "tomorrow", "2031-02-29T00:00:00+00:00"):
        await refused(ear, owner, "bad_instant", at=bad)


async def test_a_delay_counts_from_acceptance_e5(ear: Ear, owner: str) -> None:
    before = datetime.now(UTC)
    delay: dict[str, Any] = {"in": {"seconds": 0.2}}
    due = moment(await ear.schedule(owner, **delay))
    after = datetime.now(UTC)
    late = timedelta(milliseconds=1)  # it falls on a whole millisecond
    assert before <= due - timedelta(seconds=0.2) <= after + late
    fires = await ear.fired(owner)
    assert moment(fires[0].fire["due"]) == due
    for bad in (0, -1, "60", None):
        await refused(ear, owner, "invalid_record", **{"in": {"seconds": bad}})


async def test_a_period_is_anchored_and_keeps_its_anchor_e6(ear: Ear, owner: str) -> None:
    start = datetime(2020, 1, 1, 12, 0, 0, 123_000, UTC)
    every = {"seconds": 86_399, "start": start.isoformat()}
    due = moment(await ear.schedule(owner, every=every))
    assert (due - start) % timedelta(seconds=86_399) == timedelta(0)
    assert timedelta(0) < due - datetime.now(UTC) <= timedelta(seconds=86_399)
    # Neither another time of asking nor other data moves it.
    kept = await ear.schedule(owner, every={"seconds": 86_399}, data={"n": 2})
    assert moment(kept) == due
    before = datetime.now(UTC)
    fresh = moment(await ear.schedule(owner, every={"seconds": 3600}))
    assert before <= fresh - timedelta(hours=1) <= datetime.now(UTC) + timedelta(milliseconds=1)


@pytest.mark.parametrize("zone", ["Europe/Lisbon", "America/St_Johns", "Asia/Kathmandu"])
async def test_a_wall_clock_time_is_that_of_its_zone_e7_e7d(
    ear: Ear, owner: str, zone: str
) -> None:
    """The bridge runs with a zone of its own that is far from all of these."""
    days = ("mon", "wed", "sun")
    local = {"time": "12:34:56", "zone": zone, "days": [*days]}
    due = moment(await ear.schedule(owner, local=local))
    assert due == next_local(time(12, 34, 56), zone, days)
    daily = moment(await ear.schedule(owner, "daily", local={"time": "12:34", "zone": zone}))
    assert daily == next_local(time(12, 34), zone)


async def test_data_is_an_object_of_16384_bytes_at_most_e8(ear: Ear, owner: str) -> None:
    await ear.schedule(owner, at=at(3600))
    assert (await ear.get(owner))["record"]["data"] == {}
    room = 16_384 - len('{"k":""}')
    await ear.schedule(owner, at=at(3600), data={"k": "x" * room})
    assert len((await ear.get(owner))["record"]["data"]["k"]) == room
    await refused(ear, owner, "payload_too_large", at=at(3600), data={"k": "x" * (room + 1)})
    # Bytes of UTF-8 count, not characters; é has two.
    await ear.schedule(owner, at=at(3600), data={"k": "é" * (room // 2)})
    await refused(ear, owner, "payload_too_large", at=at(3600), data={"k": "é" * room})


async def test_count_and_until_bound_a_recurrence_e9(ear: Ear, owner: str) -> None:
    for form in ({"at": at(60)}, {"in": {"seconds": 60}}):
        await refused(ear, owner, "invalid_record", **form, count=2)
        await refused(ear, owner, "invalid_record", **form, until=at(600))
    await ear.schedule(owner, "counted", every={"seconds": 0.1}, count=3)
    start = in_s(0.3)
    until = (start + timedelta(seconds=0.25)).isoformat()
    every = {"seconds": 0.1, "start": start.isoformat()}
    await ear.schedule(owner, "bounded", every=every, until=until)
    for schedule_id in ("counted", "bounded"):
        fires = await ear.fired(owner, schedule_id, times=3)
        remaining = [2, 1, 0] if schedule_id == "counted" else [None, None, None]
        assert [each.fire["remaining"] for each in fires] == remaining
        await ear.fence()
        assert (await ear.state(owner, schedule_id))["next"] is None


async def test_the_defaults_of_misfire_grace_and_ephemeral_e10(ear: Ear, owner: str) -> None:
    await ear.schedule(owner, at=at(3600))
    record = (await ear.get(owner))["record"]
    shown = (record["misfire"], record["grace_s"], record["ephemeral"])
    assert shown == ("late", 60, False)
    for field, bad in (("misfire", "never"), ("grace_s", -1), ("ephemeral", "yes")):
        await refused(ear, owner, "invalid_record", at=at(3600), **{field: bad})


async def test_the_context_is_the_requests_own_and_verbatim_e11(ear: Ear, owner: str) -> None:
    context = {
        "skill_id": owner,
        "source": "sat-7",
        "destination": ["hub", "other"],
        "session": {"session_id": "sat-7-kitchen", "lang": "pt-PT"},
        "nested": [1, 2.5, {"é": None}],
    }
    answer = await ear.ask("schedule", event(owner, at=at(3600)), owner, context)
    assert answer["ok"]
    assert (await ear.get(owner))["record"]["context"] == context
    assert "context" in await refused(ear, owner, "invalid_record", at=at(3600), context={})


async def test_a_recurrence_without_an_occurrence_is_bad_e12(ear: Ear, owner: str) -> None:
    zone = "Europe/Lisbon"
    wrong: tuple[dict[str, Any], ...] = (
        {"every": {"seconds": 0}},
        {"every": {}},
        {"every": {"seconds": 60}, "until": "2020-01-01T00:00:00+00:00"},
        {"local": {"time": "24:00", "zone": zone}},
        {"local": {"time": "07:00", "zone": "Europe/Lisbonne"}},
        {"local": {"time": "07:00", "zone": zone, "days": []}},
        {"local": {"time": "07:00", "zone": zone, "days": ["monday"]}},
    )
    for fields in wrong:
        await refused(ear, owner, "bad_recurrence", **fields)


async def test_every_field_is_checked_and_unknown_ones_are_named_e13(ear: Ear, owner: str) -> None:
    good = event(owner, every={"seconds": 60})
    for field, wrong in (
        ("event", 7),
        ("every", [60]),
        ("data", "text"),
        ("until", 1_900_000_000),
        ("count", 1.5),
        ("count", True),
        ("misfire", None),
        ("grace_s", "60"),
        ("ephemeral", 1),
    ):
        answer = await ear.ask("schedule", good | {field: wrong}, owner)
        assert answer["error"] == "invalid_record", (field, wrong, answer)
        assert field in answer["reason"]
    for field in ("colour", "skill_id", "next"):
        assert field in await refused(ear, owner, "invalid_record", at=at(60), **{field: "x"})
    assert await ear.listed(owner) == []


async def test_numbers_that_are_not_finite_are_refused_e13(ear: Ear, owner: str) -> None:
    """Not JSON, and yet on every bus: Python's own encoder writes them."""
    context = json.dumps({"skill_id": owner, "source": owner})
    for number in ("NaN", "Infinity", "-Infinity", "1e999"):
        body = f'{{"id": "a", "event": "{owner}.a", "in": {{"seconds": {number}}}}}'
        answer = await ear.answer_to("schedule", ear.frame("schedule", body, context), owner)
        assert answer.data["error"] == "invalid_record"


async def test_z_is_taken_and_a_numeric_offset_answered_e13(ear: Ear, owner: str) -> None:
    written = in_s(3600).replace(microsecond=0, tzinfo=None).isoformat()
    assert await ear.schedule(owner, at=f"{written}Z") == f"{written}+00:00"
    assert (await ear.get(owner))["record"]["at"] == f"{written}+00:00"
