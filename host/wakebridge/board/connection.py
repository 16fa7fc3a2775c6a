"""The link to a board without IO: bytes and the time go in, bytes, events and a deadline come out.

One request is under way at a time, because the receive rings of boards are small. It is repeated
under the same id until it is answered or given up. Whatever the other end does, the state kept here
is bounded: what does not fit or does not make sense is counted and dropped.
"""

import enum
from collections import deque
from typing import Final

import msgspec

from wakebridge.board.errors import LinkOverloaded
from wakebridge.board.operations import OPERATIONS, Value
from wakewire import framing, messages, stream
from wakewire.errors import MessageError
from wakewire.host_limits import CONSOLE_MAX
from wakewire.messages import Answer, Event

_MS: Final = 1_000_000

# How long each attempt of a request waits for its answer. The first is short because a lost frame
# is the common case; the later ones outlast a board that is writing its flash. Together three
# seconds: what the host is willing to take for silence.
ATTEMPT_TIMEOUTS_NS: Final = (500 * _MS, 1_000 * _MS, 1_500 * _MS)

# Requests waiting for their turn. The bridge has a handful at most; more means that it does not
# notice that the link is down.
QUEUE_MAX: Final = 32

# Hints kept until they are taken, and remembered to recognise repetitions. A board logs a few
# events a day; the log itself is what is read.
HINTS_MAX: Final = 32

# Received bytes remembered to find an echo that arrives in pieces: the longest request frame.
_TAIL_MAX: Final = 128

# An echo shorter than this could be chance.
_ECHO_MIN: Final = 6

# What MicroPython prints when it waits for a person: the friendly and the raw prompt.
_PROMPTS: Final = (b">>> ", b"raw REPL; CTRL-B to exit")


class Refusal(msgspec.Struct, frozen=True):
    """The board answered that it will not; `status` is the wire's code, `reason` its words."""

    status: int
    reason: str


class Evidence(enum.Enum):
    """What tells that a prompt is at the other end and not our firmware."""

    ECHO = "echo"
    """Our own frame came back: certain, the firmware never does that."""
    PROMPT = "prompt"
    """A prompt was printed; a program that runs can print that as well."""


class Answered(msgspec.Struct, frozen=True):
    """The request `handle` is answered. `sent_ns` is when it was sent first."""

    handle: int
    value: Value | Refusal
    sent_ns: int
    received_ns: int


class TimedOut(msgspec.Struct, frozen=True):
    """The request `handle` is given up after `attempts`."""

    handle: int
    op: int
    attempts: int


class Hint(msgspec.Struct, frozen=True):
    """The board pushed an event. Only its log, read with events_get, counts."""

    event: Event


class Console(msgspec.Struct, frozen=True):
    """Text between the frames, at most `wakewire.limits.CONSOLE_MAX` bytes; the oldest go first."""

    text: bytes


class PromptSeen(msgspec.Struct, frozen=True):
    """A prompt seems to be at the other end. Each evidence is told once until `forget_prompt`."""

    evidence: Evidence


ConnectionEvent = Answered | TimedOut | Hint | Console | PromptSeen


class Counters(msgspec.Struct):
    """What was sent and received, and what was wrong with it, since the connection began."""

    requests: int = 0
    retries: int = 0
    timeouts: int = 0
    answers: int = 0
    refusals: int = 0
    unknown_answers: int = 0
    bad_messages: int = 0
    bad_answers: int = 0
    hints: int = 0
    repeated_hints: int = 0
    dropped_hints: int = 0
    echoes: int = 0
    frames: int = 0
    crc_errors: int = 0
    overlong: int = 0
    malformed: int = 0


class _Request(msgspec.Struct):
    handle: int
    request_id: int
    op: int
    frame: bytes
    echo: bytes
    attempts: int = 0
    sent_ns: int = 0
    deadline_ns: int = 0
    resend: bool = True


