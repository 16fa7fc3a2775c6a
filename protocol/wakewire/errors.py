"""One family for everything the wire can refuse."""

from wakewire import CborError, WireError

__all__ = ["CborError", "FrameError", "MessageError", "WireError"]


class FrameError(WireError):
    """A payload cannot be framed: it is empty or longer than ``limits.PAYLOAD_MAX``."""


class MessageError(WireError):
    """A well-formed payload is not a message of this protocol, or a field is out of range."""
