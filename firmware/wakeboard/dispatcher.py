"""From the payload of a request to the payload of its answer. No IO, no clock."""

from wakeboard import __version__
from wakeboard.board import Board
from wakeboard.event_log import RING_LEN
from wakewire import cbor
from wakewire.codes import (
    FLAG_APPROXIMATE,
    STATE_IDLE,
    STATUS_BAD_REQUEST,
    STATUS_INTERNAL,
    STATUS_OK,
    STATUS_OUT_OF_RANGE,
    STATUS_TOKEN_MISMATCH,
    STATUS_UNKNOWN_OP,
    STATUS_UNSUPPORTED_VERSION,
    TYPE_ANSWER,
    TYPE_REQUEST,
)
from wakewire.limits import (
    BOOT_ID_BYTES,
    CODE_MAX,
    COUNTDOWN_MAX_MS,
    COUNTDOWN_MIN_MS,
    ID_MAX,
    PAYLOAD_MAX,
    PROTOCOL_VERSION,
    PROTOCOL_VERSION_MIN,
    SEQ_MAX,
    TOKEN_MAX,
)

# Events in one answer: with every number at its longest, seven take 185 of 192 bytes.
EVENTS_PER_ANSWER = 7


class Counters:
    """What diag tells beside the uptime; the shell, which knows them, derives from this."""

    def read(self) -> list[int]:
        """The counters of protocol/README.md, in its order, from heap_free on."""
        return []


class _Refused(Exception):  # noqa: N818 - a value on its way to the answer, no error of ours
    """args: the status of the answer, and the reason where it tells more."""


class Dispatcher:
    """Answers the requests about one board.

    `timer_changed` and `restart_asked` tell the shell what an answer entails: to save the
    countdown before the answer leaves, and to restart after it has left.
    """

    def __init__(self, board: Board, counters: Counters) -> None:
        self.board = board
        self.timer_changed = False
        self.restart_asked = False
        self.requests = 0
        self.refusals = 0
        self.bad_payloads = 0
        self._counters = counters

    def answer(self, payload: bytes | bytearray | memoryview) -> bytes | None:
        """The answer to a request; None for a payload that is none, which is only counted."""
        try:
            message = cbor.decode(payload)
        except (ValueError, MemoryError):
            message = None
        if not (
            isinstance(message, list)
            and len(message) >= 3
            and _is_number(message[0], TYPE_REQUEST, TYPE_REQUEST)
            and _is_number(message[1], 0, ID_MAX)
            and _is_number(message[2], 0, CODE_MAX)
        ):
            self.bad_payloads += 1
            return None
        self.requests += 1
        head = [TYPE_ANSWER, message[1]]
        try:
            op = message[2]
            if op >= len(_OPERATIONS):
                raise _Refused(STATUS_UNKNOWN_OP)
            return cbor.encode(head + [STATUS_OK] + _OPERATIONS[op](self, message[3:]))
        except _Refused as refusal:
            refused = list(refusal.args)
        except Exception as error:  # a fault of ours must not cost the host its answer
            refused = [STATUS_INTERNAL, type(error).__name__]
        self.refusals += 1
        return cbor.encode(head + refused)

    def _hello(self, args: list[object]) -> list[object]:
        low = _number(args, 0, "version_min", 0, CODE_MAX)
        high = _number(args, 1, "version_max", 0, CODE_MAX)
        if high < PROTOCOL_VERSION_MIN or low > PROTOCOL_VERSION:
            raise _Refused(STATUS_UNSUPPORTED_VERSION)
        board = self.board
        faults = list(board.config_faults)
        while True:
            fields = [
                min(high, PROTOCOL_VERSION),
                __version__,
                board.port,
                board.model,
                board.unique_id,
                board.boot_id,
                board.reset_cause,
                [PAYLOAD_MAX, COUNTDOWN_MAX_MS, RING_LEN],
                board.clock_quality,
                faults,
                board.clock.uptime_ms(),
            ]
            try:
                cbor.encode([TYPE_ANSWER, ID_MAX, STATUS_OK] + fields)
                return fields
            except ValueError:  # too long: the last faults are left to the diagnostics
                if not faults:
                    raise
                faults.pop()

    def _ping(self, args: list[object]) -> list[object]:
        return [self.board.clock.uptime_ms()]

    def _timer_get(self, args: list[object]) -> list[object]:
        countdown = self.board.countdown
        return [
            self.board.boot_id,
            countdown.state,
            countdown.token,
            countdown.remaining_ms(),
            countdown.duration_ms,
            FLAG_APPROXIMATE if countdown.approximate else 0,
            self.board.clock.uptime_ms(),
        ]

    def _timer_set(self, args: list[object]) -> list[object]:
        token = _number(args, 0, "token", 1, TOKEN_MAX)
        duration_ms = _number(args, 1, "duration_ms", COUNTDOWN_MIN_MS, COUNTDOWN_MAX_MS)
        if self.board.countdown.arm(token, duration_ms):
            self.timer_changed = True
        return self._timer_get(args)

    def _timer_cancel(self, args: list[object]) -> list[object]:
        token = _number(args, 0, "token", 0, TOKEN_MAX)
        countdown = self.board.countdown
        if token and countdown.state != STATE_IDLE and countdown.token != token:
            raise _Refused(STATUS_TOKEN_MISMATCH)
        if countdown.state != STATE_IDLE:
            countdown.cancel()
            self.timer_changed = True
        return self._timer_get(args)

    def _events_get(self, args: list[object]) -> list[object]:
        boot_id = args[0] if args else None
        if not isinstance(boot_id, bytes) or len(boot_id) != BOOT_ID_BYTES:
            raise _Refused(STATUS_BAD_REQUEST, "boot_id")
        after_seq = _number(args, 1, "after_seq", 0, SEQ_MAX)
        log = self.board.log
        if boot_id != self.board.boot_id:
            after_seq = 0
        first = max(after_seq + 1, log.oldest_seq())
        last = min(log.last_seq, first + EVENTS_PER_ANSWER - 1)
        return [
            self.board.boot_id,
            log.oldest_seq(),
            log.last_seq,
            log.lost(after_seq),
            [log.read(seq) for seq in range(first, last + 1)],
        ]

    def _diag(self, args: list[object]) -> list[object]:
        return [self.board.clock.uptime_ms()] + self._counters.read()

    def _restart(self, args: list[object]) -> list[object]:
        self.restart_asked = True
        return []


# The place of a handler is the number of its operation in wakewire.codes.
_OPERATIONS = (
    Dispatcher._hello,
    Dispatcher._ping,
    Dispatcher._timer_get,
    Dispatcher._timer_set,
    Dispatcher._timer_cancel,
    Dispatcher._events_get,
    Dispatcher._diag,
    Dispatcher._restart,
)


def _is_number(value: object, low: int, high: int) -> bool:
    """Whether it is an integer of that range; false and true are none."""
    return type(value) is int and low <= value <= high


def _number(args: list[object], index: int, name: str, low: int, high: int) -> int:
    value = args[index] if index < len(args) else None
    if type(value) is not int:
        raise _Refused(STATUS_BAD_REQUEST, name)
    if not low <= value <= high:
        raise _Refused(STATUS_OUT_OF_RANGE, name)
    return value
