"""Conversations whose backend works on something that did not come through the queue (R21).

Pure and in memory: the time is an argument, on the boot clock, because a lease is elapsed time
also while the host sleeps.
"""


class BusySessions:
    """Which conversations are held, and until when. They are named by their root sessions."""

    def __init__(self) -> None:
        self._until_ns: dict[str, int] = {}

    def hold(self, root: str, until_ns: int) -> None:
        """Hold a conversation until that instant, also when it was held for longer before."""
        self._until_ns[root] = until_ns

    def release(self, root: str) -> None:
        """Hold it no longer."""
        self._until_ns.pop(root, None)

    def roots(self, now_ns: int) -> frozenset[str]:
        """Return the conversations that are held now."""
        return frozenset(root for root, until_ns in self._until_ns.items() if until_ns > now_ns)

    def next_end_ns(self, now_ns: int) -> int | None:
        """Return when the next of the holds ends, and forget those that have ended."""
        self._until_ns = {root: end for root, end in self._until_ns.items() if end > now_ns}
        return min(self._until_ns.values(), default=None)
