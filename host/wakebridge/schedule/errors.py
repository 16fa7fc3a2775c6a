"""The error family of schedules: what a request or a stored schedule can have wrong."""


class ScheduleError(ValueError):
    """Base of every error of this package; `reason` is one sentence for the log (E21)."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class BadInstant(ScheduleError):  # noqa: N818 - named for what is wrong, as in E21
    """A text is not an instant in RFC 3339 with an offset (E4)."""


class UnknownZone(ScheduleError):  # noqa: N818 - named for what is wrong, as in E21
    """A name is not a zone of the installed tz database (E7)."""


class CorruptRecord(ScheduleError):  # noqa: N818 - named for what is wrong, as in E21
    """Stored bytes are not a schedule that this version wrote or can read."""


class RequestError(ScheduleError):
    """A request is refused; `code` is one of the closed list of E21."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


_QUOTED_MAX_CHARS = 44


def quote(value: object) -> str:
    """Return what was sent as one short printable text, for the reason of a refusal."""
    text = value if isinstance(value, str) else repr(value)
    quoted = repr(text[:_QUOTED_MAX_CHARS])
    if len(text) <= _QUOTED_MAX_CHARS and len(quoted) <= 2 * _QUOTED_MAX_CHARS:
        return quoted
    return f"{quoted[:_QUOTED_MAX_CHARS]}...{quoted[0]}"
