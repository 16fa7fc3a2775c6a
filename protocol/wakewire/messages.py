"""The messages of the wire as values, for the host, tests and simulators.

``parse`` turns a payload into a Request, an Answer or an Event; ``Hello``, ``TimerState``,
``EventBatch`` and ``Diag`` are what the fields of an answer mean, which depends on the operation
that was asked. Readers ignore elements beyond the ones they know and take numbers they do not know
(a source, a state) as they are: the wire is append-only.
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
from wakewire.host_limits import REQUEST_MAX, TEXT_MAX, UPTIME_MAX_MS
from wakewire.limits import (
    BOOT_ID_BYTES,
    CODE_MAX,
    COUNTDOWN_MAX_MS,
    COUNTDOWN_MIN_MS,
    ID_MAX,
    PROTOCOL_VERSION,
    PROTOCOL_VERSION_MIN,
    SEQ_MAX,
    TOKEN_MAX,
)


class _Value:
    """Equality and a readable form over the slots of a message."""

    __slots__: tuple[str, ...] = ()

    def _values(self) -> list[object]:
        return [getattr(self, name) for name in type(self).__slots__]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Value)
            and type(self) is type(other)
            and self._values() == other._values()
        )

    __hash__ = None  # type: ignore[assignment]  # values with lists inside are no keys

    def __repr__(self) -> str:
        named = [f"{name}={getattr(self, name)!r}" for name in type(self).__slots__]
        return type(self).__name__ + "(" + ", ".join(named) + ")"


class Request(_Value):
    """What the host asks: ``[0, id, op, *args]``. One at the host itself is its own echo."""

    __slots__ = ("args", "id", "op")

    def __init__(self, request_id: int, op: int, args: list[object]) -> None:
        self.id = request_id
        self.op = op
        self.args = args

    def encode(self) -> bytes:
        """Return the payload. Raises CborError."""
        return _encode([TYPE_REQUEST, self.id, self.op], self.args)


class Answer(_Value):
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


class Event(_Value):
    """One entry of the board's event log; pushed as ``[2, boot_id, seq, ...]`` it is a hint."""

    __slots__ = ("boot_id", "flags", "seq", "source", "token", "uptime_ms")

    def __init__(
        self, boot_id: bytes, seq: int, source: int, uptime_ms: int, token: int, flags: int
    ) -> None:
        self.boot_id = boot_id
        self.seq = seq
        self.source = source
        self.uptime_ms = uptime_ms
        self.token = token
        self.flags = flags

    @classmethod
    def from_fields(cls, boot_id: bytes, fields: list[object]) -> "Event":
        """Read ``[seq, source, uptime_ms, token, flags]``. Raises MessageError."""
        return cls(
            boot_id,
            _number(fields, 0, "seq", SEQ_MAX, 1),
            _number(fields, 1, "source", CODE_MAX),
            _number(fields, 2, "uptime_ms", UPTIME_MAX_MS),
            _number(fields, 3, "token", TOKEN_MAX),
            _number(fields, 4, "flags", CODE_MAX),
        )

    def fields(self) -> list[object]:
        """Return ``[seq, source, uptime_ms, token, flags]``."""
        return [self.seq, self.source, self.uptime_ms, self.token, self.flags]

    def encode(self) -> bytes:
        """Return the payload of the pushed form. Raises CborError."""
        return _encode([TYPE_EVENT, self.boot_id], self.fields())


class Hello(_Value):
    """Who the board is and what it can do: the fields of a hello answer."""

    __slots__ = (
        "board",
        "boot_id",
        "clock_quality",
        "config_faults",
        "countdown_max_ms",
        "event_ring_len",
        "firmware_version",
        "payload_max",
        "port",
        "reset_cause",
        "unique_id",
        "uptime_ms",
        "version",
    )

    def __init__(
        self,
        version: int,
        firmware_version: str,
        port: str,
        board: str,
        unique_id: bytes,
        boot_id: bytes,
        reset_cause: int,
        payload_max: int,
        countdown_max_ms: int,
        event_ring_len: int,
        clock_quality: int,
        config_faults: list[str],
        uptime_ms: int,
    ) -> None:
        self.version = version
        self.firmware_version = firmware_version
        self.port = port
        self.board = board
        self.unique_id = unique_id
        self.boot_id = boot_id
        self.reset_cause = reset_cause
        self.payload_max = payload_max
        self.countdown_max_ms = countdown_max_ms
        self.event_ring_len = event_ring_len
        self.clock_quality = clock_quality
        self.config_faults = config_faults
        self.uptime_ms = uptime_ms

    @classmethod
    def from_fields(cls, fields: list[object]) -> "Hello":
        """Read what follows the status of a hello answer. Raises MessageError."""
        limits = _array(fields, 7, "limits")
        faults = _array(fields, 9, "config_faults")
        return cls(
            _number(fields, 0, "version", CODE_MAX, 1),
            _text(fields, 1, "firmware_version"),
            _text(fields, 2, "port"),
            _text(fields, 3, "board"),
            _octets(fields, 4, "unique_id"),
            _boot_id(fields, 5),
            _number(fields, 6, "reset_cause", CODE_MAX),
            _number(limits, 0, "payload_max", 0xFFFF, 1),
            _number(limits, 1, "countdown_max_ms", UPTIME_MAX_MS, COUNTDOWN_MIN_MS),
            _number(limits, 2, "event_ring_len", 0xFFFF, 1),
            _number(fields, 8, "clock_quality", CODE_MAX),
            [_text(faults, index, "config_faults") for index in range(len(faults))],
            _number(fields, 10, "uptime_ms", UPTIME_MAX_MS),
        )

    def fields(self) -> list[object]:
        """Return what follows the status of a hello answer."""
        return [
            self.version,
            self.firmware_version,
            self.port,
            self.board,
            self.unique_id,
            self.boot_id,
            self.reset_cause,
            [self.payload_max, self.countdown_max_ms, self.event_ring_len],
            self.clock_quality,
            self.config_faults,
            self.uptime_ms,
        ]


