"""A board: the real firmware on simulated hardware.

The firmware's own loop body, `Firmware.step`, is run by the world instead of by `serve`: whenever
bytes arrived or the wait that it asked for is over. Oscillator, backup memory, power, prompt and
wake line are simulated.
"""

import importlib
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wakewire import PAYLOAD_MAX

from .kernel import MS, NS, Agenda, Planned, Violation
from .line import SerialLine
from .properties import EVENTS, FIRMWARE_ALIVE, OUTLASTS, UPTIME

_ROOT: Final = Path(__file__).parents[2]
for _path in (str(_ROOT / "firmware"), str(_ROOT / "tests/fixtures")):
    if _path not in sys.path:
        sys.path.append(_path)
# Untyped on purpose: the firmware is MicroPython's dialect, with checks of its own.
_backup: Any = importlib.import_module("wakeboard.backup")
_link: Any = importlib.import_module("wakeboard.link")
_loop: Any = importlib.import_module("wakeboard.loop")
_wake_line: Any = importlib.import_module("wakeboard.wake_line")
_event_log: Any = importlib.import_module("wakeboard.event_log")

_TICKS_MASK: Final = 0x3FFFFFFF
_RX_MAX: Final = 256
_CHECKPOINT: Final = 12
_CHECKPOINT_NS: Final = 3 * NS
"""A checkpoint counts in units of a second; so does the age that it is given."""

SOURCE_BUTTON: Final = 2
SOURCE_VOICE: Final = 3
SOURCE_RTC_TIMER: Final = 4


CLOCK_BOUND_PPM: Final = {0: 50_000, 1: 100, 2: 50_000, 3: 200}
"""What a clock of each quality of the wire may be off by."""


@dataclass(frozen=True)
class BoardConfig:
    """What kind of board it is."""

    ppm: int = 0
    clock_quality: int = 0
    ticks_start_ms: int = 0
    ticks_survive_soft_reset: bool = True
    keeps_backup: bool = False
    save_every_ms: int = 2000
    native_usb: bool = False
    awake_ms: int = 60_000
    pulse_ms: int = 200
    step_max_ms: int = 5000

    @property
    def honest(self) -> bool:
        """Whether its clock is as good as it claims."""
        return abs(self.ppm) <= CLOCK_BOUND_PPM[self.clock_quality]


class _Reset(BaseException):
    """Leaves the firmware, as `machine.reset` does."""


class _Poll:
    """`select.poll` of the board: answers at once and remembers how long it was asked to wait."""

    def __init__(self) -> None:
        self._stream: Any = None

    def register(self, stream: Any, _mask: int) -> None:
        self._stream = stream

    def ipoll(self, timeout_ms: int) -> tuple[int, ...]:
        return self._stream.poll(timeout_ms)  # type: ignore[no-any-return]


class _Select:
    POLLIN, POLLOUT = 1, 4
    poll = _Poll


def _linked(reader: "_Reader", writer: "_Writer") -> Any:
    """Return the firmware's link, on polls of ours."""
    real, _link.select = _link.select, _Select
    try:
        return _link.Link(reader, writer)
    finally:
        _link.select = real


class _Reader:
    def __init__(self) -> None:
        self.data = bytearray()
        self.wait_ms = 0

    def poll(self, timeout_ms: int) -> tuple[int, ...]:
        self.wait_ms = timeout_ms
        return (1,) if self.data else ()

    def readinto(self, buffer: bytearray) -> int:
        buffer[0] = self.data[0]
        del self.data[0]
        return 1


class _Writer:
    def __init__(self, line: SerialLine, usb: bool) -> None:
        self._line = line
        self._usb = usb

    def poll(self, _timeout_ms: int) -> tuple[int, ...]:
        return (1,) if not self._usb or self._line.board_can_write() else ()

    def write(self, data: memoryview) -> int:
        self._line.board_writes(bytes(data))
        return len(data)


@dataclass
class Expiry:
    """One countdown that ran out, as only the world can know."""

    at_ns: int
    boot_id: bytes
    seq: int
    source: int
    token: int


