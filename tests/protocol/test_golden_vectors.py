"""Golden bytes of protocol version 1, under CPython.

If a test in this module fails, do not change the vector: the wire has changed. Boards in the field
speak these bytes. Append a vector instead.
"""

import pytest

from reference_wire import Refused, decode, encode, frame, payloads
from wakewire import cbor, framing, messages
from wakewire.errors import CborError, MessageError
from wakewire.messages import Answer, Diag, Event, EventBatch, Hello, Request, TimerState
from wakewire.stream import StreamDecoder
from wire_vectors import (
    ANSWERS,
    MESSAGES,
    REFUSED_ANSWERS,
    REFUSED_MESSAGES,
    REFUSED_PAYLOADS,
    STREAMS,
    Entry,
    name_of,
    payload_of,
    value_of,
)

NOISE = b"\xff\x00~}\r\nTraceback (most recent call last):\r\n~~\x7f}}~\x03"

READINGS: dict[str, type[Hello | TimerState | EventBatch | Diag]] = {
    "hello": Hello,
    "timer_get": TimerState,
    "timer_set": TimerState,
    "timer_cancel": TimerState,
    "events_get": EventBatch,
    "diag": Diag,
}

COUNTERS = ("frames", "crc_errors", "overlong", "malformed")

over_messages = pytest.mark.parametrize("entry", MESSAGES, ids=name_of)
over_streams = pytest.mark.parametrize("entry", STREAMS, ids=name_of)


def counts(decoder: framing.Decoder) -> dict[str, int]:
    return {name: getattr(decoder, name) for name in COUNTERS}


def push(decoder: framing.Decoder, stream: bytes) -> list[bytes]:
    return [bytes(view) for byte in stream if (view := decoder.push(byte)) is not None]


def test_names_are_unique() -> None:
    for section in (MESSAGES, REFUSED_PAYLOADS, REFUSED_MESSAGES, REFUSED_ANSWERS, STREAMS):
        names = [name_of(entry) for entry in section]
        assert len(set(names)) == len(names)


@over_messages
def test_bytes_are_those_of_an_independent_implementation(entry: Entry) -> None:
    assert encode(value_of(entry)).hex() == entry["payload"]
    assert frame(payload_of(entry)).hex() == entry["frame"]


@over_messages
def test_value_and_payload(entry: Entry) -> None:
    assert cbor.encode(value_of(entry)).hex() == entry["payload"]
    assert cbor.decode(payload_of(entry)) == value_of(entry)


@over_messages
def test_message_reads_and_writes(entry: Entry) -> None:
    message = messages.parse(payload_of(entry))
    kinds = {"request": Request, "answer": Answer, "event": Event}
    assert type(message) is kinds[name_of(entry).split()[0]]
    appended = isinstance(message, Event) and "appended" in name_of(entry)
    if not appended:
        assert message.encode() == payload_of(entry)


@pytest.mark.parametrize(
    "entry", [entry for entry in ANSWERS if entry["op"] in READINGS], ids=name_of
)
def test_answer_has_its_meaning(entry: Entry) -> None:
    answer = messages.parse(payload_of(entry))
    assert isinstance(answer, Answer)
    assert answer.ok
    fields = READINGS[entry["op"]].from_fields(answer.fields).fields()
    if "appended" not in name_of(entry):
        assert fields == answer.fields


@over_messages
def test_frame_whole_and_byte_by_byte_with_noise(entry: Entry) -> None:
    wire = bytes.fromhex(entry["frame"])
    assert framing.encode(payload_of(entry)) == wire
    stream = NOISE + wire + NOISE + wire + wire + NOISE
    whole, bytewise, pushed = StreamDecoder(), StreamDecoder(), framing.Decoder()
    expected = [payload_of(entry)] * 3
    assert whole.feed(stream) == expected
    assert [found for byte in stream for found in bytewise.feed(bytes([byte]))] == expected
    assert push(pushed, stream) == expected
    assert counts(whole) == counts(bytewise) == counts(pushed)
    assert whole.take_console() == bytewise.take_console()


@pytest.mark.parametrize("entry", REFUSED_PAYLOADS, ids=name_of)
def test_payload_is_refused(entry: Entry) -> None:
    with pytest.raises(CborError):
        cbor.decode(payload_of(entry))
    with pytest.raises(MessageError):
        messages.parse(payload_of(entry))
    with pytest.raises(Refused):
        decode(payload_of(entry))


@pytest.mark.parametrize("entry", REFUSED_MESSAGES, ids=name_of)
def test_message_is_refused(entry: Entry) -> None:
    cbor.decode(payload_of(entry))
    with pytest.raises(MessageError):
        messages.parse(payload_of(entry))


@pytest.mark.parametrize(
    "entry", [entry for entry in REFUSED_ANSWERS if entry["op"] in READINGS], ids=name_of
)
def test_answer_is_refused(entry: Entry) -> None:
    answer = messages.parse(payload_of(entry))
    assert isinstance(answer, Answer)
    with pytest.raises(MessageError):
        READINGS[entry["op"]].from_fields(answer.fields)


@over_streams
def test_stream_is_taken_apart(entry: Entry) -> None:
    stream = bytes.fromhex(entry["stream"])
    expected = [bytes.fromhex(payload) for payload in entry["payloads"]]
    whole, bytewise, pushed = StreamDecoder(), StreamDecoder(), framing.Decoder()
    assert payloads(stream) == expected
    assert whole.feed(stream) == expected
    assert [found for byte in stream for found in bytewise.feed(bytes([byte]))] == expected
    assert push(pushed, stream) == expected
    assert counts(whole) == counts(bytewise) == counts(pushed) == entry["counts"]
    assert whole.take_console() == bytewise.take_console() == bytes.fromhex(entry["console"])


@over_streams
def test_the_next_frame_is_found(entry: Entry) -> None:
    wire = framing.encode(b"next")
    assert StreamDecoder().feed(bytes.fromhex(entry["stream"]) + wire)[-1] == b"next"
    assert push(framing.Decoder(), bytes.fromhex(entry["stream"]) + wire)[-1] == b"next"
