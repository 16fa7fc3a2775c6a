"""Joins the two pseudo-terminals: the board's program on one, the host on the other."""

import asyncio
from collections.abc import Callable

from wakebridge.simboard import limits
from wakebridge.simboard.host_port import HostPort
from wakebridge.simboard.input_gate import InputGate
from wakebridge.simboard.interpreter import Interpreter
from wakebridge.simboard.line_faults import Direction, LineFaults
from wakebridge.simboard.repl_text import Repl, ReplText

_RAW_REQUEST = b"\x01"


class Relay:
    """Carries bytes between a `HostPort` and whichever `Interpreter` is attached at the moment."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._port: HostPort | None = None
        self._interpreter: Interpreter | None = None
        self._text = ReplText(start_raw=False)
        self._gate = InputGate()
        self._timer: asyncio.TimerHandle | None = None
        self._unwritten = b""
        self._holding = False
        self.faults: dict[Direction, LineFaults] = {
            "to_host": LineFaults(),
            "to_board": LineFaults(),
        }
        self.on_activity: Callable[[], None] = lambda: None

    @property
    def repl(self) -> Repl:
        """Return the REPL that the board is in, or falls back to when its program stops."""
        return self._text.repl

    @property
    def running(self) -> bool:
        """Whether the interpreter has got past its start."""
        return self._interpreter is not None and self._text.takes_input

    def connect(self, port: HostPort) -> None:
        """Name the port that the host's side is on."""
        self._port = port

    def attach(self, interpreter: Interpreter, start_raw: bool) -> None:
        """Take up a fresh interpreter; input that was held back goes to it once it is up."""
        self._interpreter = interpreter
        self._holding = False
        self._text = ReplText(start_raw)

    def hold_input(self) -> None:
        """Keep what the host sends for the next interpreter: this one is about to be ended."""
        self._holding = True

    def forget_input(self) -> None:
        """Drop what has been sent to the board and has not reached it."""
        self._gate.clear()

    def detach(self) -> None:
        """Let go of the interpreter that ended."""
        self._interpreter = None
        self._unwritten = b""
        self._gate.restarted()

    def from_board(self, data: bytes) -> None:
        """Take what the interpreter wrote."""
        self._gate.output_seen(data, self._loop.time())
        passed = self._text.feed(data)
        if self._text.wants_raw and self._interpreter is not None:
            self._text.wants_raw = False
            self._interpreter.write(_RAW_REQUEST)
        self.to_host(passed)
        self._pump()
        self.on_activity()

    def to_host(self, data: bytes) -> None:
        """Send bytes to the host, through the faults of the line."""
        arrived = self.faults["to_host"].apply(data)
        if arrived and self._port is not None:
            self._port.write(arrived)

    def from_host(self, data: bytes) -> None:
        """Take what the host wrote, through the faults of the line."""
        arrived = self.faults["to_board"].apply(data)
        if self._interpreter is not None:  # a board without power hears nothing
            self.type(arrived)

    def type(self, data: bytes) -> None:
        """Queue input for the board."""
        self._gate.offer(data)
        self._pump()

    def flow(self, may_flow: bool) -> None:
        """Let the board's output run, or hold it back."""
        if self._interpreter is not None:
            if may_flow:
                self._interpreter.resume_output()
            else:
                self._interpreter.pause_output()

    def _pump(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        interpreter = self._interpreter
        if interpreter is None or self._holding or not self._text.takes_input:
            return
        now_s = self._loop.time()
        in_program = interpreter.in_program
        raw = self.repl is Repl.RAW
        data = self._unwritten or self._gate.take(now_s, in_program, raw, interpreter.busy)
        while data:
            self._unwritten = data[interpreter.write(data) :]
            if self._unwritten:
                break
            data = self._gate.take(now_s, in_program, raw, interpreter.busy)
        self._hold_back(now_s)

    def _hold_back(self, now_s: float) -> None:
        """Come back when more can be written, and meanwhile keep the host's queue bounded."""
        wait_s = limits.GATE_QUIET_S if self._unwritten else None
        again_s = self._gate.next_s(now_s) if wait_s is None else now_s + wait_s
        if again_s is not None:
            self._timer = self._loop.call_at(again_s, self._pump)
        if self._port is not None:
            if len(self._gate) + len(self._unwritten) > limits.TO_BOARD_PENDING_BYTES:
                self._port.pause_input()
            else:
                self._port.read_input()