class SimBoard:
    """The board of one device. `wake` is called when the line goes to its active level."""

    def __init__(
        self, agenda: Agenda, config: BoardConfig, seed: str, wake: Callable[[], None]
    ) -> None:
        self._agenda = agenda
        self.config = config
        self._random = random.Random(seed)
        self._wake = wake
        self.line: SerialLine
        self.ppm = config.ppm
        self._oscillator_ns = config.ticks_start_ms * MS
        self._read_at_ns = 0
        self._record = bytes(_CHECKPOINT)
        self.firmware: Any = None
        self.reader = _Reader()
        self.powered = False
        self.at_prompt = False
        self.hints_to_lose = 0
        self.hint_lost_ns = -1
        self._booted_ms = 0
        self._told: set[int] = set()
        """Tokens that came over the wire, so that they are in a checkpoint."""
        self._typed = bytearray()
        self._next: Planned | None = None
        self.boot_ids: list[bytes] = []
        self.log: dict[bytes, list[Expiry]] = {}
        """Every event that this board logged, by boot."""
        self.expired_tokens: set[int] = set()
        self.logged_ns = 0
        """When the newest event was logged."""
        self.sets: list[tuple[int, int, int, int]] = []
        """World time, token and duration of every countdown that the host armed, and the token of
        the one that ran before, 0 when none did."""
        self.armed: Callable[[int, int], None] = lambda _token, _duration_ms: None
        self.heard_ns = 0
        self.steps = 0
        self.up_since_ns = 0

    # -- oscillator -----------------------------------------------------------------------------

    def ticks_ms(self) -> int:
        now = self._agenda.now_ns
        elapsed = now - self._read_at_ns
        self._oscillator_ns += elapsed + elapsed * self.ppm // 1_000_000
        self._read_at_ns = now
        return self._oscillator_ns // MS & _TICKS_MASK

    def world_ns(self, board_ms: int) -> int:
        """Return what passes in the world while the board counts so long."""
        return -(-board_ms * MS * 1_000_000 // (1_000_000 + self.ppm)) + 1000

    def set_rate(self, ppm: int) -> None:
        self.ticks_ms()
        self.ppm = ppm

    # -- power ----------------------------------------------------------------------------------

    def power_on(self) -> None:
        if not self.powered:
            self.powered = True
            self.ticks_ms()
            self._oscillator_ns = self.config.ticks_start_ms * MS
            if not self.config.keeps_backup:
                self._record = bytes(_CHECKPOINT)
            self._boot(reset_cause=1)

    def power_off(self) -> None:
        self._stop()
        self.powered = False

    def hard_reset(self) -> None:
        """The reset pin, or `machine.reset`: a native USB port goes away with it."""
        if not self.powered:
            return
        self._stop()
        if self.config.native_usb and self.line.plugged:
            self.line.unplug()
            self._agenda.after(NS, self.line.plug)
        self._agenda.after(NS, lambda: self._boot(reset_cause=2))

    def soft_reset(self) -> None:
        if not self.powered:
            return
        before = self.live()
        self._stop()
        self.line.board_writes(b"MPY: soft reboot\r\n")
        if not self.config.ticks_survive_soft_reset:
            self._oscillator_ns = 0
        self._boot(reset_cause=5)
        if before is not None and before[0] in self._told:
            self._check_outlasts(*before)

    def _check_outlasts(self, token: int, end_ns: int) -> None:
        """A countdown ends when it would have, except for what a checkpoint cannot say."""
        after = self.live()
        late_ns = _CHECKPOINT_NS
        total_ms = self._oscillator_ns // MS
        if total_ms % (_TICKS_MASK + 1) < self.config.save_every_ms:
            late_ns += self.config.save_every_ms * MS * 11 // 10  # its age is not known
        if after is None and end_ns > self._agenda.now_ns + _CHECKPOINT_NS:
            raise Violation(OUTLASTS, f"{token:#x} is gone")
        if after is not None and not -_CHECKPOINT_NS <= after[1] - end_ns <= late_ns:
            raise Violation(
                OUTLASTS, f"{token:#x} ends {(after[1] - end_ns) / NS:.1f} s after it should"
            )

    def break_in(self) -> None:
        """Ctrl-C of a technician: the firmware stands still at a prompt."""
        if self.powered and self.firmware is not None:
            self._stop()
            self.at_prompt = True
            self._typed.clear()
            self.line.board_writes(b"wakeboard stands still\r\n>>> ")

    def _stop(self) -> None:
        if self.firmware is not None:
            self.firmware.line.set(0)
            self.firmware = None
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self.reader = _Reader()
        self.at_prompt = False

    def _boot(self, reset_cause: int) -> None:
        if not self.powered or self.firmware is not None:
            return
        self.reader = _Reader()
        boot_id = self._random.randbytes(8)
        self.boot_ids.append(boot_id)
        identity = [
            "0.0.0-sim",
            "sim",
            "a board in a simulation",
            b"\x01\x02\x03\x04",
            boot_id,
            reset_cause,
            [PAYLOAD_MAX, 604_800_000, _event_log.RING_LEN],
            self.config.clock_quality,
            [],
        ]
        self.ticks_ms()
        self._booted_ms = self._oscillator_ns // MS
        firmware = _loop.Firmware(
            boot_id,
            identity,
            self.ticks_ms,
            _linked(self.reader, _Writer(self.line, self.config.native_usb)),
            _wake_line.WakeLine(self._level, self.config.pulse_ms, self.config.awake_ms),
            self._save,
            self.config.save_every_ms,
            self._restart,
        )
        _backup.restore(firmware.countdown, self._record)
        push = firmware.push
        firmware.push = lambda: self._push(push)
        self.firmware = firmware
        self.up_since_ns = self._agenda.now_ns
        firmware.save()
        self._note_events(0)
        firmware.push()
        self._plan(0)

    def _push(self, push: Callable[[], None]) -> None:
        """Push the newest event, unless the hint of a countdown is to get lost."""
        _, source, *_ = self.firmware.log.read(self.firmware.log.last_seq)
        if self.hints_to_lose and source == SOURCE_RTC_TIMER:
            self.hints_to_lose -= 1
            self.hint_lost_ns = self._agenda.now_ns
        else:
            push()

    def _restart(self) -> None:
        raise _Reset

    def _save(self, record: bytes) -> None:
        self._record = record

    def _level(self, active: int) -> None:
        if active:
            self._wake()

    # -- running --------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Take bytes from the line."""
        if self.at_prompt:
            self._type(data)
        elif self.firmware is not None:
            room = _RX_MAX - len(self.reader.data)
            self.reader.data += data[:room]
            self.run()

    def _type(self, data: bytes) -> None:
        """A MicroPython prompt: echoes text, and reboots softly at Ctrl-D on an empty line."""
        for byte in data:
            if byte == 0x04 and not self._typed:
                self._agenda.after(50 * MS, self.soft_reset)
                return
            if byte in (0x03, 0x0D):
                self._typed.clear()
                self.line.board_writes(b"\r\n>>> ")
            elif byte == 0x02:
                self.line.board_writes(b"\r\n>>> ")
            elif 0x20 <= byte < 0x80:
                self._typed.append(byte)
        echo = bytes(byte for byte in data if 0x20 <= byte < 0x80)
        if echo:
            self.line.board_writes(echo)

    def run(self) -> None:
        """Let the firmware do what it would have done by now."""
        firmware = self.firmware
        if firmware is None:
            return
        try:
            while True:
                self._step(firmware)
                if not self.reader.data:
                    break
        except _Reset:
            self.hard_reset()
            return
        self._plan(self.reader.wait_ms)

    def checkpoint(self) -> None:
        """Let the firmware save now: a coarse world skips the moments at which it would have."""
        self.run()
        if self.firmware is not None:
            self.firmware.save()

    def _step(self, firmware: Any) -> None:
        self.steps += 1
        before = firmware.log.last_seq
        countdown = firmware.countdown
        armed = (countdown.token, countdown.duration_ms, countdown.left_ms)
        was_running = countdown.armed
        requests = firmware.link.decoder.frames - firmware.bad_payloads
        try:
            firmware.step()
        except Exception as error:
            raise Violation(FIRMWARE_ALIVE, f"{error!r} in a step") from error
        finally:
            self._note_events(before)
        self._check_uptime(countdown.s * 1000 + countdown.ms)
        if firmware.link.decoder.frames - firmware.bad_payloads != requests:
            self.heard_ns = self._agenda.now_ns
        after = (countdown.token, countdown.duration_ms, countdown.left_ms)
        if after[:2] != armed[:2] and countdown.armed:
            before_token = armed[0] if was_running else 0
            self.armed(countdown.token, countdown.duration_ms)
            self._told.add(countdown.token)
            self.sets.append(
                (self._agenda.now_ns, countdown.token, countdown.duration_ms, before_token)
            )

    def _check_uptime(self, uptime_ms: int) -> None:
        """The oscillator is as far as when the step began: no time passes in it."""
        ticked_ms = self._oscillator_ns // MS - self._booted_ms
        if uptime_ms != ticked_ms:
            raise Violation(UPTIME, f"it says {uptime_ms} ms, but {ticked_ms} ms have passed")

    def _note_events(self, after_seq: int) -> None:
        log = self.firmware.log
        for seq in range(max(after_seq + 1, log.oldest_seq()), log.last_seq + 1):
            _, source, _, token, _ = log.read(seq)
            self.logged_ns = self._agenda.now_ns
            event = Expiry(self.logged_ns, self.firmware.boot_id, seq, source, token)
            self.log.setdefault(event.boot_id, []).append(event)
            if source == SOURCE_RTC_TIMER:
                self.expired_tokens.add(token)
        self._check_log(log)

    def _check_log(self, log: Any) -> None:
        """What the board still offers is what it logged."""
        oldest = log.oldest_seq()
        _, source, _, token, _ = log.read(oldest)
        logged = self.log[self.firmware.boot_id][oldest - 1]
        if (source, token) != (logged.source, logged.token):
            raise Violation(EVENTS, f"event {oldest} is {source} {token:#x}, logged was {logged}")

    def _plan(self, wait_ms: int) -> None:
        """Run again when the wait is over; a coarse world skips waits in which nothing is due."""
        firmware = self.firmware
        if firmware is None:
            return
        if self._next is not None:
            self._next.cancel()
        line, countdown = firmware.line, firmware.countdown
        if wait_ms > 0:
            due_ms = self.config.step_max_ms
            if line.left_ms >= 0:
                due_ms = min(due_ms, line.left_ms)
            if countdown.armed:
                due_ms = min(due_ms, countdown.left_ms)
            wait_ms = max(wait_ms, due_ms - due_ms // 16)
        # A wait of no time still takes some: the loop goes round in microseconds.
        delay_ns = self.world_ns(wait_ms) if wait_ms > 0 else 300_000
        self._next = self._agenda.after(delay_ns, self.run)

    # -- what happens on the board itself ---------------------------------------------------------

    def press(self, source: int) -> None:
        """A button, or a voice: an event that is no wake of the countdown."""
        firmware = self.firmware
        if firmware is not None:
            self.run()
            if self.firmware is not firmware:
                return
            before = firmware.log.last_seq
            firmware.log.append(source, firmware.countdown.s, firmware.countdown.ms, 0, 0)
            self._note_events(before)
            firmware.push()
            self._wake()

    def set_by_other(self, token: int, duration_ms: int) -> None:
        """Somebody else programs the countdown."""
        if self.firmware is not None:
            self.run()
            if self.firmware is not None:
                self.firmware.countdown.set(token, duration_ms, 0)
                self._plan(0)

    def live(self) -> tuple[int, int] | None:
        """Return token and end, in world time, of the countdown that runs; None: none does."""
        if self.firmware is None or not self.firmware.countdown.armed:
            return None
        countdown = self.firmware.countdown
        passed_ms = (self.ticks_ms() - countdown.ticks_ms) & _TICKS_MASK
        left_ms = max(0, countdown.left_ms - passed_ms)
        return countdown.token, self._agenda.now_ns + self.world_ns(left_ms)
