"""The golden vectors of protocol/vectors/v1.json, typed."""

import json
from pathlib import Path
from typing import Any, Final

PROTOCOL: Final = Path(__file__).parents[1] / "protocol"
VECTORS: Final = PROTOCOL / "vectors/v1.json"

Entry = dict[str, Any]

_DOCUMENT: Final[dict[str, Any]] = json.loads(VECTORS.read_text())

MESSAGES: Final[list[Entry]] = _DOCUMENT["messages"]
ANSWERS: Final[list[Entry]] = [entry for entry in MESSAGES if "op" in entry]
REFUSED_PAYLOADS: Final[list[Entry]] = _DOCUMENT["refused_payloads"]
REFUSED_MESSAGES: Final[list[Entry]] = _DOCUMENT["refused_messages"]
REFUSED_ANSWERS: Final[list[Entry]] = _DOCUMENT["refused_answers"]
STREAMS: Final[list[Entry]] = _DOCUMENT["streams"]


def name_of(entry: Entry) -> str:
    """The name of a vector, as a test id."""
    return str(entry["name"])


def payload_of(entry: Entry) -> bytes:
    """The payload of a vector; long ones are written as a piece, how often, and a tail."""
    piece = bytes.fromhex(entry["payload"])
    return piece * int(entry.get("times", 1)) + bytes.fromhex(entry.get("tail", ""))


def value_of(entry: Entry) -> object:
    """The value of a message vector."""
    return _value(entry["value"])


def _value(written: object) -> object:
    if isinstance(written, list):
        return [_value(item) for item in written]
    if isinstance(written, dict):
        return bytes.fromhex(written["bytes"])
    return written
