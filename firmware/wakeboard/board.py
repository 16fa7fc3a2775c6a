"""One boot of a board: who it is, its clock, its countdown and what woke the host."""

from wakeboard.countdown import Clock, Countdown
from wakeboard.event_log import EventLog
from wakewire.codes import (
    CLOCK_UNKNOWN,
    FLAG_APPROXIMATE,
    RESET_UNKNOWN,
    SOURCE_BOOT,
    SOURCE_RTC_TIMER,
    TYPE_EVENT,
)


class Board:
    """What the host can ask about. Time comes in through `advance`; nothing here does IO."""

    port = ""  # MicroPython port, at most 16 characters
    model = ""  # board, at most 32 characters
    unique_id = b""  # of the chip, at most 16 bytes
    reset_cause = RESET_UNKNOWN
    clock_quality = CLOCK_UNKNOWN

    def __init__(self, boot_id: bytes, ticks_ms: int) -> None:
        self.boot_id = boot_id
        self.clock = Clock(ticks_ms)
        self.countdown = Countdown(self.clock)
        self.log = EventLog()
        self.config_faults: list[str] = []
        self.log_event(SOURCE_BOOT, 0, 0)

    def advance(self, ticks_ms: int) -> bool:
        """Move the clock on; True when the countdown has run out, which is then logged."""
        self.clock.advance(ticks_ms)
        countdown = self.countdown
        if not countdown.expire():
            return False
        flags = FLAG_APPROXIMATE if countdown.approximate else 0
        self.log_event(SOURCE_RTC_TIMER, countdown.token, flags)
        return True

    def log_event(self, source: int, token: int, flags: int) -> None:
        """Append an event that happens now."""
        self.log.append(source, self.clock.s, self.clock.ms, token, flags)

    def latest_event(self) -> list[object]:
        """The newest event as the message that is pushed to the host."""
        event: list[object] = [TYPE_EVENT, self.boot_id]
        event.extend(self.log.read(self.log.last_seq))
        return event
