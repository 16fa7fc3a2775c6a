"""What can go wrong with the link to the board. A refusal by the board is a value, not an error."""


class LinkError(Exception):
    """The link did not do what was asked; its message is a sentence for a person."""


class LinkLost(LinkError):  # noqa: N818 - named for what happened
    """The port is gone, was closed, or does not take or give bytes any more."""


class RequestTimeout(LinkError):  # noqa: N818 - named for what happened
    """The board did not answer, however often it was asked."""


class LinkOverloaded(LinkError):  # noqa: N818 - named for what happened
    """More requests are waiting than `connection.QUEUE_MAX`; nothing was sent."""


class BoardFault(LinkError):  # noqa: N818 - named for what happened
    """The board contradicts itself or the wire contract."""


class FirmwareStopped(LinkError):  # noqa: N818 - named for what happened
    """The board sits at a MicroPython prompt and its firmware could not be started."""


class VersionMismatch(LinkError):  # noqa: N818 - named for what happened
    """The board's firmware speaks no version of the protocol that this host speaks."""


class PortUnavailable(LinkError):  # noqa: N818 - named for what happened
    """There is no port to open now."""


class PortMissing(PortUnavailable):
    """Nothing answers to that name."""


class PortBusy(PortUnavailable):
    """Another process holds the port; the message names it."""


class PortAmbiguous(PortUnavailable):
    """Several ports could be the board and none was named; the message lists them."""
