"""The envelope of a tool call (R7, R8)."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routine_world import World
from wakebridge.routine.change import Code, Refusal
from wakebridge.routine.envelope import (
    Call,
    NamedCall,
    ToolInfo,
    answer,
    error_output_of,
    output_of,
    read_call,
    read_named_call,
)
from wakebridge.routine.modes import Caller
from wakebridge.routine.tool import ARGS_SCHEMA, DESCRIPTION
from wakebridge.routine.view import view_of, views_of

LIST = {"action": "list"}


@pytest.mark.parametrize(
    ("body", "call"),
    [
        (b'{"input": {"action": "list"}}', Call(LIST, '{"action": "list"}')),
        (b'{"raw_input": "{\\"action\\": \\"list\\"}"}', Call(LIST, '{"action": "list"}')),
        (
            b'{"input":{"action":"list"},"session_id":"s1"}',
            Call(LIST, '{"action":"list"}', "s1"),
        ),
        (b'{"raw_input": "{}", "session_id": "s1"}', Call({}, "{}", "s1")),
    ],
)
def test_r7_a_call_has_an_input_or_a_raw_input(body: bytes, call: Call) -> None:
    assert read_call(body) == call


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", None),
        (b"{", None),
        (b"[]", None),
        (b"\xff\xfe", None),
        (b'{"input": "\xff"}', None),
        (b'{"input": {}, "raw_input": "{}"}', "raw_input"),
        (b"{}", "input"),
        (b'{"session_id": "s1"}', "input"),
        (b'{"input": {}, "session_id": ""}', "session_id"),
        (b'{"input": {}, "session_id": 4}', None),
        (b'{"input": {}, "session_id": "a\\nb"}', "session_id"),
        (b'{"input": null}', "input"),
        (b'{"input": [1]}', "input"),
        (b'{"raw_input": 5}', None),
        (b'{"input": {}, "mode": "x"}', None),
        (b'{"input": ' + b"[" * 100_000, None),
        (b'{"input": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", None),
    ],
)
def test_r7_what_is_not_a_call_is_refused(body: bytes, field: str | None) -> None:
    refusal = read_call(body)
    assert isinstance(refusal, Refusal)
    assert refusal.code is Code.INVALID
    if field is not None:
        assert refusal.field == field


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", "[" * 100_000, "list my schedules"])
def test_r7_what_an_agent_wrote_instead_of_json_is_a_matter_of_the_tool(text: str) -> None:
    call = read_call(json.dumps({"raw_input": text}).encode())
    assert isinstance(call, Call)
    assert call.raw_input == text
    assert isinstance(call.input, Refusal)
    assert (call.input.code, call.input.field) == (Code.INVALID, "raw_input")


@pytest.mark.parametrize(
    ("payload", "tool", "agent"),
    [
        ({"input": {}}, "schedule", "backend"),
        ({"input": {}, "agent": "foreground"}, "schedule", "foreground"),
        ({"input": {}, "tool": "create_agent_task"}, "create_agent_task", "backend"),
    ],
)
def test_r11_where_there_are_no_headers_the_payload_names_tool_and_agent(
    payload: dict[str, object], tool: str, agent: str
) -> None:
    named = read_named_call(payload)
    assert named == NamedCall(Call({}, "{}"), tool, Caller(agent))


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ([], None),
        ({"input": {}, "tool": "shell"}, "tool"),
        ({"input": {}, "tool": ["schedule"]}, "tool"),
        ({"input": {}, "agent": 1}, "agent"),
        ({"input": {}, "agent": {}}, "agent"),
    ],
)
def test_r11_a_payload_that_names_neither_is_refused(payload: object, field: str | None) -> None:
    refusal = read_named_call(payload)
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.field) == (Code.INVALID, field)


@given(st.binary(max_size=200))
def test_r7_no_body_whatever_makes_it_raise(body: bytes) -> None:
    assert isinstance(read_call(body), Call | Refusal)


def test_r7_r8_the_answer_has_all_six_fields_and_output_is_json_text() -> None:
    world = World()
    world.create(delay_s=600)
    info = ToolInfo("schedule", DESCRIPTION, ARGS_SCHEMA)
    output = output_of(view_of(world.state, world.routine()), "")
    sent = answer(info, "{}", output, is_error=False, duration_ms=3, called_ns=world.now.wall_ns)
    decoded = json.loads(msgspec.json.encode(sent))
    assert list(decoded) == [
        "tool",
        "raw_input",
        "output",
        "is_error",
        "duration_ms",
        "called_at",
    ]
    assert decoded["tool"] == {"name": "schedule", "description": DESCRIPTION}
    assert decoded["called_at"] == "2027-01-15T08:00:00+00:00"
    result = json.loads(decoded["output"])
    assert list(result) == ["result", "timer_error"]
    assert result["timer_error"] == ""
    assert result["result"]["status"] == "scheduled"
    assert result["result"]["next_run"] == "2027-01-15T08:10:00+00:00"


def test_r2_r8_a_list_is_an_array_and_carries_the_timer_error() -> None:
    output = json.loads(output_of(views_of(World().state), "the board does not answer"))
    assert output == {"result": [], "timer_error": "the board does not answer"}


def test_r7_an_error_says_code_reason_and_field() -> None:
    refusal = Refusal(Code.UNKNOWN_ID, "there is no routine 'r9'", "id")
    assert json.loads(error_output_of(refusal)) == {
        "error": {"code": "unknown_id", "reason": "there is no routine 'r9'", "field": "id"}
    }
