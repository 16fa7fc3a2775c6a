"""One family for everything the wire can refuse."""


class WireError(ValueError):
    """What was to be sent or was received does not fit the wire contract."""


class FrameError(WireError):
    """A payload cannot be framed: it is empty or longer than ``limits.PAYLOAD_MAX``."""


class CborError(WireError):
    """A value or a byte string lies outside the CBOR subset of the wire."""


class MessageError(WireError):
    """A well-formed payload is not a message of this protocol, or a field is out of range."""
