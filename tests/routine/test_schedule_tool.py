"""The `schedule` tool's input (R1 to R6) and its JSON Schema (R7)."""

import json
from datetime import UTC, datetime

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebridge.routine.change import Code, Refusal
from wakebridge.routine.limits import TASK_MAX_CHARS
from wakebridge.routine.routine import Definition
from wakebridge.routine.tool import ARGS_SCHEMA, Cancel, Create, List, Update, parse

RUN_AT = "2026-10-23T09:00:00+02:00"
RUN_AT_NS = int(datetime(2026, 10, 23, 7, tzinfo=UTC).timestamp()) * 1_000_000_000


@pytest.mark.parametrize(
    ("given_input", "request_"),
    [
        (
            {"action": "create", "task": "Check the shipment.", "delay_s": 600},
            Create(Definition("Check the shipment.", delay_s=600)),
        ),
        (
            {"action": "create", "task": "x", "run_at": RUN_AT, "interval_s": 86400},
            Create(Definition("x", run_at_ns=RUN_AT_NS, interval_s=86400)),
        ),
        (
            {"action": "create", "task": "x", "delay_s": 1, "interval_s": 0},
            Create(Definition("x", delay_s=1)),
        ),
        (
            {"action": "create", "task": "x", "delay_s": 604800, "interval_s": 604800},
            Create(Definition("x", delay_s=604800, interval_s=604800)),
        ),
        ({"action": "list"}, List()),
        ({"action": "cancel", "id": "r1"}, Cancel("r1")),
        (
            {"action": "update", "id": "r1", "task": "y", "delay_s": 5},
            Update("r1", Definition("y", delay_s=5)),
        ),
        (
            {"action": "create", "task": "x" * TASK_MAX_CHARS, "delay_s": 1},
            Create(Definition("x" * TASK_MAX_CHARS, delay_s=1)),
        ),
    ],
)
def test_r1_to_r4_what_is_accepted(given_input: object, request_: object) -> None:
    assert parse(given_input) == request_


def create(**fields: object) -> dict[str, object]:
    return {"action": "create", "task": "x", "delay_s": 600, **fields}


@pytest.mark.parametrize(
    ("given_input", "field", "said"),
    [
        (create(run_at=RUN_AT), "run_at", "exclude each other"),
        ({"action": "create", "task": "x"}, "delay_s", "neither delay_s nor run_at"),
        (create(delay_s=0), "delay_s", "from 1 to 604800"),
        (create(delay_s=-1), "delay_s", "from 1 to 604800"),
        (create(delay_s=604801), "delay_s", "from 1 to 604800"),
        (create(delay_s=10**30), "delay_s", "from 1 to 604800"),
        (create(delay_s=600.0), "delay_s", "not float"),
        (create(delay_s=1.5), "delay_s", "not float"),
        (create(delay_s=True), "delay_s", "not bool"),
        (create(delay_s="600"), "delay_s", "not str"),
        (create(delay_s=None), "delay_s", "not null"),
        (create(interval_s=-1), "interval_s", "or 0 for once"),
        (create(interval_s=604801), "interval_s", "from 1 to 604800"),
        (create(interval_s=60.0), "interval_s", "not float"),
        (create(interval_s=False), "interval_s", "not bool"),
        (create(task=""), "task", "not blank"),
        (create(task=" \t\n"), "task", "not blank"),
        (create(task="x" * (TASK_MAX_CHARS + 1)), "task", f"1 to {TASK_MAX_CHARS}"),
        (create(task="x" * 1_000_000), "task", f"1 to {TASK_MAX_CHARS}"),
        (create(task=7), "task", "not int"),
        (create(task=None), "task", "not null"),
        ({"action": "create", "delay_s": 1}, "task", "task is missing"),
        (create(when="soon"), "when", "no field 'when'"),
        (create(id="r1"), "id", "no field 'id'"),
        ({"action": "list", "all": True}, "all", "no field 'all'"),
        ({"action": "cancel"}, "id", "id is missing"),
        ({"action": "cancel", "id": ""}, "id", "1 to 200"),
        ({"action": "cancel", "id": 5}, "id", "not int"),
        ({"action": "update", "task": "x", "delay_s": 1}, "id", "id is missing"),
        ({"action": "delete"}, "action", "one of create, list, update, cancel"),
        ({"action": 1}, "action", "one of create, list, update, cancel"),
        ({}, "action", "action is missing"),
        ([], "input", "JSON object"),
        (None, "input", "JSON object"),
        ("create", "input", "JSON object"),
    ],
)
def test_r1_to_r4_what_is_refused_names_its_field(
    given_input: object, field: str, said: str
) -> None:
    refusal = parse(given_input)
    assert isinstance(refusal, Refusal)
    assert refusal.code is Code.INVALID
    assert refusal.field == field
    assert said in refusal.reason


@pytest.mark.parametrize(
    "run_at",
    [
        "2026-10-23T09:00:00",
        "2026-10-23",
        "2026-02-30T09:00:00Z",
        "tomorrow",
        "1761202800",
        "2026-10-23T09:00:00 +02:00",
        "",
        "x" * 65,
    ],
)
def test_r1_run_at_needs_an_explicit_zone(run_at: str) -> None:
    refusal = parse({"action": "create", "task": "x", "run_at": run_at})
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.field) == (Code.INVALID, "run_at")
    assert "run_at" in refusal.reason


def test_r7_the_schema_is_a_json_schema_for_one_object() -> None:
    jsonschema.Draft202012Validator.check_schema(ARGS_SCHEMA)
    assert ARGS_SCHEMA["type"] == "object"
    assert ARGS_SCHEMA["properties"]["action"]["enum"] == ["create", "list", "update", "cancel"]
    assert "$ref" not in json.dumps(ARGS_SCHEMA)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 604_802),
    st.integers(min_value=10**20),
    # An integral float is an integer to JSON Schema, and a float to us.
    st.floats(allow_nan=False).filter(lambda f: not f.is_integer()),
    st.text(max_size=6),
    st.sampled_from(["create", "list", "update", "cancel", "r1", "Check it."]),
)


@given(
    st.one_of(
        st.dictionaries(
            st.sampled_from(["action", "task", "delay_s", "run_at", "interval_s", "id", "extra"]),
            SCALARS,
        ),
        st.fixed_dictionaries(
            {"action": st.sampled_from(["create", "update", "list", "cancel", "stop"])},
            optional={
                "task": st.one_of(SCALARS, st.just("Check it.")),
                "delay_s": st.one_of(SCALARS, st.integers(1, 604_800)),
                "run_at": st.just(RUN_AT),
                "interval_s": st.one_of(SCALARS, st.integers(0, 604_800)),
                "id": st.one_of(SCALARS, st.just("r1")),
            },
        ),
        SCALARS,
    )
)
def test_r7_the_schema_allows_exactly_what_is_accepted(value: object) -> None:
    valid = jsonschema.Draft202012Validator(ARGS_SCHEMA).is_valid(value)
    parsed = parse(value)
    if isinstance(value, dict) and isinstance(value.get("run_at"), str) and valid:
        return  # the schema only knows that it is a date-time
    assert isinstance(parsed, Refusal) != valid, parsed
