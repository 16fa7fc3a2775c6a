"""What a board can send: streams, payloads, messages, and a whole session with a possessed one."""

import contextlib

from reference_wire import Refused
from reference_wire import decode as reference_decode
from reference_wire import payloads as reference_payloads
from wakebridge.board.connection import HINTS_MAX, Answered, Connection, Hint
from wakebridge.board.errors import LinkError
from wakebridge.board.event_log import EVENTS_MAX, LogReader
from wakebridge.board.operations import OPERATIONS
from wakewire import cbor, framing, messages
from wakewire.codes import (
    OP_DIAG,
    OP_EVENTS_GET,
    OP_HELLO,
    OP_PING,
    OP_TIMER_CANCEL,
    OP_TIMER_GET,
    OP_TIMER_SET,
)
from wakewire.errors import CborError, MessageError
from wakewire.host_limits import CONSOLE_MAX
from wakewire.messages import Answer, EventBatch
from wakewire.stream import StreamDecoder

_REQUESTS = (
    (OP_HELLO, ()),
    (OP_TIMER_GET, ()),
    (OP_TIMER_SET, (1, 1000)),
    (OP_EVENTS_GET, (bytes(8), 0)),
    (OP_PING, ()),
    (OP_TIMER_CANCEL, (0,)),
    (OP_DIAG, ()),
)


def _counts(decoder: framing.Decoder) -> tuple[int, int, int, int]:
    return decoder.frames, decoder.crc_errors, decoder.overlong, decoder.malformed


def frames(data: bytes) -> None:
    """Both decoders and the reference find the same frames; the first byte says how it is cut."""
    size = 1 + data[0] % 64 if data else 1
    stream = data[1:]
    host, board = StreamDecoder(), framing.Decoder()
    fed: list[bytes] = []
    for at in range(0, len(stream), size):
        fed += host.feed(stream[at : at + size])
        assert len(host.take_console()) <= CONSOLE_MAX
    pushed = [bytes(view) for byte in stream if (view := board.push(byte)) is not None]
    assert fed == pushed == reference_payloads(stream)
    assert _counts(host) == _counts(board)
    for payload in fed:
        assert StreamDecoder().feed(framing.encode(payload)) == [payload]


def cbor_payload(data: bytes) -> None:
    """The subset's decoder says what cbor2 says, and never anything but a value or CborError."""
    verdicts: list[object] = []
    for read, refusal in ((cbor.decode, CborError), (reference_decode, Refused)):
        try:
            verdicts.append(("value", read(data)))
        except refusal:
            verdicts.append("refused")
    ours, theirs = verdicts
    assert ours == theirs
    if ours != "refused":
        assert cbor.encode(cbor.decode(data)) == data


def message(data: bytes) -> None:
    """A message is read or refused, and one that was read can be written."""
    try:
        parsed = messages.parse(data)
    except MessageError:
        return
    parsed.encode()
    if isinstance(parsed, Answer):
        for operation in OPERATIONS.values():
            with contextlib.suppress(MessageError):
                operation.read(parsed.fields)


def connection(data: bytes) -> None:
    """A session survives whatever comes.

    Each part of the input begins with two bytes: what happens before, and how many bytes arrive. A
    part may be wrapped in a frame, and then in an answer to the request that is under way.
    """
    link = Connection(first_id=0)
    now_ns, asked, at = 0, 0, 0
    log = LogReader(bytes(8), 0)
    while at + 2 <= len(data):
        choice, size = data[at], data[at + 1]
        part = data[at + 2 : at + 2 + size]
        at += 2 + size
        now_ns += (choice >> 5) * 100_000_000
        if choice & 1:
            op, arguments = _REQUESTS[asked % len(_REQUESTS)]
            with contextlib.suppress(LinkError):
                link.request(op, *arguments)
                asked += 1
        link.handle_timeout(now_ns)
        link.data_to_send(now_ns)
        if choice & 2 and 0 < len(part) <= 180:
            if choice & 4:
                head = cbor.encode([1, link._current.request_id if link._current else 0, 0])
                part = bytes([head[0] + min(part[0] % 16, 20)]) + head[1:] + part[1:]
            part = framing.encode(part)
        link.receive(part, now_ns)
        _drain(link, log)
    assert len(link._hints) <= HINTS_MAX
    assert len(link._console) <= CONSOLE_MAX
    assert len(link._known_hints) <= HINTS_MAX


def _drain(link: Connection, log: LogReader) -> None:
    while (event := link.next_event()) is not None:
        if isinstance(event, Hint):
            event.event.encode()
        elif isinstance(event, Answered) and isinstance(event.value, EventBatch):
            with contextlib.suppress(LinkError):
                log.take(event.value)
            assert len(log._events) <= EVENTS_MAX