class Connection:
    """One session on one port. Times are ns of the boot clock.

    `first_id` should differ from session to session, so that an answer that was meant for the last
    one does not fit into this one.
    """

    def __init__(self, first_id: int = 0) -> None:
        self._decoder = stream.StreamDecoder()
        self._counters = Counters()
        self._next_handle = 0
        self._first_id = first_id
        self._waiting: deque[_Request] = deque()
        self._current: _Request | None = None
        self._typed = bytearray()
        self._tail = b""
        self._console_tail = b""
        self._told: Evidence | None = None
        self._results: deque[Answered | TimedOut] = deque()
        self._prompt: deque[PromptSeen] = deque(maxlen=1)
        self._hints: deque[Hint] = deque()
        self._known_hints: deque[tuple[bytes, int]] = deque(maxlen=HINTS_MAX)
        self._console = b""

    def request(self, op: int, *args: object) -> int:
        """Queue a request; return the handle that its `Answered` or `TimedOut` will carry.

        Raises `wakewire.errors.MessageError` for arguments that the wire does not take and
        `LinkOverloaded` when too many wait.
        """
        if len(self._waiting) >= QUEUE_MAX:
            raise LinkOverloaded(f"{QUEUE_MAX} requests are waiting for the board already")
        handle = self._next_handle
        request_id = (self._first_id + handle) & 0xFFFF
        frame = framing.encode(OPERATIONS[op].write(request_id, *args))
        self._next_handle += 1
        # A prompt echoes what it takes for text; the bytes from 0x80 on it ignores.
        echo = bytes(byte for byte in frame if byte < 0x80)
        self._waiting.append(_Request(handle, request_id, op, frame, echo))
        self._counters.requests += 1
        return handle

    def type_at_prompt(self, keys: bytes) -> None:
        """Queue bytes outside any frame, to be sent before the next one."""
        self._typed += keys

    def forget_prompt(self) -> None:
        """Tell of a prompt again when there is new evidence."""
        self._told = None
        self._prompt.clear()
        self._tail = self._console_tail = b""

    @property
    def idle(self) -> bool:
        """Whether no request is under way or waiting."""
        return self._current is None and not self._waiting

    def counters(self) -> Counters:
        """Return a copy of the counters."""
        decoder = self._decoder
        return msgspec.structs.replace(
            self._counters,
            frames=decoder.frames,
            crc_errors=decoder.crc_errors,
            overlong=decoder.overlong,
            malformed=decoder.malformed,
        )

    # Sending

    def data_to_send(self, now_ns: int) -> bytes:
        """Return the bytes to write now, starting the next request when none is under way."""
        data = bytes(self._typed)
        self._typed.clear()
        if self._current is None and self._waiting:
            self._current = self._waiting.popleft()
        request = self._current
        if request is not None and request.resend:
            request.resend = False
            if request.attempts == 0:
                request.sent_ns = now_ns
            else:
                self._counters.retries += 1
            request.deadline_ns = now_ns + ATTEMPT_TIMEOUTS_NS[request.attempts]
            request.attempts += 1
            data += request.frame
        return data

    def next_deadline(self) -> int | None:
        """Return when `handle_timeout` is due, or None."""
        return None if self._current is None else self._current.deadline_ns

    def handle_timeout(self, now_ns: int) -> None:
        """Repeat or give up a request whose deadline has passed."""
        request = self._current
        if request is None or request.resend or now_ns < request.deadline_ns:
            return
        operation = OPERATIONS[request.op]
        # A host that was suspended amid its attempts knows nothing of the countdown any more (R9).
        old = operation.ages and now_ns >= request.sent_ns + sum(ATTEMPT_TIMEOUTS_NS)
        if operation.idempotent and not old and request.attempts < len(ATTEMPT_TIMEOUTS_NS):
            request.resend = True
            return
        self._current = None
        self._counters.timeouts += 1
        self._results.append(TimedOut(request.handle, request.op, request.attempts))

    # Receiving

    def receive(self, data: bytes, now_ns: int) -> None:
        """Take bytes from the port. Never raises, whatever they are."""
        self._look_for_echo(data)
        for payload in self._decoder.feed(data):
            self._take(payload, now_ns)
        text = self._decoder.take_console()
        if text:
            self._look_for_prompt(text)
            self._console = (self._console + text)[-CONSOLE_MAX:]

    def _take(self, payload: bytes, now_ns: int) -> None:
        try:
            message = messages.parse(payload)
        except MessageError:
            self._counters.bad_messages += 1
            return
        if isinstance(message, Answer):
            self._take_answer(message, now_ns)
        elif isinstance(message, Event):
            self._take_hint(message)
        else:
            self._tell_prompt(Evidence.ECHO)

    def _take_answer(self, answer: Answer, now_ns: int) -> None:
        request = self._current
        if request is None or request.attempts == 0 or answer.id != request.request_id:
            self._counters.unknown_answers += 1
            return
        value: Value | Refusal
        if answer.ok:
            try:
                value = OPERATIONS[request.op].read(answer.fields)
            except MessageError:
                self._counters.bad_answers += 1
                return
            self._counters.answers += 1
        else:
            value = Refusal(answer.status, answer.reason)
            self._counters.refusals += 1
        self._current = None
        self._results.append(Answered(request.handle, value, request.sent_ns, now_ns))

    def _take_hint(self, event: Event) -> None:
        known = (event.boot_id, event.seq)
        if known in self._known_hints:
            self._counters.repeated_hints += 1
            return
        self._known_hints.append(known)
        self._counters.hints += 1
        if len(self._hints) >= HINTS_MAX:
            self._hints.popleft()
            self._counters.dropped_hints += 1
        self._hints.append(Hint(event))

    def _look_for_echo(self, data: bytes) -> None:
        echo = b"" if self._current is None else self._current.echo
        window = self._tail + data
        if len(echo) >= _ECHO_MIN and echo in window:
            self._tell_prompt(Evidence.ECHO)
            window = b""
        self._tail = window[-_TAIL_MAX:]

    def _look_for_prompt(self, text: bytes) -> None:
        window = self._console_tail + text
        if any(prompt in window for prompt in _PROMPTS):
            self._tell_prompt(Evidence.PROMPT)
            window = b""
        self._console_tail = window[-max(map(len, _PROMPTS)) :]

    def _tell_prompt(self, evidence: Evidence) -> None:
        self._counters.echoes += evidence is Evidence.ECHO
        if self._told is None or (evidence is Evidence.ECHO and self._told is not evidence):
            self._told = evidence
            self._prompt.append(PromptSeen(evidence))

    def next_event(self) -> ConnectionEvent | None:
        """Return what happened next, or None when all has been told."""
        for queue in (self._results, self._prompt, self._hints):
            if queue:
                event: ConnectionEvent = queue.popleft()
                return event
        if self._console:
            text, self._console = self._console, b""
            return Console(text)
        return None
