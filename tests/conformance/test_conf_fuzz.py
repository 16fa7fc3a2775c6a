"""Every field of every request with any value at all, seen from outside (E13, E20, E21, E27).

Whatever it is: exactly one answer, nothing stored unless it says ok, and the next request works.
"""

import asyncio
import contextlib
import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance.conftest import World
from conformance.ears import Ear, mqtt_ear, ovos_ear
from conformance.instants import at

EXAMPLES: Final = 25
IN_ONE: Final = 12
"""Requests of one example, over one connection."""

CODES: Final = {
    *("invalid_record", "bad_instant", "bad_recurrence", "bad_event"),
    *("payload_too_large", "skill_id_mismatch", "internal"),
}

RECORDS: Final[tuple[dict[str, Any], ...]] = (
    {"at": "2031-03-29T07:30:00+01:00"},
    {"in": {"seconds": 3600}},
    {"every": {"seconds": 3600, "start": "2031-03-29T07:30:00+01:00"}, "count": 3},
    {
        "local": {"time": "07:30", "zone": "Europe/Lisbon", "days": ["mon"]},
        "until": "2031-12-31T00:00:00Z",
    },
)
OPTIONS: Final[dict[str, Any]] = {
    "data": {"n": 1},
    "misfire": "late",
    "grace_s": 60,
    "ephemeral": False,
}

FIELDS: Final = (
    *(("id",), ("event",), ("at",), ("in",), ("in", "seconds"), ("every",), ("every", "seconds")),
    *(("every", "start"), ("local",), ("local", "time"), ("local", "zone"), ("local", "days")),
    *(("data",), ("data", "n"), ("until",), ("count",), ("misfire",), ("grace_s",)),
    *(("ephemeral",), ("skill_id",), ("context",), ("unknown",)),
)
"""Where in the body a value is put."""

_numbers = (
    st.integers()
    | st.floats()
    | st.sampled_from([0, -1, 2**31, 2**63, 2**64, 10**30, 10**400, 1e-9, 1e-300, 1e308])
)
_texts = st.text(max_size=12) | st.sampled_from(
    [
        "",
        "\x00",
        "\ud800",
        "a" * 300,
        "x" * 20_000,
        "2031-03-29T07:30:00",
        "2031-03-29T07:30:00Z",
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:60+00:00",
        "24:00",
        "../../etc/passwd",
        "#",
        "+/+",
    ]
)
_anything = st.recursive(
    st.none() | st.booleans() | _numbers | _texts,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=8,
)


@dataclass(frozen=True)
class Mutant:
    """A request in which one thing is not what it should be, or may be."""

    verb: str
    form: int
    where: tuple[str, ...]
    value: Any
    in_context: bool

    def parts(self, owner: str) -> tuple[str, str]:
        """Return data and context as texts."""
        body: dict[str, Any] = {} if self.verb == "list" else {"id": "fuzzed"}
        if self.verb == "schedule":
            body |= {"event": f"{owner}.x", **RECORDS[self.form], **OPTIONS}
        context: dict[str, Any] = {"skill_id": owner, "source": owner}
        if self.in_context:
            # The key stays that tells whose the answer is; all others are anybody's.
            context[self.where[-1]] = self.value
            context["skill_id"] = owner
            return json.dumps(body), json.dumps(context)
        if len(self.where) == 2 and isinstance(body.get(self.where[0]), dict):
            body[self.where[0]] = body[self.where[0]] | {self.where[1]: self.value}
        else:
            body[self.where[0]] = self.value
        return json.dumps(body), json.dumps(context)


_mutants = st.builds(
    Mutant,
    verb=st.sampled_from(["schedule"] * 6 + ["cancel", "get", "list"]),
    form=st.integers(0, len(RECORDS) - 1),
    where=st.sampled_from(FIELDS),
    value=_anything,
    in_context=st.sampled_from([False] * 7 + [True]),
)


def stored(state_file: Path, owner: str) -> list[tuple[Any, ...]]:
    """Return what the store holds of an owner."""
    with contextlib.closing(sqlite3.connect(f"file:{state_file}?mode=ro", uri=True)) as db:
        found = db.execute("SELECT * FROM schedules WHERE skill_id = ? ORDER BY id", (owner,))
        return found.fetchall()


async def try_all(ear: Ear, owner: str, mutants: list[Mutant], state_file: Path) -> None:
    """Send each, and look at what it did."""
    await ear.schedule(owner, "kept", at=at(3600))
    for mutant in mutants:
        before = stored(state_file, owner)
        mark = ear.mark()
        text = ear.frame(mutant.verb, *mutant.parts(owner))
        answer = (await ear.answer_to(mutant.verb, text, owner)).data
        # The next request works, and by then a second answer to this one would have been heard.
        assert (await ear.ask("cancel", {"id": "nothing"}, owner))["existed"] is False
        answers = ear.all(f"ovos.scheduler.{mutant.verb}.response", owner, after=mark)
        assert len(answers) == (2 if mutant.verb == "cancel" else 1), mutant
        if answer["ok"]:
            for schedule_id in await ear.listed(owner):
                if schedule_id != "kept":
                    await ear.ask("cancel", {"id": schedule_id}, owner)
        else:
            assert answer["error"] in CODES, (mutant, answer)
            assert answer["error"] != "internal", (mutant, answer)
            assert answer["reason"]
            assert stored(state_file, owner) == before, mutant
    assert await ear.listed(owner) == ["kept"]


@pytest.mark.parametrize("over", ["mqtt", "ovos"])
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)
@given(mutants=st.lists(_mutants, min_size=IN_ONE, max_size=IN_ONE))
def test_whatever_a_field_holds_one_answer_and_nothing_stored_unless_ok_e13_e20_e21_e27(
    world: World, owner: str, state_file: Path, over: str, mutants: list[Mutant]
) -> None:
    async def scenario() -> None:
        made = mqtt_ear(world.broker.port) if over == "mqtt" else ovos_ear(world.ovos.url)
        async with made as ear:
            await try_all(ear, owner, mutants, state_file)

    asyncio.run(scenario())


_junk = st.one_of(
    st.text(max_size=40),
    _anything.map(json.dumps),
    st.sampled_from(["{", "[1,", '{"data": {}', "nul", '"\\ud800"', "[" * 500, '{"a":' * 500]),
)


@pytest.mark.parametrize("over", ["mqtt"])
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(junk=st.lists(_junk, min_size=IN_ONE, max_size=IN_ONE))
def test_a_payload_that_is_no_message_at_all_has_one_answer_e13_e20(
    world: World, owner: str, over: str, junk: list[str]
) -> None:
    """On the OVOS bus what has no type is no message, and cannot be answered."""

    async def scenario() -> None:
        async with mqtt_ear(world.broker.port) as ear:
            for text in junk:
                mark = ear.mark()
                payload = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
                answer = (await ear.answer_to("schedule", payload, owner)).data
                assert answer["ok"] is False, text
                assert answer["error"] in {"invalid_record", "skill_id_mismatch"}, (text, answer)
                assert (await ear.ask("list", {}, owner))["ok"], "the next request works"
                kind = "ovos.scheduler.schedule.response"
                assert len(ear.all(kind, owner, after=mark)) == 1

    asyncio.run(scenario())
