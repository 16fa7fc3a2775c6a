"""Why a desk board cannot start. Every text is a sentence for people, with the remedy."""


class DeskError(Exception):
    """The desk board cannot start."""


class InterpreterMissingError(DeskError):
    """There is no `micropython` to run."""


class FirmwareMissingError(DeskError):
    """There is no firmware where it should be."""


class DirectoryHeldError(DeskError):
    """Another desk board runs on the directory; the text names its process."""
