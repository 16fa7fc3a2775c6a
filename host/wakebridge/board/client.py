"""The board as calls with answers: one `Connection` joined to one open port.

A refusal by the board is a value that the caller looks at; a broken link is a `LinkError`.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from wakebridge.board.connection import (
    Answered,
    Connection,
    Console,
    Counters,
    Evidence,
    Hint,
    PromptSeen,
    Refusal,
    TimedOut,
)
from wakebridge.board.errors import LinkLost, RequestTimeout
from wakebridge.board.event_log import EventLog, LogReader
from wakebridge.board.operations import Done, Pong
from wakebridge.clock import Clock
from wakebridge.schedule.instants import Now
from wakebridge.wake.board_rate import BoardRate
from wakebridge.wake.reconciler import CountdownState, TimerReading
from wakewire import codes
from wakewire.messages import Diag, Event, EventBatch, Hello, TimerState

T = TypeVar("T")

_NS_PER_S: Final = 1_000_000_000

# More than the loop's floating-point time can miss, so that a deadline has passed when it wakes.
_LATE_S: Final = 1e-6


class Port(Protocol):
    """What the client needs of a port: `serial_port.SerialPort`, or the one of a simulation."""

    def attach(self, on_data: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        """Start delivering bytes, and once the reason why there will be no more."""
        ...

    def write(self, data: bytes) -> None:
        """Write without waiting. Raises `LinkLost`."""
        ...

    def close(self) -> None:
        """Give the port back; nothing is delivered any more."""
        ...


class Watcher(Protocol):
    """Who is told what happens on the link beside the answers. Must not raise."""

    def hinted(self, event: Event) -> None:
        """The board pushed an event."""
        ...

    def printed(self, text: str) -> None:
        """The board printed text that is no frame."""
        ...

    def prompted(self, evidence: Evidence) -> None:
        """A prompt seems to be where the firmware should be."""
        ...

    def rebooted(self) -> None:
        """The board has another boot id than its hello said."""
        ...

    def silent(self, reason: str) -> None:
        """A request was given up."""
        ...

    def lost(self, reason: str) -> None:
        """The port is gone."""
        ...


class Reading(msgspec.Struct, Generic[T], frozen=True):
    """An answer of the board, with the host's clocks before and after: it was true in between."""

    value: T
    sent: Now
    received: Now

    @property
    def boot_ns(self) -> int:
        """The middle of the round trip on the boot clock."""
        return (self.sent.boot_ns + self.received.boot_ns) // 2


def timer_reading(reading: Reading[TimerState]) -> TimerReading:
    """Return a timer answer in the words of the reconciler.

    A state that this host does not know counts as armed while something remains.
    """
    timer = reading.value
    try:
        state = CountdownState(timer.state)
    except ValueError:
        state = CountdownState.ARMED if timer.remaining_ms else CountdownState.IDLE
    return TimerReading(
        state,
        timer.token,
        timer.remaining_ms,
        timer.duration_ms,
        bool(timer.flags & codes.FLAG_APPROXIMATE),
        reading.boot_ns,
    )