class TimerState(_Value):
    """The one countdown: the fields of a timer_get, timer_set and timer_cancel answer."""

    __slots__ = (
        "boot_id",
        "duration_ms",
        "flags",
        "remaining_ms",
        "state",
        "token",
        "uptime_ms",
    )

    def __init__(
        self,
        boot_id: bytes,
        state: int,
        token: int,
        remaining_ms: int,
        duration_ms: int,
        flags: int,
        uptime_ms: int,
    ) -> None:
        self.boot_id = boot_id
        self.state = state
        self.token = token
        self.remaining_ms = remaining_ms
        self.duration_ms = duration_ms
        self.flags = flags
        self.uptime_ms = uptime_ms

    @classmethod
    def from_fields(cls, fields: list[object]) -> "TimerState":
        """Read what follows the status of a timer answer. Raises MessageError."""
        return cls(
            _boot_id(fields, 0),
            _number(fields, 1, "state", CODE_MAX),
            _number(fields, 2, "token", TOKEN_MAX),
            _number(fields, 3, "remaining_ms", COUNTDOWN_MAX_MS),
            _number(fields, 4, "duration_ms", COUNTDOWN_MAX_MS),
            _number(fields, 5, "flags", CODE_MAX),
            _number(fields, 6, "uptime_ms", UPTIME_MAX_MS),
        )

    def fields(self) -> list[object]:
        """Return what follows the status of a timer answer."""
        return [
            self.boot_id,
            self.state,
            self.token,
            self.remaining_ms,
            self.duration_ms,
            self.flags,
            self.uptime_ms,
        ]


class EventBatch(_Value):
    """A page of the event log: the fields of an events_get answer.

    ``lost`` counts the events after the asked cursor that had been overwritten. The log is read to
    its end when the last event here, or the cursor when there is none, is ``last_seq``.
    """

    __slots__ = ("boot_id", "events", "last_seq", "lost", "oldest_seq")

    def __init__(
        self, boot_id: bytes, oldest_seq: int, last_seq: int, lost: int, events: list[Event]
    ) -> None:
        self.boot_id = boot_id
        self.oldest_seq = oldest_seq
        self.last_seq = last_seq
        self.lost = lost
        self.events = events

    @classmethod
    def from_fields(cls, fields: list[object]) -> "EventBatch":
        """Read what follows the status of an events_get answer. Raises MessageError."""
        boot_id = _boot_id(fields, 0)
        entries = _array(fields, 4, "events")
        events = [
            Event.from_fields(boot_id, _array(entries, index, "events"))
            for index in range(len(entries))
        ]
        for index in range(1, len(events)):
            if events[index].seq != events[index - 1].seq + 1:
                raise MessageError("events: not consecutive")
        return cls(
            boot_id,
            _number(fields, 1, "oldest_seq", SEQ_MAX),
            _number(fields, 2, "last_seq", SEQ_MAX),
            _number(fields, 3, "lost", SEQ_MAX),
            events,
        )

    def fields(self) -> list[object]:
        """Return what follows the status of an events_get answer."""
        events = [event.fields() for event in self.events]
        return [self.boot_id, self.oldest_seq, self.last_seq, self.lost, events]


# What a diag answer counts, in the order of the wire. Append-only.
_COUNTERS = (
    "uptime_ms",
    "heap_free",
    "loop_max_ms",
    "frames_in",
    "crc_errors",
    "overlong",
    "malformed",
    "bad_payloads",
    "requests",
    "refusals",
    "frames_out",
    "frames_dropped",
    "events_logged",
    "events_overwritten",
    "wake_pulses",
    "checkpoints",
    "checkpoint_errors",
)


