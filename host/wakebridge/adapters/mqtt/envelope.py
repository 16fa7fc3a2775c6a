"""The JSON around a request: from payload bytes to `data` and `context`, or what is wrong with it.

Pure. What `data` must hold is the service's business; here only the message around it is judged
(OVOS-MSG-1 sections 2 and 6).
"""

from typing import Final

import msgspec

REQUEST_BYTES_MAX: Final = 262_144
"""Size of a request message: sixteen times the `data` of a record (E8), as room for a context."""

NESTING_MAX: Final = 64
"""Depth of a request's JSON, so that whoever handles it later cannot run out of stack."""

TOOL_VERB: Final = "tool"
TOOL_TYPE: Final = "wakebridge.tool.schedule"
"""The verb and message type of the routines' `schedule` tool (R7)."""


class MalformedRequest(ValueError):  # noqa: N818 - the request is malformed, not its handling
    """The message around a request is malformed; the text says what and where."""


class RequestMessage(msgspec.Struct, frozen=True):
    """A request message: `data` as it came, its context and type, None where it has none."""

    data: object
    context: dict[str, object] | None
    type: str | None


def parse_request(payload: bytes) -> RequestMessage:
    """Return the request in a payload.

    Unknown keys beside `data`, `context` and `type` are ignored, as OVOS-MSG-1 section 2 demands
    of a consumer. All three may be left out.

    Raises:
        MalformedRequest: the text is one clause that names what is wrong.

    """
    message = _decode_object(payload)
    context = message.get("context")
    if context is not None and not isinstance(context, dict):
        raise MalformedRequest(f"`context` must be an object, it is {_kind(context)}")
    message_type = message.get("type")
    if message_type is not None and not isinstance(message_type, str):
        raise MalformedRequest(f"`type` must be a string, it is {_kind(message_type)}")
    return RequestMessage(message.get("data", {}), context, message_type)


def _decode_object(payload: bytes) -> dict[str, object]:
    if len(payload) > REQUEST_BYTES_MAX:
        raise MalformedRequest(
            f"the message has {len(payload)} bytes, more than {REQUEST_BYTES_MAX}"
        )
    if not payload:
        raise MalformedRequest("the message is empty")
    # Counting is cheap and an upper bound of the depth; only a suspect is walked.
    suspect = payload.count(b"[") + payload.count(b"{") > NESTING_MAX
    try:
        value: object = msgspec.json.decode(payload)
        too_deep = suspect and _deeper_than(value, NESTING_MAX)
    except RecursionError:
        too_deep = True
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedRequest(f"the message is not JSON: {error}") from None
    if too_deep:
        raise MalformedRequest(f"the message is nested deeper than {NESTING_MAX}")
    if not isinstance(value, dict):
        raise MalformedRequest(f"the message must be an object, it is {_kind(value)}")
    return value


def _deeper_than(value: object, depth: int) -> bool:
    layer = [value]
    for _ in range(depth):
        layer = [
            child
            for parent in layer
            if isinstance(parent, dict | list)
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not layer:
            return False
    return True


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"
