"""Runs the golden vectors through wakewire; started under MicroPython by its test.

Prints a line per fault and at the end how many vectors passed. It imports only what
a board has.
"""

import json

from wakewire import cbor, framing, messages
from wakewire.errors import CborError, MessageError

NOISE = b"\xff\x00~}\r\nTraceback (most recent call last):\r\n~~\x7f}}~\x03"
COUNTERS = ("frames", "crc_errors", "overlong", "malformed")
READINGS = {
    "hello": messages.Hello.from_fields,
    "timer_get": messages.TimerState.from_fields,
    "timer_set": messages.TimerState.from_fields,
    "timer_cancel": messages.TimerState.from_fields,
    "events_get": messages.EventBatch.from_fields,
    "diag": messages.Diag.from_fields,
}


def octets(written: object) -> object:
    """The value that JSON wrote, byte strings included."""
    if isinstance(written, list):
        return [octets(item) for item in written]
    if isinstance(written, dict):
        return bytes.fromhex(written["bytes"])
    return written


def text(entry: dict[str, object], key: str) -> str:
    """A text of an entry, empty when it has none."""
    value = entry.get(key, "")
    assert isinstance(value, str)
    return value


def payload_of(entry: dict[str, object]) -> bytes:
    """The payload of a vector."""
    times = entry.get("times", 1)
    assert isinstance(times, int)
    return bytes.fromhex(text(entry, "payload")) * times + bytes.fromhex(text(entry, "tail"))


def push(stream: bytes, decoder: framing.Decoder) -> list[bytes]:
    """The payloads that a board finds in a stream."""
    found = []
    for byte in stream:
        view = decoder.push(byte)
        if view is not None:
            found.append(bytes(view))
    return found


def check_message(entry: dict[str, object]) -> None:
    """A message encodes, decodes, frames and is found between noise."""
    payload, wire = payload_of(entry), bytes.fromhex(text(entry, "frame"))
    assert cbor.encode(octets(entry["value"])) == payload
    assert cbor.decode(payload) == octets(entry["value"])
    assert cbor.decode(memoryview(payload)) == octets(entry["value"])
    assert framing.encode(payload) == wire
    stream = NOISE + wire + NOISE + wire + wire + NOISE
    assert push(stream, framing.Decoder()) == [payload] * 3
    message = messages.parse(payload)
    if isinstance(message, messages.Answer) and text(entry, "op") in READINGS:
        READINGS[text(entry, "op")](message.fields)
    elif not isinstance(message, messages.Event) or "appended" not in text(entry, "name"):
        assert message.encode() == payload


def check_refused_payload(entry: dict[str, object]) -> None:
    """A payload outside the subset is refused."""
    try:
        value = cbor.decode(payload_of(entry))
    except CborError:
        return
    raise AssertionError(value)


def check_refused_message(entry: dict[str, object]) -> None:
    """A payload that is no message is refused."""
    cbor.decode(payload_of(entry))
    try:
        value = messages.parse(payload_of(entry))
    except MessageError:
        return
    raise AssertionError(value)


def check_stream(entry: dict[str, object]) -> None:
    """A stream is taken apart, and the frame after it is found."""
    stream, decoder = bytes.fromhex(text(entry, "stream")), framing.Decoder()
    assert [payload.hex() for payload in push(stream, decoder)] == entry["payloads"]
    assert {name: getattr(decoder, name) for name in COUNTERS} == entry["counts"]
    assert push(framing.encode(b"next"), decoder)[-1] == b"next"


CHECKS = {
    "messages": check_message,
    "refused_payloads": check_refused_payload,
    "refused_messages": check_refused_message,
    "streams": check_stream,
}


def main() -> None:
    """Check every vector."""
    with open("v1.json") as file:  # noqa: PTH123 - MicroPython has no pathlib
        document = json.load(file)
    passed = 0
    for section in sorted(CHECKS):
        for entry in document[section]:
            try:
                CHECKS[section](entry)
                passed += 1
            except Exception as error:  # MemoryError and RuntimeError are findings as well
                print("FAULT", section, entry["name"], repr(error))
    print("passed", passed)


main()
