"""A board's pure half with a clock that the test turns: ticks as a 32-bit board counts them."""

from typing import Final

from wakeboard.dispatcher import Dispatcher

from wakewire import messages
from wakewire.readings import EventBatch, Hello, TimerState

TICKS_PERIOD_MS: Final = 1 << 30
BOOT_ID: Final = b"bootboot"
IDENTITY: Final[list[object]] = [
    "0.1.0",
    "rp2",
    "Raspberry Pi Pico with RP2040",
    b"12345678",
    BOOT_ID,
    1,
    [192, 604800000, 12],
    1,
    [],
]


class TurnedBoard:
    """A dispatcher, and the true time since its start beside its wrapping ticks."""

    def __init__(self, ticks_start_ms: int = 0) -> None:
        self.now_ms = 0
        self.expiries = 0
        self._ticks_start_ms = ticks_start_ms
        self.dispatcher = Dispatcher(BOOT_ID, IDENTITY, ticks_start_ms)

    def turn_to(self, now_ms: int, step_ms: int = 5000) -> None:
        """Let time pass as the loop sees it: in steps no longer than its longest wait."""
        while self.now_ms < now_ms:
            self.now_ms = min(now_ms, self.now_ms + step_ms)
            ticks_ms = (self._ticks_start_ms + self.now_ms) % TICKS_PERIOD_MS
            self.expiries += self.dispatcher.advance(ticks_ms)

    def ask(self, payload: bytes) -> messages.Answer:
        """Send a request payload and return the answer."""
        answer = self.dispatcher.answer(payload)
        assert answer is not None
        parsed = messages.parse(answer)
        assert isinstance(parsed, messages.Answer)
        return parsed

    def timer(self, payload: bytes) -> TimerState:
        """Send a timer request that is granted."""
        answer = self.ask(payload)
        assert answer.ok, answer
        return TimerState.from_fields(answer.fields)

    def events(self, after_seq: int, boot_id: bytes = BOOT_ID) -> EventBatch:
        """Ask for a page of the log."""
        return EventBatch.from_fields(self.ask(messages.events_get(1, boot_id, after_seq)).fields)

    def hello(self) -> Hello:
        """Ask who the board is."""
        return Hello.from_fields(self.ask(messages.hello(1)).fields)
