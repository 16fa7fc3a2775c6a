"""One boot of a board as its host sees it: requests in, answers out. No IO, no clock.

The numbers of the wire stand here as constants that the compiler folds away: names from
`wakewire` would take a kilobyte of a board's heap. A test holds the two together.
"""

from micropython import const

from wakeboard.countdown import Countdown
from wakeboard.event_log import EventLog
from wakewire import WireError, cbor

_TYPE_ANSWER = const(1)
_TYPE_EVENT = const(2)
_OP_HELLO = const(0)
_OP_PING = const(1)
_OP_TIMER_GET = const(2)
_OP_TIMER_SET = const(3)
_OP_TIMER_CANCEL = const(4)
_OP_EVENTS_GET = const(5)
_OP_DIAG = const(6)
_OP_RESTART = const(7)
_STATUS_OK = const(0)
_STATUS_BAD_REQUEST = const(1)
_STATUS_UNKNOWN_OP = const(2)
_STATUS_UNSUPPORTED_VERSION = const(3)
_STATUS_OUT_OF_RANGE = const(4)
_STATUS_TOKEN_MISMATCH = const(5)
_STATUS_INTERNAL = const(7)
_SOURCE_BOOT = const(1)
_SOURCE_RTC_TIMER = const(4)
_STATE_ARMED = const(1)
_STATE_EXPIRED = const(2)
_PROTOCOL_VERSION = const(1)
_COUNTDOWN_MAX_MS = const(604800000)
_TOKEN_MAX = const(0xFFFFFFFF)
_ID_MAX = const(0xFFFF)
_CODE_MAX = const(0xFF)

_SAVE = const(1)
_RESTART = const(2)

# Events in one answer: with every number at its longest, seven take 185 of 192 bytes.
_EVENTS_PER_ANSWER = const(7)


class Dispatcher:
    """Answers the requests about one board.

    `identity` is what hello tells between version and uptime, in the wire's order. `todo` tells the
    shell what the last answer entails: 1, to save the countdown before it leaves; 2, to restart
    the board after it has left.
    """

    def __init__(self, boot_id: bytes, identity: list[object], ticks_ms: int) -> None:
        self.boot_id = boot_id
        self.identity = identity
        self.countdown = Countdown(ticks_ms)
        self.log = EventLog()
        self.log.append(_SOURCE_BOOT, 0, 0, 0, 0)
        self.todo = self.refusals = self.bad_payloads = 0

    def advance(self, ticks_ms: int) -> bool:
        """Move the clock on; True when the countdown ran out by it, which is in the log then."""
        timer = self.countdown
        expired = timer.advance(ticks_ms)
        if expired:
            self.log.append(_SOURCE_RTC_TIMER, timer.s, timer.ms, timer.token, timer.flags)
        return expired

    def latest_event(self) -> bytes:
        """The newest event as the payload that is pushed to the host."""
        head: list[object] = [_TYPE_EVENT, self.boot_id]
        return cbor.encode(head + self.log.read(self.log.last_seq))

    def counters(self) -> list[object]:
        """What diag tells beside the uptime, in the wire's order; the shell knows it."""
        return []

    def answer(self, payload: bytes | bytearray | memoryview) -> bytes | None:
        """The answer to a request; None for a payload that is none, which is only counted."""
        head: list[object] | None = None
        fields: list[object] = [_STATUS_OK]
        try:
            message: list[object] = cbor.decode(payload)  # type: ignore[assignment]  # _number looks
            _number(message, 0, 0)
            op = _number(message, 2, _CODE_MAX)
            head = [_TYPE_ANSWER, _number(message, 1, _ID_MAX)]
            fields += self._perform(op, message)
        except Exception as error:  # MemoryError among them
            if head is None:
                self.bad_payloads += 1
                return None
            # A fault of ours must not cost the host its answer.
            fields = list(error.args) if type(error) is WireError else [_STATUS_INTERNAL]
            self.refusals += 1
        return cbor.encode(head + fields)

    def _perform(self, op: int, message: list[object]) -> list[object]:
        """Do what was asked and return the fields of the answer; refuse with a WireError."""
        timer = self.countdown
        uptime_ms: object = timer.s * 1000 + timer.ms
        if op == _OP_PING:
            return [uptime_ms]
        if op == _OP_EVENTS_GET:
            return self._events(message)
        if op == _OP_HELLO:
            low = _number(message, 3, _CODE_MAX)
            if not low <= _PROTOCOL_VERSION <= _number(message, 4, _CODE_MAX):
                raise WireError(_STATUS_UNSUPPORTED_VERSION)
            return [_PROTOCOL_VERSION] + self.identity + [uptime_ms]
        if op == _OP_DIAG:
            return [uptime_ms] + self.counters()
        if op == _OP_RESTART:
            self.todo = _RESTART
            return []
        if op > _OP_RESTART:
            raise WireError(_STATUS_UNKNOWN_OP)
        if op != _OP_TIMER_GET:
            self._set_timer(op == _OP_TIMER_SET, message)
        return [
            self.boot_id,
            _STATE_ARMED if timer.armed else timer.token and _STATE_EXPIRED,  # token 0: idle
            timer.token,
            timer.left_ms,
            timer.duration_ms,
            timer.flags,
            uptime_ms,
        ]

    def _set_timer(self, arm: bool, message: list[object]) -> None:
        timer = self.countdown
        token = _number(message, 3, _TOKEN_MAX)
        duration_ms = 0
        if arm:
            duration_ms = _number(message, 4, _COUNTDOWN_MAX_MS)
            if not token or not duration_ms:
                raise WireError(_STATUS_OUT_OF_RANGE)
            same = timer.token == token and timer.duration_ms == duration_ms
            if same and timer.armed and not timer.flags:
                return
        elif token and timer.token and token != timer.token:
            raise WireError(_STATUS_TOKEN_MISMATCH)
        else:
            token = 0
        timer.set(token, duration_ms, 0)
        self.todo = _SAVE

    def _events(self, message: list[object]) -> list[object]:
        log = self.log
        after_seq = _number(message, 4, _TOKEN_MAX)
        if message[3] != self.boot_id:
            after_seq = 0
        oldest = log.oldest_seq()
        first = max(after_seq + 1, oldest)
        last = min(log.last_seq, first + _EVENTS_PER_ANSWER - 1)
        return [
            self.boot_id,
            oldest,
            log.last_seq,
            max(0, oldest - 1 - after_seq),
            [log.read(seq) for seq in range(first, last + 1)],
        ]


def _number(message: object, at: int, high: int) -> int:
    """The integer of 0..high at that place; false and true are none."""
    value = message[at] if isinstance(message, list) and at < len(message) else None
    if type(value) is not int:
        raise WireError(_STATUS_BAD_REQUEST)
    if not 0 <= value <= high:
        raise WireError(_STATUS_OUT_OF_RANGE)
    return value
