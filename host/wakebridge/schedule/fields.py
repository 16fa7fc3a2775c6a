"""Reading the fields of a request: one JSON value in, one checked value out.

The rule for codes (E13): a value of the wrong JSON type, a number that is not finite and a field
that does not exist are `invalid_record`; a value of the right type with the wrong content has the
code of its field. Every reason begins with the field's name and says what would be right.
"""

import json
import math
import re
from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Final

from wakebridge.schedule.errors import BadInstant, RequestError, quote
from wakebridge.schedule.instants import MAX_NS, MIN_NS, NS_PER_S, parse_instant

ID_MAX_CHARS: Final = 256
"""Long enough for any name a program derives, short enough for a line of a log or a table."""
EVENT_MAX_CHARS: Final = 512
"""An owner's name and the event's own: twice an id."""
DATA_MAX_BYTES: Final = 16_384
"""The bound of E8, on compact UTF-8 JSON."""
CONTEXT_MAX_BYTES: Final = 262_144
"""Of the context that is kept with a schedule, as compact JSON: sixteen times the data. It comes
back with every fire, which has to fit into one message of any bus."""
DATA_MAX_DEPTH: Final = 64
"""Far beyond any record of facts, far below the recursion limit of any JSON reader."""
CALENDAR_SPAN_NS: Final = MAX_NS - MIN_NS + 1
"""Two instants are never this far apart: a longer time span means the same as this one."""
COUNT_MAX: Final = 2**63 - 1
"""What a store keeps in one integer column."""

_UNFIT_FOR_NAMES = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_NUMBER_BITS = 1024
"""Enough for any double; a longer integer is an attack on whoever prints it."""
_WHOLE_FROM_S = 2**53
"""From here on every double is an integer."""


def refuse_unknown(given: Mapping[object, object], known: Collection[str], where: str) -> None:
    """Raise `invalid_record` naming the first field of `given` that is not `known` (E13)."""
    for name in given:
        if name not in known:
            reason = f"{where} has no field {quote(name)}: it has {', '.join(known)}"
            raise RequestError("invalid_record", reason)


def require_object(value: object, field: str) -> dict[object, object]:
    """Return a JSON object; raises `invalid_record`."""
    if not isinstance(value, dict):
        raise wrong_type(field, "a JSON object", value)
    return value


def read_name(value: object, field: str, max_chars: int) -> str:
    """Return a non-empty string that can stand in a log, a topic and a table."""
    if not isinstance(value, str):
        raise wrong_type(field, "a non-empty string", value)
    if not value:
        raise RequestError("invalid_record", f"{field} is empty: it is a non-empty string")
    if len(value) > max_chars:
        reason = f"{field} has {len(value)} characters, the limit is {max_chars}"
        raise RequestError("invalid_record", reason)
    if _UNFIT_FOR_NAMES.search(value):
        reason = f"{field} holds a control character or half a surrogate pair"
        raise RequestError("invalid_record", reason)
    return value


def read_instant(value: object, field: str) -> int:
    """Return an instant in nanoseconds since the Unix epoch; raises `bad_instant` (E4)."""
    if not isinstance(value, str):
        raise wrong_type(field, "an RFC 3339 instant with an offset, as a string", value)
    try:
        return parse_instant(value)
    except BadInstant as bad:
        raise RequestError("bad_instant", f"{field}: {bad.reason}") from None


def read_seconds(value: object, field: str) -> int | float:
    """Return a finite number of seconds, which may be negative."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_type(field, "a number of seconds", value)
    if not math.isfinite(value) if isinstance(value, float) else value.bit_length() > _NUMBER_BITS:
        shown = value if isinstance(value, float) else "too large"
        raise RequestError("invalid_record", f"{field} is {shown}: it is a finite number")
    return value


def span_ns(seconds: float) -> int:
    """Return a number of seconds in whole nanoseconds.

    The decimal digits that were sent count, not their binary approximation. Spans beyond the
    calendar are cut to it, since no pair of instants can tell them apart.
    """
    if isinstance(seconds, int) or abs(seconds) >= _WHOLE_FROM_S:
        nanos = int(seconds) * NS_PER_S
    else:
        nanos = round(Decimal(repr(seconds)).scaleb(9))
    return max(-CALENDAR_SPAN_NS, min(nanos, CALENDAR_SPAN_NS))


def read_bool(value: object, field: str) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise wrong_type(field, "true or false", value)
    return value


def read_count(value: object, field: str) -> int:
    """Return an integer of at least 1 (E9)."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(field, "an integer of at least 1", value)
    if not 1 <= value <= COUNT_MAX:
        raise RequestError("invalid_record", f"{field} must be between 1 and {COUNT_MAX}")
    return value


def read_data(value: object) -> bytes:
    """Return `data` as compact UTF-8 JSON; raises `payload_too_large` beyond 16384 bytes (E8)."""
    data = require_object(value, "data")
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        encoded = text.encode()
    except RecursionError:
        raise _too_deep() from None
    except UnicodeEncodeError:
        raise RequestError("invalid_record", "data holds half a surrogate pair") from None
    except (TypeError, ValueError) as problem:
        raise RequestError("invalid_record", f"data is not plain JSON: {problem}") from None
    if len(encoded) > DATA_MAX_BYTES:
        reason = f"data is {len(encoded)} bytes of compact JSON, the limit is {DATA_MAX_BYTES}"
        raise RequestError("payload_too_large", reason)
    # Counting brackets bounds the depth at no cost; only data with many of them is walked.
    if encoded.count(b"{") + encoded.count(b"[") > DATA_MAX_DEPTH:
        _refuse_depth(data)
    return encoded


def wrong_type(field: str, expected: str, value: object) -> RequestError:
    """Return the refusal of a value that has the wrong JSON type (E13)."""
    kind = _JSON_TYPES.get(type(value), "of another type")
    hint = ": leave the field out instead" if value is None and field in _OPTIONAL else ""
    return RequestError("invalid_record", f"{field} must be {expected}, not {kind}{hint}")


_OPTIONAL: Final = frozenset(
    [
        *("at", "in", "every", "every.start", "local", "local.days"),
        *("data", "until", "count", "misfire", "grace_s", "ephemeral"),
    ]
)
_JSON_TYPES: Final = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def _too_deep() -> RequestError:
    return RequestError("invalid_record", f"data is nested deeper than {DATA_MAX_DEPTH} levels")


def _refuse_depth(data: object) -> None:
    level: list[object] = [data]
    for _ in range(DATA_MAX_DEPTH):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)  # type: ignore[attr-defined]  # only containers are kept
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise _too_deep()
