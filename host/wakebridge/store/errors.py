"""What can go wrong with durable state."""


class StoreError(Exception):
    """The state could not be written; what is on disk is unchanged (E27). Try again later."""


class StateUnreadable(Exception):  # noqa: N818 - the state is what the reader asks about
    """The stored state is there but not understood; it is left untouched (R31)."""


class StateLocked(Exception):  # noqa: N818 - as above
    """Another bridge holds the state directory."""
