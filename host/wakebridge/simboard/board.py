"""A board on the desk: the real firmware under the real unix MicroPython, taking part as a port."""

import asyncio
import hashlib
import os
import shutil
import signal
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from wakebridge.simboard import flash_content, limits
from wakebridge.simboard.holder import DirectoryLock
from wakebridge.simboard.host_port import HostPort
from wakebridge.simboard.interpreter import BOARD_SIDE, Interpreter, find_micropython
from wakebridge.simboard.line_faults import Direction, LineFaults
from wakebridge.simboard.relay import Relay
from wakebridge.simboard.repl_text import Repl
from wakebridge.simboard.requests import BoardRequests
from wakebridge.simboard.wake_line import WakeLevel, WakeLine, WakeStream

Start = Literal["normal", "raw", "prompt"]
"""What runs at a boot: boot.py and main.py; boot.py, then the raw REPL; nothing."""

_CRASHED: tuple[Start, str] = ("normal", "watchdog")
_SOFT_REBOOT = b"MPY: soft reboot\r\n"


class DeskBoard:
    """The board in `directory`; an asynchronous context manager that is powered while entered.

    `directory` is created when missing. `flash/` in it is the board's flash: the factory content
    when empty (`firmware` names another source directory than this checkout's), else as it is.
    `heap` is MicroPython's `heapsize` text, `ppm` how fast the board's clock runs (positive: fast).

    Raises InterpreterMissingError, FirmwareMissingError or DirectoryHeldError on entry.
    """

    def __init__(
        self,
        directory: Path | str,
        *,
        ppm: float = 0,
        heap: str = limits.HEAP_DEFAULT,
        firmware: Path | None = None,
    ) -> None:
        self.directory = Path(directory).resolve()
        self.flash = self.directory / "flash"
        self._side = self.directory / "desk"
        self._heap = heap
        self._firmware = firmware
        self._ppm = ppm
        self.unique_id = hashlib.sha256(os.fsencode(self.directory)).digest()[:8]
        self.port = str(
            self.directory / f"serial/by-id/usb-wakebridge_desk_board_{self.unique_id.hex()}-if00"
        )
        """The stable path of the serial port; it exists while the board is plugged in."""
        self.boots = 0
        """How many times the interpreter has started."""
        self._lock = DirectoryLock(self.directory / "lock")
        self._wake = WakeLine(self._side / "wake_line")
        self._interpreter: Interpreter | None = None
        self._powered = False
        self._start_next: tuple[Start, str] = ("normal", "power_on")

    async def __aenter__(self) -> Self:
        self._micropython = find_micropython()
        self.directory.mkdir(parents=True, exist_ok=True)
        self._lock.acquire()
        try:
            flash_content.fill(self.flash, self._firmware)
            self._side.mkdir(mode=0o700, exist_ok=True)
            shutil.copy2(BOARD_SIDE / "machine.py", self._side / "machine.py")
            self.set_clock_ppm(self._ppm)
            self._wake.open()
            self._requests = BoardRequests(self._side / "requests", self._requested)
            self._relay = Relay()
            self._port = HostPort(Path(self.port), self._relay.from_host, self._relay.flow)
            self._relay.connect(self._port)
            self._port.plug()
            self._power_on()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stop()

    async def _stop(self) -> None:
        if self._interpreter is not None:
            await self._power_off()
        if hasattr(self, "_port"):
            self._port.unplug()
            self._requests.close()
        self._wake.close()
        self._lock.release()

    # What happens to the board

    async def power_loss(self, off_s: float = 0, *, keep_port: bool = False) -> None:
        """Lose power for `off_s` seconds: countdown and backup memory are gone, a new boot begins.

        The port disappears meanwhile, as with a board fed by USB; with `keep_port` it stays, as
        with a serial adapter that the host feeds.
        """
        plugged = self._port.plugged
        if not keep_port:
            self._port.unplug()
        await self._power_off()
        self._backup.unlink(missing_ok=True)
        if off_s > 0:
            await asyncio.sleep(off_s)
        if plugged:
            self._port.plug()
        self._power_on()

    async def unplug(self) -> None:
        """Take the serial port away; the board runs on, what it writes is lost."""
        self._port.unplug()

    async def replug(self) -> None:
        """Make another serial port appear behind the same link."""
        self._port.plug()

    async def soft_reset(self) -> None:
        """Press Ctrl-C and Ctrl-D, as a technician does: boot.py and main.py start again."""
        boots = self.boots
        try:
            async with asyncio.timeout(limits.SOFT_RESET_S):
                await self.stop_at_prompt()
                self._relay.type(b"\x02\x04")
                await self.until_boot(boots + 1)
        except TimeoutError:
            self._relay.forget_input()
            self._restart("normal", "soft")

    async def hard_reset(self) -> None:
        """Press the reset button: the backup memory survives, the run of the program does not."""
        self._restart("normal", "hard")
        await self._until_up()

    async def until_boot(self, number: int) -> None:
        """Wait until the interpreter has started `number` times and its program may run."""
        while self.boots < number:
            await self._activity()
        await self._until_up()

    async def stop_at_prompt(self) -> None:
        """Press Ctrl-C until the program stands still: the firmware is left at a bare prompt."""
        await self._until_up()
        while self._interpreter is not None and self._interpreter.in_program:
            self._relay.type(b"\x03")
            try:
                async with asyncio.timeout(limits.GATE_INTERRUPT_S):
                    while self._interpreter.in_program:
                        await self._activity()
            except TimeoutError:
                continue

    def set_clock_ppm(self, ppm: float) -> None:
        """Let the board's clock run fast (positive) or slow from now on, in parts per million."""
        self._ppm = ppm
        target = self._side / "clock_ppm"
        fresh = target.with_name("clock_ppm.new")
        fresh.write_text(f"{ppm:g}\n", encoding="ascii")
        fresh.replace(target)

    def line(self, direction: Direction) -> LineFaults:
        """Return the faults of one direction of the line, to be set."""
        return self._relay.faults[direction]

    def inject(self, direction: Direction, data: bytes) -> None:
        """Put noise on the line that neither side sent."""
        if direction == "to_host":
            self._port.write(data)
        else:
            self._relay.type(data)

    # What can be seen of the board

    def wake_pulses(self) -> WakeStream:
        """Return the stream of the wake line's changes from this call on."""
        return self._wake.changes()

    @property
    def wake_history(self) -> list[WakeLevel]:
        """Return the last changes of the wake line, oldest first."""
        return list(self._wake.history)

    @property
    def plugged(self) -> bool:
        """Whether the serial port exists."""
        return self._port.plugged

    @property
    def powered(self) -> bool:
        """Whether the board has power."""
        return self._powered

    @property
    def at_prompt(self) -> bool:
        """Whether the board waits at a REPL, so that its firmware does not run."""
        return (
            self._interpreter is not None
            and self._relay.running
            and not self._interpreter.in_program
        )

    @property
    def pid(self) -> int | None:
        """Return the interpreter's process id, None without power."""
        return self._interpreter.pid if self._interpreter else None

    def status(self) -> str:
        """Return the state in one line of words for people."""
        state = "off" if not self._powered else "at the prompt" if self.at_prompt else "running"
        plugged = "plugged" if self.plugged else "unplugged"
        return (
            f"{state}, {plugged}, {self._port.host_count} host(s), boot {self.boots}, "
            f"clock {self._ppm:+g} ppm, wake line pulsed {self._wake.pulse_count} time(s)"
        )

    # Power and resets

    @property
    def _backup(self) -> Path:
        return self._side / "backup"

    def _power_on(self) -> None:
        self._powered = True
        self._boot("normal", "power_on")

    async def _power_off(self) -> None:
        self._powered = False
        interpreter = self._interpreter
        if interpreter is not None:
            interpreter.kill()
            async with asyncio.timeout(limits.EXIT_GRACE_S):
                await interpreter.gone.wait()

    def _restart(self, start: Start, cause: str) -> None:
        """End the run by force; `_ended` boots again in this way."""
        self._start_next = (start, cause)
        if self._interpreter is not None:
            self._relay.hold_input()
            self._interpreter.kill()

    def _requested(self, request: bytes) -> None:
        """Do what the running program asked the `machine` module for."""
        if request == b"reset":
            self._restart("normal", "hard")
        elif request == b"soft-reset":
            raw = self._relay.repl is Repl.RAW
            self._restart("raw" if raw else "normal", "soft")

    def _boot(self, start: Start, cause: str) -> None:
        # What a run that ends by itself leads to; a reset by force says otherwise before it kills.
        self._start_next = _CRASHED
        self.boots += 1
        command = [self._micropython, "-X", f"heapsize={self._heap}", "-i"]
        self._interpreter = Interpreter(
            [*command, str(BOARD_SIDE / "desk_boot.py")],
            self.flash,
            self._environment(start, cause),
            self._relay.from_board,
            self._ended,
        )
        self._relay.attach(self._interpreter, start_raw=start == "raw")

    def _environment(self, start: Start, cause: str) -> dict[str, str]:
        """Return all that the firmware and the reset vector are told; paths are the board's."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "TERM": "dumb",
            "WAKEBRIDGE_DESK_FLASH": str(self.flash),
            "WAKEBRIDGE_DESK_SIDE": str(self._side),
            "WAKEBRIDGE_DESK_START": start,
            "WAKEBOARD_WAKE_LINE": "/desk/wake_line",
            "WAKEBOARD_BACKUP": "/desk/backup",
            "WAKEBOARD_CLOCK_PPM_FILE": "/desk/clock_ppm",
            "WAKEBOARD_RESET_CAUSE": cause,
            "WAKEBOARD_UNIQUE_ID": self.unique_id.hex(),
        }

    def _ended(self, code: int) -> None:
        """Decide what comes after a run: nothing without power, else the next boot."""
        self._interpreter = None
        repl = self._relay.repl
        self._relay.detach()
        if not self._powered:
            self._relay.forget_input()
            return
        start, cause = self._start_next
        if code >= 0:  # Ctrl-D or sys.exit at a REPL: a soft reset that stays in the REPL's mode
            start, cause = "raw" if repl is Repl.RAW else "normal", "soft"
        elif code == -signal.SIGINT:  # Ctrl-C between program and prompt, which a board survives
            start, cause = "prompt", "unknown"
        if cause == "soft":
            self._relay.to_host(_SOFT_REBOOT)
        if (start, cause) == _CRASHED:
            loop = asyncio.get_running_loop()
            loop.call_later(limits.RESTART_PAUSE_S, self._boot_if_off, start, cause)
        else:
            self._boot(start, cause)

    def _boot_if_off(self, start: Start, cause: str) -> None:
        if self._powered and self._interpreter is None:
            self._boot(start, cause)

    async def _activity(self) -> None:
        """Wait until the board has written something, but not for long: silence is an answer."""
        seen = asyncio.Event()
        self._relay.on_activity = seen.set
        try:
            async with asyncio.timeout(limits.GATE_SILENT_S):
                await seen.wait()
        except TimeoutError:
            return

    async def _until_up(self) -> None:
        while self._powered and not self._relay.running:
            await self._activity()