class BoardClient:
    """Asks the board, one request at a time, in the order of the calls.

    Every method may raise `LinkError`: `LinkLost` when the port is gone or the client closed,
    `RequestTimeout` when the board stays silent. `rate` learns from every answer with an uptime.
    """

    def __init__(
        self, port: Port, clock: Clock, rate: BoardRate, watcher: Watcher, first_id: int
    ) -> None:
        self._port = port
        self._clock = clock
        self._rate = rate
        self._watcher = watcher
        self._connection = Connection(first_id)
        self._futures: dict[int, asyncio.Future[Answered]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closed: str | None = None
        self._loop = asyncio.get_running_loop()
        self.boot_id = b""
        port.attach(self._received, self._port_lost)

    @property
    def closed(self) -> bool:
        """Whether the link is down for good."""
        return self._closed is not None

    def counters(self) -> Counters:
        """Return what was counted on this link."""
        return self._connection.counters()

    async def hello(self) -> Reading[Hello] | Refusal:
        """Ask who the board is, in the protocol versions of this host."""
        answer = await self._ask(Hello, codes.OP_HELLO)
        if isinstance(answer, Reading):
            self.boot_id = answer.value.boot_id
            self._rate.start(self.boot_id, answer.value.clock_quality)
            self._observe(answer, answer.value.uptime_ms)
        return answer

    async def ping(self) -> Reading[Pong] | Refusal:
        """Ask for the uptime only."""
        answer = await self._ask(Pong, codes.OP_PING)
        if isinstance(answer, Reading):
            self._observe(answer, answer.value.uptime_ms)
        return answer

    async def timer_get(self) -> Reading[TimerState] | Refusal:
        """Read the countdown."""
        return self._timed(await self._ask(TimerState, codes.OP_TIMER_GET))

    async def timer_set(self, token: int, duration_ms: int) -> Reading[TimerState] | Refusal:
        """Arm the countdown; one that runs with this token and duration is left alone."""
        return self._timed(await self._ask(TimerState, codes.OP_TIMER_SET, token, duration_ms))

    async def timer_cancel(self, token: int) -> Reading[TimerState] | Refusal:
        """Cancel the countdown of this token; 0 cancels whichever runs."""
        return self._timed(await self._ask(TimerState, codes.OP_TIMER_CANCEL, token))

    async def events_get(self, boot_id: bytes, after_seq: int) -> EventLog | Refusal:
        """Read the whole event log after a cursor, page by page.

        A cursor of another boot stands before everything. Raises `BoardFault` when the pages do
        not lead to an end.
        """
        reader = LogReader(boot_id, after_seq)
        while (cursor := reader.next_cursor()) is not None:
            page = await self._ask(EventBatch, codes.OP_EVENTS_GET, *cursor)
            if isinstance(page, Refusal):
                return page
            reader.take(page.value)
        log = reader.result()
        self._compare_boot(log.boot_id)
        return log

    async def diag(self) -> Reading[Diag] | Refusal:
        """Read the board's counters."""
        return await self._ask(Diag, codes.OP_DIAG)

    async def restart(self) -> Reading[Done] | Refusal:
        """Restart the firmware; asked once only, and the board answers before it does."""
        return await self._ask(Done, codes.OP_RESTART)

    def type_at_prompt(self, keys: bytes) -> None:
        """Send keystrokes outside any frame; our firmware ignores all but Ctrl-C."""
        self._connection.forget_prompt()
        self._connection.type_at_prompt(keys)
        self._pump()

    def forget_prompt(self) -> None:
        """Let the watcher be told again when a prompt is seen."""
        self._connection.forget_prompt()

    def close(self, reason: str = "the link was closed") -> None:
        """Close the port; whoever waits for an answer gets `LinkLost`."""
        self._end(reason)
        self._port.close()

    def detach(self, reason: str) -> None:
        """End this client but leave the port open, for whoever attaches to it next."""
        self._end(reason)

    # Requests

    async def _ask(self, kind: type[T], op: int, *args: object) -> Reading[T] | Refusal:
        if self._closed is not None:
            raise LinkLost(self._closed)
        handle = self._connection.request(op, *args)
        future: asyncio.Future[Answered] = self._loop.create_future()
        self._futures[handle] = future
        self._pump()
        answered = await future
        if isinstance(answered.value, Refusal):
            return answered.value
        if not isinstance(answered.value, kind):  # the connection reads answers by operation
            raise TypeError(f"{type(answered.value).__name__} answers operation {op}")
        received = self._clock.now()
        return Reading(
            answered.value,
            _back_to(received, answered.sent_ns),
            _back_to(received, answered.received_ns),
        )

    def _timed(self, answer: Reading[TimerState] | Refusal) -> Reading[TimerState] | Refusal:
        if isinstance(answer, Reading):
            self._compare_boot(answer.value.boot_id)
            self._observe(answer, answer.value.uptime_ms)
        return answer

    def _observe(self, answer: Reading[T], uptime_ms: int) -> None:
        if self.boot_id:
            self._rate.observe(
                self.boot_id, answer.sent.boot_ns, answer.received.boot_ns, uptime_ms
            )

    def _compare_boot(self, boot_id: bytes) -> None:
        if self.boot_id and boot_id != self.boot_id:
            self.boot_id = b""
            self._watcher.rebooted()

    # The loop between port and connection

    def _received(self, data: bytes) -> None:
        self._connection.receive(data, self._clock.now().boot_ns)
        self._pump()

    def _deadline(self) -> None:
        self._timer = None
        self._connection.handle_timeout(self._clock.now().boot_ns)
        self._pump()

    def _pump(self) -> None:
        """Tell what happened, send what is to be sent, and wait for the next deadline."""
        self._tell()
        if self._closed is not None:
            return
        now_ns = self._clock.now().boot_ns
        data = self._connection.data_to_send(now_ns)
        if data:
            try:
                self._port.write(data)
            except LinkLost as error:
                self._port_lost(str(error))
                return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ns = self._connection.next_deadline()
        if deadline_ns is not None:
            delay_s = max(deadline_ns - now_ns, 0) / _NS_PER_S + _LATE_S
            self._timer = self._loop.call_later(delay_s, self._deadline)

    def _tell(self) -> None:
        while self._closed is None and (event := self._connection.next_event()) is not None:
            match event:
                case Answered(handle):
                    self._resolve(handle, event)
                case TimedOut(handle, _, attempts):
                    reason = f"the board left a request unanswered {attempts} times"
                    self._reject(handle, RequestTimeout(reason))
                    self._watcher.silent(reason)
                case Hint(pushed):
                    self._watcher.hinted(pushed)
                    self._compare_boot(pushed.boot_id)
                case Console(text):
                    self._watcher.printed(text.decode(errors="replace"))
                case PromptSeen(evidence):
                    self._watcher.prompted(evidence)

    def _resolve(self, handle: int, answered: Answered) -> None:
        future = self._futures.pop(handle)
        if not future.done():
            future.set_result(answered)

    def _reject(self, handle: int, error: Exception) -> None:
        future = self._futures.pop(handle)
        if not future.done():
            future.set_exception(error)

    def _port_lost(self, reason: str) -> None:
        if self._closed is None:
            self._end(reason)
            self._watcher.lost(reason)

    def _end(self, reason: str) -> None:
        if self._closed is not None:
            return
        self._closed = reason
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for handle in list(self._futures):
            self._reject(handle, LinkLost(reason))


def _back_to(now: Now, boot_ns: int) -> Now:
    """Return both clocks as they stood at `boot_ns`, a moment ago."""
    return Now(now.wall_ns - (now.boot_ns - boot_ns), boot_ns)
