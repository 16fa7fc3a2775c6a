"""What the unix MicroPython's output says about its state, and what of it a board would not say.

Pure. The interpreter announces two moments with marks that only the desk sees: it runs (`UP`), and
boot.py is over and a raw REPL was wanted (`RAW`). The unix port can enter the raw REPL only through
the friendly one, so between that mark and the raw banner nothing goes to the host.
"""

from enum import Enum

_MARK_UP = b"\x1eDESK UP\x1e"
_MARK_RAW = b"\x1eDESK RAW\x1e"
_RAW_BANNER = b"raw REPL; CTRL-B to exit\r\n"
_FRIENDLY_BANNER_END = b"\r\n>>> "  # programs on the unix port end their lines with \n only
_PROMPT = b">>> "
_TAIL_BYTES = 64  # longer than any of the texts above: one that is split over two reads is seen


class Repl(Enum):
    """Which of the two REPLs the board is in, or will be in once its program stops."""

    FRIENDLY = "friendly"
    RAW = "raw"


class _Phase(Enum):
    STARTING = "no mark seen yet"
    BOOTING = "boot.py runs, the RAW mark is to come"
    TO_PROMPT = "waiting for the friendly prompt, unseen by the host"
    TO_RAW = "waiting for the raw banner, unseen by the host"
    FOLLOWING = "everything passes"


class ReplText:
    """Follows the output of one interpreter process from its start to its end.

    `wants_raw` becomes true when a Ctrl-A has to be typed at the prompt; the caller types it and
    sets it back.
    """

    def __init__(self, start_raw: bool) -> None:
        self.repl = Repl.RAW if start_raw else Repl.FRIENDLY
        self.wants_raw = False
        self._start_raw = start_raw
        self._phase = _Phase.STARTING
        self._held = b""
        self._tail = b""

    @property
    def takes_input(self) -> bool:
        """Whether the interpreter is far enough that input from the host may reach it."""
        if self._start_raw:
            return self._phase is _Phase.FOLLOWING
        return self._phase is not _Phase.STARTING

    def feed(self, data: bytes) -> bytes:
        """Take output and return the part of it that belongs on the line."""
        passed = b""
        while data or self._held:
            before = self._phase
            passed += self._step(self._held + data)
            data = b""
            if self._phase is before:
                return passed
        return passed

    def _step(self, data: bytes) -> bytes:
        """Handle `data` in the present phase; what is left for later goes to `_held`."""
        match self._phase:
            case _Phase.STARTING:
                after = _Phase.BOOTING if self._start_raw else _Phase.FOLLOWING
                return self._until(_MARK_UP, data, after) or b""
            case _Phase.BOOTING:
                output = self._until(_MARK_RAW, data, _Phase.TO_PROMPT)
                if output is None:  # pass all but what may be the start of the mark
                    output, mark, rest = data.partition(_MARK_RAW[:1])
                    self._held = mark + rest
                return output
            case _Phase.TO_PROMPT:
                self.wants_raw = self._until(_PROMPT, data, _Phase.TO_RAW) is not None
                return b""
            case _Phase.TO_RAW:
                hidden = self._until(_RAW_BANNER, data, _Phase.FOLLOWING)
                return b"" if hidden is None else _RAW_BANNER
            case _Phase.FOLLOWING:
                self._held = b""
                self._follow(data)
                return data

    def _until(self, text: bytes, data: bytes, after: _Phase) -> bytes | None:
        """Hold everything until `text` has come; then return what was before it and go on."""
        before, found, rest = data.partition(text)
        self._held = rest if found else data
        if not found:
            return None
        self._phase = after
        return before

    def _follow(self, data: bytes) -> None:
        seen = self._tail + data
        raw = seen.rfind(_RAW_BANNER)
        friendly = seen.rfind(_FRIENDLY_BANNER_END)
        if raw != friendly:
            self.repl = Repl.RAW if raw > friendly else Repl.FRIENDLY
        self._tail = seen[-_TAIL_BYTES:]
