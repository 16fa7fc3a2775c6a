"""What the fields of an event and of each kind of answer mean.

Every ``from_fields`` ignores elements beyond the ones it knows, takes numbers it does not know (a
source, a state) as they are, and raises MessageError that names the field it cannot read.
"""

from wakewire import cbor
from wakewire.codes import TYPE_EVENT
from wakewire.errors import MessageError
from wakewire.fields import (
    Value,
    read_array,
    read_boot_id,
    read_number,
    read_octets,
    read_text,
)
from wakewire.host_limits import UPTIME_MAX_MS
from wakewire.limits import (
    CODE_MAX,
    COUNTDOWN_MAX_MS,
    COUNTDOWN_MIN_MS,
    SEQ_MAX,
    TOKEN_MAX,
)


class Event(Value):
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
            read_number(fields, 0, "seq", SEQ_MAX, 1),
            read_number(fields, 1, "source", CODE_MAX),
            read_number(fields, 2, "uptime_ms", UPTIME_MAX_MS),
            read_number(fields, 3, "token", TOKEN_MAX),
            read_number(fields, 4, "flags", CODE_MAX),
        )

    def fields(self) -> list[object]:
        """Return ``[seq, source, uptime_ms, token, flags]``."""
        return [self.seq, self.source, self.uptime_ms, self.token, self.flags]

    def encode(self) -> bytes:
        """Return the payload of the pushed form. Raises CborError."""
        message: list[object] = [TYPE_EVENT, self.boot_id]
        message.extend(self.fields())
        return cbor.encode(message)


class Hello(Value):
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
        limits = read_array(fields, 7, "limits")
        faults = read_array(fields, 9, "config_faults")
        return cls(
            read_number(fields, 0, "version", CODE_MAX, 1),
            read_text(fields, 1, "firmware_version"),
            read_text(fields, 2, "port"),
            read_text(fields, 3, "board"),
            read_octets(fields, 4, "unique_id"),
            read_boot_id(fields, 5),
            read_number(fields, 6, "reset_cause", CODE_MAX),
            read_number(limits, 0, "payload_max", 0xFFFF, 1),
            read_number(limits, 1, "countdown_max_ms", UPTIME_MAX_MS, COUNTDOWN_MIN_MS),
            read_number(limits, 2, "event_ring_len", 0xFFFF, 1),
            read_number(fields, 8, "clock_quality", CODE_MAX),
            [read_text(faults, index, "config_faults") for index in range(len(faults))],
            read_number(fields, 10, "uptime_ms", UPTIME_MAX_MS),
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


class TimerState(Value):
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
            read_boot_id(fields, 0),
            read_number(fields, 1, "state", CODE_MAX),
            read_number(fields, 2, "token", TOKEN_MAX),
            read_number(fields, 3, "remaining_ms", COUNTDOWN_MAX_MS),
            read_number(fields, 4, "duration_ms", COUNTDOWN_MAX_MS),
            read_number(fields, 5, "flags", CODE_MAX),
            read_number(fields, 6, "uptime_ms", UPTIME_MAX_MS),
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


class EventBatch(Value):
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
        boot_id = read_boot_id(fields, 0)
        entries = read_array(fields, 4, "events")
        events = [
            Event.from_fields(boot_id, read_array(entries, index, "events"))
            for index in range(len(entries))
        ]
        for index in range(1, len(events)):
            if events[index].seq != events[index - 1].seq + 1:
                raise MessageError("events: not consecutive")
        return cls(
            boot_id,
            read_number(fields, 1, "oldest_seq", SEQ_MAX),
            read_number(fields, 2, "last_seq", SEQ_MAX),
            read_number(fields, 3, "lost", SEQ_MAX),
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


class Diag(Value):
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
        return cls([read_number(fields, i, _COUNTERS[i], UPTIME_MAX_MS) for i in range(known)])

    def fields(self) -> list[object]:
        """Return what follows the status of a diag answer."""
        return [value for value in self._values() if value is not None]
