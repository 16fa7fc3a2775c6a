"""Lets host input reach the unix MicroPython no faster than it can take it. Pure, `now` is given.

The unix port switches its terminal mode between program and REPL with TCSAFLUSH, which throws away
input that arrived too early; a board loses none of it. So after a byte that makes the REPL do
something, the rest waits for the answer. And the port takes Ctrl-C at any instruction, with locks
of its heap held, which can leave it hanging; so Ctrl-C waits until the program waits, too, or has
been busy for long. Frames contain none of these bytes and never wait.
"""

from wakebridge.simboard import limits

_INTERRUPT = 0x03
_AT_PROMPT = frozenset(b"\x01\x02\x03\x04\r")
_AT_RAW_PROMPT = frozenset(b"\x01\x02\x03\x04")
_IN_PROGRAM = frozenset((_INTERRUPT,))
# The REPL's last words before it waits: a prompt, or the window it grants to a raw paste.
_READY = (b">", b">>> ", b"\x01")


class InputGate:
    """Queues host input and says how much of it may go to the interpreter now. Times in seconds."""

    def __init__(self) -> None:
        self._queue = bytearray()
        self._waiting = False
        self._interrupting = False
        self._quiet_at_s: float | None = None
        self._latest_s = 0.0
        self._busy_until_s: float | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def offer(self, data: bytes) -> None:
        """Queue input from the host."""
        self._queue += data

    def clear(self) -> None:
        """Forget everything, as a board that loses power does."""
        self._queue.clear()
        self._waiting = False
        self._busy_until_s = None

    def restarted(self) -> None:
        """Note that a fresh interpreter will take the rest, and give it a Ctrl-C that was lost."""
        if self._waiting and self._interrupting:
            self._queue[:0] = bytes((_INTERRUPT,))
        self._waiting = False
        self._busy_until_s = None

    def output_seen(self, output: bytes, now_s: float) -> None:
        """Note what the interpreter wrote."""
        self._quiet_at_s = now_s
        if not output.endswith(_READY):
            self._quiet_at_s += limits.GATE_QUIET_S

    def take(self, now_s: float, in_program: bool, raw: bool, busy: bool = False) -> bytes:
        """Return the bytes that may be written now; `busy` says that the program does not wait."""
        if self._waiting and not self._answered(now_s, in_program):
            return b""
        self._waiting = False
        stops = _IN_PROGRAM if in_program else _AT_RAW_PROMPT if raw else _AT_PROMPT
        at = next((i for i, byte in enumerate(self._queue) if byte in stops), -1)
        if at > 0:  # what comes before such a byte goes first, and the byte itself alone
            return self._pop(at)
        if at == 0 and in_program and busy and self._puts_off(now_s):
            return b""
        if at == 0:
            self._busy_until_s = None
            self._waiting = True
            self._interrupting = in_program
            self._quiet_at_s = None
            pause_s = limits.GATE_INTERRUPT_S if in_program else limits.GATE_SILENT_S
            self._latest_s = now_s + pause_s
        return self._pop(1 if at == 0 else len(self._queue))

    def _pop(self, count: int) -> bytes:
        taken = bytes(self._queue[:count])
        del self._queue[:count]
        return taken

    def _puts_off(self, now_s: float) -> bool:
        if self._busy_until_s is None:
            self._busy_until_s = now_s + limits.GATE_BUSY_S
        return now_s < self._busy_until_s

    def _answered(self, now_s: float, in_program: bool) -> bool:
        if now_s >= self._latest_s:
            return True
        if self._quiet_at_s is None or (self._interrupting and in_program):
            return False
        return now_s >= self._quiet_at_s

    def next_s(self, now_s: float) -> float | None:
        """Return when to call `take` again; None when only new input can change anything."""
        if not self._queue:
            return None
        if self._busy_until_s is not None:
            return now_s + limits.GATE_QUIET_S
        if not self._waiting:
            return None
        if self._quiet_at_s is None:
            return self._latest_s
        return min(self._latest_s, max(now_s + limits.GATE_QUIET_S, self._quiet_at_s))
