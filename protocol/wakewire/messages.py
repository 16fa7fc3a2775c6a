"""The messages of the wire as values, for the host, tests and simulators.

``parse`` turns a payload into a Request, an Answer or an Event. What the fields of an answer mean
depends on the operation that was asked: ``Hello``, ``TimerState``, ``EventBatch`` and ``Diag``, of
wakewire.readings, read them. The functions named like operations build the payloads of requests
and raise MessageError for an argument the wire does not take.
"""

from wakewire import cbor
from wakewire.codes import (
    OP_DIAG,
    OP_EVENTS_GET,
    OP_HELLO,
    OP_PING,
    OP_RESTART,
    OP_TIMER_CANCEL,
    OP_TIMER_GET,
    OP_TIMER_SET,
    STATUS_OK,
    TYPE_ANSWER,
    TYPE_EVENT,
    TYPE_REQUEST,
)
from wakewire.errors import CborError, MessageError
from wakewire.fields import Value, read_boot_id, read_number
from wakewire.host_limits import REQUEST_MAX
from wakewire.limits import (
    CODE_MAX,
    COUNTDOWN_MAX_MS,
    COUNTDOWN_MIN_MS,
    ID_MAX,
    PROTOCOL_VERSION,
    PROTOCOL_VERSION_MIN,
    SEQ_MAX,
    TOKEN_MAX,
)
from wakewire.readings import Diag, Event, EventBatch, Hello, TimerState

__all__ = (
    "Answer",
    "Diag",
    "Event",
    "EventBatch",
    "Hello",
    "Request",
    "TimerState",
    "diag",
    "events_get",
    "hello",
    "parse",
    "ping",
    "restart",
    "timer_cancel",
    "timer_get",
    "timer_set",
)


class Request(Value):
    """What the host asks: ``[0, id, op, *args]``. One at the host itself is its own echo."""

    __slots__ = ("args", "id", "op")

    def __init__(self, request_id: int, op: int, args: list[object]) -> None:
        self.id = request_id
        self.op = op
        self.args = args

    def encode(self) -> bytes:
        """Return the payload. Raises CborError."""
        return _encode([TYPE_REQUEST, self.id, self.op], self.args)


class Answer(Value):
    """What the board answers to the request of the same id: ``[1, id, status, *fields]``."""

    __slots__ = ("fields", "id", "status")

    def __init__(self, request_id: int, status: int, fields: list[object]) -> None:
        self.id = request_id
        self.status = status
        self.fields = fields

    @property
    def ok(self) -> bool:
        """Whether the board did what was asked."""
        return self.status == STATUS_OK

    @property
    def reason(self) -> str:
        """The board's words for a refusal, empty when it gave none."""
        first = self.fields[0] if self.fields and not self.ok else ""
        return first if isinstance(first, str) else ""

    def encode(self) -> bytes:
        """Return the payload. Raises CborError."""
        return _encode([TYPE_ANSWER, self.id, self.status], self.fields)


def parse(payload: bytes) -> Request | Answer | Event:
    """Read one payload. Raises MessageError."""
    try:
        items = cbor.decode(payload)
    except CborError as error:
        raise MessageError(str(error)) from error
    if not isinstance(items, list):
        raise MessageError("not an array")
    kind = read_number(items, 0, "type", CODE_MAX)
    if kind == TYPE_EVENT:
        return Event.from_fields(read_boot_id(items, 1), items[2:])
    if kind > TYPE_EVENT:
        raise MessageError("type: unknown")
    request_id = read_number(items, 1, "id", ID_MAX)
    if kind == TYPE_REQUEST:
        return Request(request_id, read_number(items, 2, "op", CODE_MAX), items[3:])
    return Answer(request_id, read_number(items, 2, "status", CODE_MAX), items[3:])


def hello(
    request_id: int, version_min: int = PROTOCOL_VERSION_MIN, version_max: int = PROTOCOL_VERSION
) -> bytes:
    """Return a request for the board's identity in the highest version both ends speak."""
    args: list[object] = [version_min, version_max]
    read_number(args, 1, "version_max", CODE_MAX)
    read_number(args, 0, "version_min", version_max)
    return _request(request_id, OP_HELLO, args)


def ping(request_id: int) -> bytes:
    """Return a request for the board's uptime."""
    return _request(request_id, OP_PING, [])


def timer_get(request_id: int) -> bytes:
    """Return a request for the state of the countdown."""
    return _request(request_id, OP_TIMER_GET, [])


def timer_set(request_id: int, token: int, duration_ms: int) -> bytes:
    """Return a request to arm the countdown; leaves the same countdown alone when it runs."""
    args: list[object] = [token, duration_ms]
    read_number(args, 0, "token", TOKEN_MAX, 1)
    read_number(args, 1, "duration_ms", COUNTDOWN_MAX_MS, COUNTDOWN_MIN_MS)
    return _request(request_id, OP_TIMER_SET, args)


def timer_cancel(request_id: int, token: int) -> bytes:
    """Return a request to stop the countdown of a token, or with token 0 whichever runs."""
    read_number([token], 0, "token", TOKEN_MAX)
    return _request(request_id, OP_TIMER_CANCEL, [token])


def events_get(request_id: int, boot_id: bytes, after_seq: int) -> bytes:
    """Return a request for the events after a cursor."""
    args: list[object] = [boot_id, after_seq]
    read_boot_id(args, 0)
    read_number(args, 1, "after_seq", SEQ_MAX)
    return _request(request_id, OP_EVENTS_GET, args)


def diag(request_id: int) -> bytes:
    """Return a request for the board's counters."""
    return _request(request_id, OP_DIAG, [])


def restart(request_id: int) -> bytes:
    """Return a request to restart the firmware."""
    return _request(request_id, OP_RESTART, [])


def _encode(head: list[object], rest: list[object]) -> bytes:
    head.extend(rest)
    return cbor.encode(head)


def _request(request_id: int, op: int, args: list[object]) -> bytes:
    read_number([request_id], 0, "id", ID_MAX)
    payload = Request(request_id, op, args).encode()
    if len(payload) > REQUEST_MAX:
        raise MessageError("request too long")
    return payload