class Diag(_Value):
    """Counters of the board since its boot: the fields of a diag answer.

    A counter that an older board does not send is None; one that is newer than this is ignored.
    """

    __slots__ = _COUNTERS

    uptime_ms: int | None
    heap_free: int | None
    loop_max_ms: int | None
    frames_in: int | None
    crc_errors: int | None
    overlong: int | None
    malformed: int | None
    bad_payloads: int | None
    requests: int | None
    refusals: int | None
    frames_out: int | None
    frames_dropped: int | None
    events_logged: int | None
    events_overwritten: int | None
    wake_pulses: int | None
    checkpoints: int | None
    checkpoint_errors: int | None

    def __init__(self, counters: list[int]) -> None:
        for index in range(len(_COUNTERS)):
            setattr(self, _COUNTERS[index], counters[index] if index < len(counters) else None)

    @classmethod
    def from_fields(cls, fields: list[object]) -> "Diag":
        """Read what follows the status of a diag answer. Raises MessageError."""
        known = min(len(fields), len(_COUNTERS))
        return cls([_number(fields, i, _COUNTERS[i], UPTIME_MAX_MS) for i in range(known)])

    def fields(self) -> list[object]:
        """Return what follows the status of a diag answer."""
        return [value for value in self._values() if value is not None]


def parse(payload: bytes) -> Request | Answer | Event:
    """Read one payload. Raises MessageError."""
    try:
        items = cbor.decode(payload)
    except CborError as error:
        raise MessageError(str(error)) from error
    if not isinstance(items, list):
        raise MessageError("not an array")
    kind = _number(items, 0, "type", CODE_MAX)
    if kind == TYPE_EVENT:
        return Event.from_fields(_boot_id(items, 1), items[2:])
    if kind > TYPE_EVENT:
        raise MessageError("type: unknown")
    request_id = _number(items, 1, "id", ID_MAX)
    if kind == TYPE_REQUEST:
        return Request(request_id, _number(items, 2, "op", CODE_MAX), items[3:])
    return Answer(request_id, _number(items, 2, "status", CODE_MAX), items[3:])


def hello(
    request_id: int, version_min: int = PROTOCOL_VERSION_MIN, version_max: int = PROTOCOL_VERSION
) -> bytes:
    """Return a request for the board's identity in the highest version both ends speak."""
    return _request(request_id, OP_HELLO, [version_min, version_max])


def ping(request_id: int) -> bytes:
    """Return a request for the board's uptime."""
    return _request(request_id, OP_PING, [])


def timer_get(request_id: int) -> bytes:
    """Return a request for the state of the countdown."""
    return _request(request_id, OP_TIMER_GET, [])


def timer_set(request_id: int, token: int, duration_ms: int) -> bytes:
    """Return a request to arm the countdown; leaves the same countdown alone when it runs."""
    args: list[object] = [token, duration_ms]
    _number(args, 0, "token", TOKEN_MAX, 1)
    _number(args, 1, "duration_ms", COUNTDOWN_MAX_MS, COUNTDOWN_MIN_MS)
    return _request(request_id, OP_TIMER_SET, args)


def timer_cancel(request_id: int, token: int) -> bytes:
    """Return a request to stop the countdown of a token, or with token 0 whichever runs."""
    _number([token], 0, "token", TOKEN_MAX)
    return _request(request_id, OP_TIMER_CANCEL, [token])


def events_get(request_id: int, boot_id: bytes, after_seq: int) -> bytes:
    """Return a request for the events after a cursor."""
    args: list[object] = [boot_id, after_seq]
    _boot_id(args, 0)
    _number(args, 1, "after_seq", SEQ_MAX)
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
    _number([request_id], 0, "id", ID_MAX)
    payload = Request(request_id, op, args).encode()
    if len(payload) > REQUEST_MAX:
        raise MessageError("request too long")
    return payload


def _field(fields: list[object], index: int, name: str) -> object:
    if index >= len(fields):
        raise MessageError(name + ": missing")
    return fields[index]


def _number(fields: list[object], index: int, name: str, most: int, least: int = 0) -> int:
    value = _field(fields, index, name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise MessageError(name + ": not a number")
    if not least <= value <= most:
        raise MessageError(name + ": out of range")
    return value


def _text(fields: list[object], index: int, name: str) -> str:
    value = _field(fields, index, name)
    if not isinstance(value, str):
        raise MessageError(name + ": not a text")
    if len(value.encode()) > TEXT_MAX:
        raise MessageError(name + ": too long")
    return value


def _octets(fields: list[object], index: int, name: str) -> bytes:
    value = _field(fields, index, name)
    if not isinstance(value, bytes):
        raise MessageError(name + ": not a byte string")
    return value


def _boot_id(fields: list[object], index: int) -> bytes:
    value = _octets(fields, index, "boot_id")
    if len(value) != BOOT_ID_BYTES:
        raise MessageError("boot_id: not 8 bytes")
    return value


def _array(fields: list[object], index: int, name: str) -> list[object]:
    value = _field(fields, index, name)
    if not isinstance(value, list):
        raise MessageError(name + ": not an array")
    return value
