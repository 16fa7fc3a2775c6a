"""The configuration of one board: what `board.json` says, and what is wrong with it.

A value that is wrong or unknown never stops the board: the default stays in its place and the
fault is reported in hello and by the diagnostics. `firmware/README.md` explains each setting.
"""

import json

FILE = "board.json"  # beside main.py, where no update writes

_FAULT_LEN = 32  # characters of one fault, so that several fit one answer to hello

_RANGES = {
    "pulse_ms": (10, 3000),  # a power button held for 4 s switches many hosts off
    "awake_window_s": (5, 600),
    "backup_interval_s": (0, 3600),
    "sleep_slice_s": (1, 3600),
}
_CHOICES = {
    "wake_active": ("low", "high"),
    "pulse": ("asleep", "always"),
    "sleep": ("off", "light"),
}


class Config:
    """The settings, with their defaults, and the `faults` found in what was given."""

    wake_pin: int | str | None = None  # number or name; None: no wake line
    wake_active = "low"  # low: open drain, pulls down; high: driven up
    pulse = "asleep"  # asleep: only while the host does not answer; always
    pulse_ms = 200
    awake_window_s = 60  # a host counts as awake this long after its last frame
    backup_interval_s = 0  # 0: what suits the port's backup storage
    sleep = "off"
    sleep_slice_s = 5
    uart: tuple[int, ...] = ()  # id, baud rate and, where given, TX and RX pin; (): the console

    def __init__(self, text: str | None) -> None:
        """Read the text of `board.json`; None when there is no such file, which is no fault."""
        self.faults: list[str] = []
        if text is None:
            return
        try:
            settings = json.loads(text)
        except ValueError:
            settings = None
        if not isinstance(settings, dict):
            self.fault(FILE + ": no JSON object")
            return
        for name in settings:
            if not self._take(name, settings[name]):
                self.fault(name + ": not usable")

    def fault(self, text: str) -> None:
        """Add a fault, shortened."""
        self.faults.append(text[:_FAULT_LEN])

    def _take(self, name: str, value: object) -> bool:
        if name == "stream":
            return self._take_stream(value)
        if name == "wake_pin":
            fits = type(value) in (int, str) or value is None
        elif name in _RANGES:
            low, high = _RANGES[name]
            fits = isinstance(value, int) and type(value) is int and low <= value <= high
        else:
            fits = value in _CHOICES.get(name, ())
        if fits:
            setattr(self, name, value)
        return fits

    def _take_stream(self, value: object) -> bool:
        """`repl`, or `uart:ID:BAUD` with `:TX:RX` where the port needs the pins."""
        if value == "repl":
            return True
        parts = value.split(":") if isinstance(value, str) else []
        try:
            self.uart = tuple([int(part) for part in parts[1:]])
        except ValueError:
            return False
        if parts and parts[0] == "uart" and len(self.uart) in (2, 4):
            return True
        self.uart = ()
        return False
