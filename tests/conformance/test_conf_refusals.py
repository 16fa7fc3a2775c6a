"""Each code of a refusal, by requests that are wrong in different ways (E21)."""

import json
from dataclasses import dataclass
from typing import Any, Final

import pytest

from conformance.conftest import ADMINISTRATOR, World
from conformance.ears import Ear
from conformance.instants import at
from conformance.test_conf_requests import full_disk


@dataclass(frozen=True)
class Wrong:
    """A request that must be refused with `code`.

    `OWNER` in a text stands for who asks. `in_context` is the owner that the context claims.
    """

    code: str
    why: str
    data: Any
    verb: str = "schedule"
    in_context: object = "OWNER"


def record(**fields: Any) -> dict[str, Any]:
    """Return a record that is in order but for what is given."""
    whole = {"id": "a", "event": "OWNER.a", **fields}
    return {name: value for name, value in whole.items() if value is not ...}


_AT: Final = {"at": "2031-03-29T07:30:00+01:00"}
_EVERY: Final = {"every": {"seconds": 60}}
_LOCAL: Final = {"time": "07:00", "zone": "Europe/Lisbon"}
_BIG: Final = "x" * 16_384

WRONG: Final = (
    Wrong("invalid_record", "no timing", record()),
    Wrong("invalid_record", "two timings", record(**_AT, **_EVERY)),
    Wrong("invalid_record", "no id", record(id=..., **_AT)),
    Wrong("invalid_record", "id is a list", record(id=["a"], **_AT)),
    Wrong("invalid_record", "a control character in the id", record(id="a\x00b", **_AT)),
    Wrong("invalid_record", "no event", record(event=..., **_AT)),
    Wrong("invalid_record", "an unknown field", record(colour="red", **_AT)),
    Wrong("invalid_record", "data is a text", record(data="text", **_AT)),
    Wrong("invalid_record", "count with a one-shot", record(count=2, **_AT)),
    Wrong("invalid_record", "count of zero", record(count=0, **_EVERY)),
    Wrong("invalid_record", "a negative delay", record(**{"in": {"seconds": -1}})),
    Wrong("invalid_record", "the request is a list", [1]),
    Wrong("invalid_record", "nobody asks", record(**_AT), in_context=None),
    Wrong("invalid_record", "cancel of nothing", {}, verb="cancel"),
    Wrong("invalid_record", "get with an unknown field", {"id": "a", "x": 1}, verb="get"),
    Wrong("invalid_record", "list with a field", {"id": "a"}, verb="list"),
    Wrong("bad_instant", "no offset", record(at="2031-03-29T07:30:00")),
    Wrong("bad_instant", "no such day", record(at="2031-02-30T07:30:00+01:00")),
    Wrong("bad_instant", "no such hour", record(at="2031-03-29T25:00:00+01:00")),
    Wrong("bad_instant", "a word", record(at="tomorrow")),
    Wrong("bad_instant", "a start without offset", record(every={"seconds": 9, "start": "2031"})),
    Wrong("bad_instant", "until is a date", record(until="2031-03-29", **_EVERY)),
    Wrong("bad_recurrence", "a period of zero", record(every={"seconds": 0})),
    Wrong("bad_recurrence", "a negative period", record(every={"seconds": -60})),
    Wrong("bad_recurrence", "no period", record(every={})),
    Wrong("bad_recurrence", "no such zone", record(local=_LOCAL | {"zone": "Mars/Olympus"})),
    Wrong("bad_recurrence", "no such time", record(local=_LOCAL | {"time": "7:00"})),
    Wrong("bad_recurrence", "no days", record(local=_LOCAL | {"days": []})),
    Wrong(
        "bad_recurrence", "over before it begins", record(until="2020-01-01T00:00:00Z", **_EVERY)
    ),
    Wrong("bad_event", "without its owner", record(event="tick", **_AT)),
    Wrong("bad_event", "without a name", record(event="OWNER.", **_AT)),
    Wrong("bad_event", "with a colon", record(event="OWNER.a:b", **_AT)),
    Wrong("bad_event", "of another owner", record(event="other.tick", **_AT)),
    Wrong("payload_too_large", "one text", record(data={"x": _BIG}, **_AT)),
    Wrong("payload_too_large", "many numbers", record(data={"x": [*range(5_000)]}, **_AT)),
    Wrong("payload_too_large", "bytes of UTF-8", record(data={"x": "é" * 8_200}, **_AT)),
    Wrong("skill_id_mismatch", "get of another's", {"id": "theirs"}, verb="get"),
    Wrong("skill_id_mismatch", "cancel of another's", {"id": "theirs"}, verb="cancel"),
    Wrong(
        "skill_id_mismatch",
        "cancel of a named other's",
        {"id": "theirs", "skill_id": "OWNER.other"},
        verb="cancel",
    ),
    Wrong(
        "skill_id_mismatch",
        "cancel of what a named other has not",
        {"id": "nowhere", "skill_id": "OWNER.other"},
        verb="cancel",
    ),
)


def of(owner: str, value: Any) -> Any:
    """Put the owner's name in."""
    return json.loads(json.dumps(value).replace("OWNER", owner))


def test_each_code_is_provoked_by_three_requests_at_least_e21() -> None:
    codes = [each.code for each in WRONG]
    assert {code for code in codes if codes.count(code) >= 3} == {
        *("invalid_record", "bad_instant", "bad_recurrence", "bad_event"),
        *("payload_too_large", "skill_id_mismatch"),
    }


@pytest.mark.parametrize("wrong", WRONG, ids=lambda each: f"{each.code}: {each.why}")
async def test_a_wrong_request_is_refused_once_and_changes_nothing_e21(
    ear: Ear, owner: str, wrong: Wrong
) -> None:
    other = f"{owner}.other"
    await ear.schedule(other, "theirs", at=at(3600))
    await ear.schedule(owner, "mine", at=at(3600))
    before = await ear.ask("list", {}, ADMINISTRATOR)
    claimed = of(owner, wrong.in_context)
    context = {"source": owner} if claimed is None else {"skill_id": claimed, "source": owner}
    mark = ear.mark()
    text = ear.frame(wrong.verb, json.dumps(of(owner, wrong.data)), json.dumps(context))
    answer = (await ear.answer_to(wrong.verb, text, owner)).data
    assert answer.keys() == {"ok", "error", "reason"}
    assert (answer["ok"], answer["error"]) == (False, wrong.code), answer
    assert len(answer["reason"]) < 400
    await ear.fence()
    answers = ear.all(f"ovos.scheduler.{wrong.verb}.response", owner, after=mark)
    fences = 1 if wrong.verb == "get" and ear.name == "ovos" else 0
    assert len(answers) == 1 + fences
    assert await ear.ask("list", {}, ADMINISTRATOR) == before
    await ear.ask("cancel", {"id": "theirs"}, other)


async def test_what_cannot_be_stored_is_internal_e21_e27(
    ear: Ear, owner: str, world: World
) -> None:
    await ear.schedule(owner, "mine", at=at(3600))
    wrong = [
        ("schedule", record(**_AT)),
        ("schedule", record(id="mine", **_EVERY)),
        ("cancel", {"id": "mine"}),
    ]
    with full_disk(world):
        for verb, data in wrong:
            answer = await ear.ask(verb, of(owner, data), owner)
            assert (answer["ok"], answer["error"]) == (False, "internal")
    assert await ear.listed(owner) == ["mine"]
