"""What a client's caller may have to handle."""


class ClientError(Exception):
    """Something about a request or the connection; the base of this family."""


class ScheduleRefused(ClientError):  # noqa: N818 - what the bridge did, in its own word
    """The bridge answered `ok: false` (E21)."""

    def __init__(self, code: str, reason: str) -> None:
        """Keep the machine-readable `code` and the `reason`, one sentence for the log."""
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason


class NoAnswer(ClientError):  # noqa: N818 - what happened, not a fault of the caller
    """No answer came in time: the request may or may not have been carried out.

    Asking again is safe, because a schedule's id makes the same request twice the same as once.
    """


class NotConnected(ClientError):  # noqa: N818 - the state of the link
    """The bus could not be reached; the text says why."""
