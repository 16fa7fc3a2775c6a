"""Messages of the OVOS bus: read leniently, written strictly.

What arrives is read as Python's own `json` reads it, because the bus relays what the participants
wrote: NaN, duplicate members and lone surrogates included. What leaves is JSON of RFC 8259 with
finite numbers only (OVOS-MSG-1 section 6).
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

FRAME_MAX_BYTES: Final = 10 * 1024 * 1024
"""What a bus carries in any configuration we know; it disconnects the sender of a larger frame."""

# Every known participant writes `type` first. Reading that alone spares the parse of everything
# that is not meant for us, such as audio clips of several MB.
_TYPE_FIRST: Final = re.compile(r'\s*\{\s*"type"\s*:\s*"([^"\\]*)"')


class NotEncodable(ValueError):  # noqa: N818 - the nature of the message, not a fault of the caller
    """The message cannot be written as a frame that the bus would carry."""


class Message(msgspec.Struct, frozen=True):
    """One message. `data` is an object on a healthy bus, but a request may bring anything."""

    type: str
    data: Any
    context: dict[str, Any]


def peek_type(text: str) -> str | None:
    """Return the type of a frame that begins with it, without parsing the rest."""
    match = _TYPE_FIRST.match(text)
    return match[1] if match else None


def decode(text: str) -> Message | None:
    """Return the message in a frame, or None for what is none.

    An absent or null `data` or `context` is an empty object; a `context` of another kind has
    nothing to answer with and is taken as empty. What is nested deeper than the parser goes comes
    with a `data` that no request accepts, so that it still gets its one refusal.
    """
    try:
        frame = json.loads(text, parse_int=_integer)
    except ValueError:
        return None
    except RecursionError:
        named = peek_type(text)
        return None if named is None else Message(named, [], {})
    if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
        return None
    data, context = frame.get("data"), frame.get("context")
    return Message(
        frame["type"],
        {} if data is None else data,
        context if isinstance(context, dict) else {},
    )


def encode(message_type: str, data: Mapping[str, object], context: Mapping[str, object]) -> str:
    """Return the frame of a message. Raises `NotEncodable`."""
    head, tail = f'{{"type":{_dumps(message_type)},"data":', f',"context":{_dumps(context)}}}'
    return within_limit(head + _dumps(data) + tail)


def within_limit(text: str) -> str:
    """Return the frame `text`, or raise `NotEncodable` when it is larger than the bus carries."""
    size = len(text.encode())
    if size > FRAME_MAX_BYTES:
        raise NotEncodable(f"{size} bytes are more than the OVOS bus carries in one message")
    return text


def _integer(digits: str) -> float:
    try:
        return int(digits)
    except ValueError:  # beyond sys.get_int_max_str_digits: no number that anybody can use
        return math.inf


def _dumps(value: object) -> str:
    """Return compact JSON; a number that JSON does not have becomes null."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        # A lone surrogate is no Unicode text but is JSON when escaped, and goes back as it came.
        return json.dumps(_finite(value), separators=(",", ":"))
    except (RecursionError, TypeError) as error:
        raise NotEncodable(str(error)) from None


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_finite(member) for member in value]
    return value
