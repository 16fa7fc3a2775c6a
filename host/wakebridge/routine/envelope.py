"""The envelope that all tools share (R7, R8): how a call comes in, how its answer goes out."""

from typing import Any

import msgspec

from wakebridge.routine import modes
from wakebridge.routine.change import Code, Refusal
from wakebridge.routine.limits import SESSION_ID_RULE
from wakebridge.routine.lineage import is_session_id
from wakebridge.schedule.instants import format_instant


class Call(msgspec.Struct, frozen=True):
    """One call of a tool: its decoded input, and the JSON text that came or would have come.

    `input` is a refusal where the text is what an agent wrote and no JSON object: a matter between
    the tool and the agent. `session_id` is the caller's session where the envelope names one.
    """

    input: dict[str, Any] | Refusal
    raw_input: str
    session_id: str | None = None


class NamedCall(msgspec.Struct, frozen=True):
    """A call with the tool it is for and the agent that makes it."""

    call: Call | Refusal
    tool: str = modes.SCHEDULE
    agent: modes.Caller = modes.Caller.BACKEND


class ToolInfo(msgspec.Struct, frozen=True):
    """One entry of `GET /api/tools`."""

    name: str
    description: str
    args_schema: dict[str, Any]


class ToolName(msgspec.Struct, frozen=True):
    """Which tool an answer is from."""

    name: str
    description: str


class ToolAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a call. `output` is a JSON text; `called_at` is RFC 3339."""

    tool: ToolName
    raw_input: str
    output: str
    is_error: bool
    duration_ms: int
    called_at: str


class _Envelope(msgspec.Struct, forbid_unknown_fields=True):
    input: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    raw_input: str | msgspec.UnsetType = msgspec.UNSET
    session_id: str | msgspec.UnsetType = msgspec.UNSET


def read_call(body: bytes) -> Call | Refusal:
    """Return the call in a request body: `{"input": {...}}` or `{"raw_input": "..."}`.

    Either may come with a `session_id`. Never raises for what a client sent.
    """
    try:
        # By hand, because msgspec does not look into what it keeps raw.
        envelope = msgspec.json.decode(body.decode(), type=_Envelope)
    except UnicodeDecodeError as error:
        return Refusal(Code.INVALID, f"the request is not UTF-8 at byte {error.start}")
    except msgspec.ValidationError as error:
        return Refusal(Code.INVALID, f"the request is not a tool call: {error}")
    except (msgspec.DecodeError, RecursionError) as error:
        return Refusal(Code.INVALID, f"the request is not JSON: {error}")
    session_id = None
    if envelope.session_id is not msgspec.UNSET:
        session_id = envelope.session_id
        if not is_session_id(session_id):
            return Refusal(Code.INVALID, f"session_id is {SESSION_ID_RULE}", "session_id")
    if envelope.input is not msgspec.UNSET and envelope.raw_input is not msgspec.UNSET:
        reason = "input and raw_input exclude each other: give exactly one of them"
        return Refusal(Code.INVALID, reason, "raw_input")
    if envelope.input is not msgspec.UNSET:
        raw_input = bytes(envelope.input).decode()
        value = _object(raw_input, "input")
        return value if isinstance(value, Refusal) else Call(value, raw_input, session_id)
    if envelope.raw_input is not msgspec.UNSET:
        raw_input = envelope.raw_input
        return Call(_object(raw_input, "raw_input"), raw_input, session_id)
    reason = 'neither input nor raw_input is given: send {"input": {...}}'
    return Refusal(Code.INVALID, reason, "input")


def read_named_call(payload: object) -> NamedCall | Refusal:
    """Return the call in a decoded payload that may name `tool` and `agent` beside the envelope."""
    if not isinstance(payload, dict):
        return Refusal(Code.INVALID, 'a tool call is an object: {"input": {...}}')
    rest = dict(payload)
    tool, agent = rest.pop("tool", modes.SCHEDULE), rest.pop("agent", modes.Caller.BACKEND)
    if tool not in (modes.SCHEDULE, modes.CREATE_AGENT_TASK):
        reason = f"tool is {modes.SCHEDULE} or {modes.CREATE_AGENT_TASK}"
        return Refusal(Code.INVALID, reason, "tool")
    if agent not in tuple(modes.Caller):
        return Refusal(Code.INVALID, "agent is foreground or backend", "agent")
    return NamedCall(read_call(msgspec.json.encode(rest)), tool, modes.Caller(agent))


def _object(text: str, field: str) -> dict[str, Any] | Refusal:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        return Refusal(Code.INVALID, f"{field} is not JSON: {error}", field)
    if not isinstance(value, dict):
        return Refusal(Code.INVALID, f"{field} is a JSON object with an action", field)
    return value


def output_of(result: object, timer_error: str) -> str:
    """Return the output of a successful call. `timer_error` is empty when the timer was read back.

    `result` is a view, a list of views, or anything else that JSON can hold.
    """
    return msgspec.json.encode({"result": result, "timer_error": timer_error}).decode()


def error_output_of(refusal: Refusal) -> str:
    """Return the output of a refused call: `{"error": {"code", "reason", "field"}}`."""
    return msgspec.json.encode({"error": refusal}).decode()


def answer(
    tool: ToolInfo, raw_input: str, output: str, *, is_error: bool, duration_ms: int, called_ns: int
) -> ToolAnswer:
    """Return the answer envelope; `called_ns` is the wall clock when the call came in."""
    return ToolAnswer(
        tool=ToolName(tool.name, tool.description),
        raw_input=raw_input,
        output=output,
        is_error=is_error,
        duration_ms=duration_ms,
        called_at=format_instant(called_ns),
    )
