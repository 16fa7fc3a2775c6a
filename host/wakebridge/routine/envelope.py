"""The envelope that all tools share (R7, R8): how a call comes in, how its answer goes out."""

from typing import Any

import msgspec

from wakebridge.routine.change import Code, Refusal
from wakebridge.routine.limits import ID_MAX_CHARS
from wakebridge.schedule.instants import format_instant


class Call(msgspec.Struct, frozen=True):
    """One call of a tool: its decoded input, and the JSON text that came or would have come.

    `session_id` is the caller's session where the transport or the envelope names one.
    """

    input: object
    raw_input: str
    session_id: str | None = None


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
        if not 0 < len(session_id) <= ID_MAX_CHARS:
            reason = f"session_id is text of 1 to {ID_MAX_CHARS} characters"
            return Refusal(Code.INVALID, reason, "session_id")
    if envelope.input is not msgspec.UNSET and envelope.raw_input is not msgspec.UNSET:
        reason = "input and raw_input exclude each other: give exactly one of them"
        return Refusal(Code.INVALID, reason, "raw_input")
    if envelope.input is not msgspec.UNSET:
        raw_input = bytes(envelope.input).decode()
        return _call(raw_input, session_id, "input")
    if envelope.raw_input is not msgspec.UNSET:
        return _call(envelope.raw_input, session_id, "raw_input")
    reason = 'neither input nor raw_input is given: send {"input": {...}}'
    return Refusal(Code.INVALID, reason, "input")


def _call(raw_input: str, session_id: str | None, field: str) -> Call | Refusal:
    try:
        value = msgspec.json.decode(raw_input)
    except (msgspec.DecodeError, RecursionError) as error:
        return Refusal(Code.INVALID, f"{field} is not JSON: {error}", field)
    return Call(value, raw_input, session_id)


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
