"""What happened, one line each: the log that a person follows and a program can read.

`note` is called where something worth telling has become true: accepted, armed, woken, fired.
Fields are plain values with their units in their names, and never contain payloads or secrets.
"""

import asyncio
import json
import logging
from collections import deque
from typing import Final, Literal, Self

_TIMELINE: Final = logging.getLogger("wakebridge.timeline")

# Lines that wait for a follower who is slow: some minutes of an ordinary bridge's life.
FEED_MAX: Final = 256


def note(what: str, **fields: str | int | float | bool | None) -> None:
    """Put one line on the time line."""
    _TIMELINE.info(what, extra={"fields": fields})


class Feed(logging.Handler):
    """The time line for one follower, from entering to leaving; the newest `FEED_MAX` lines wait.

    A follower that does not keep up loses the oldest lines, and costs nobody else anything.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[bytes] = deque(maxlen=FEED_MAX)
        self._news = asyncio.Event()
        self.setFormatter(JsonFormatter())

    def __enter__(self) -> Self:
        """Begin to follow."""
        _TIMELINE.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Follow no longer."""
        _TIMELINE.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line; the time line is only written to from the event loop's thread."""
        self._lines.append(self.format(record).encode() + b"\n")
        self._news.set()

    async def next(self) -> bytes:
        """Return the next line as JSON, waiting for it."""
        while not self._lines:
            self._news.clear()
            await self._news.wait()
        return self._lines.popleft()


class TextFormatter(logging.Formatter):
    """`level name: message key=value ...`; the time is added by whoever keeps the log."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, with a traceback below it where there is one."""
        line = f"{record.levelname.lower()} {record.name.removeprefix('wakebridge.')}: "
        line += record.getMessage()
        fields: dict[str, object] = getattr(record, "fields", {})
        line += "".join(f" {name}={_shown(value)}" for name, value in fields.items())
        if not line.isprintable():  # what owners or a board said must not look like lines of ours
            line = line.encode("unicode_escape").decode("ascii")
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def _shown(value: object) -> object:
    """Return a field so that it can be told from the next: text with spaces in quotes."""
    return repr(value) if isinstance(value, str) and (" " in value or not value) else value


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `at_s`, `level`, `logger`, `message`, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one JSON object."""
        line: dict[str, object] = {
            "at_s": round(record.created, 6),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update(getattr(record, "fields", {}))
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def set_up(level: str, form: Literal["text", "json"]) -> None:
    """Send the program's log to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    # What our lines do not show need not be found out for each of them.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # as the logging HOWTO has it
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("wakebridge").setLevel(level.upper())
