"""What a store can hold as the newest instant known to be past (E71).

As with schedules: one pair of instants as a rule, several where a crash, or a record that came
along with others, leaves it open which.
"""

from collections.abc import Iterable

from .kernel import Violation
from .properties import NEWEST_PAST

Pair = tuple[int, int]
"""The time of the newest write, and the newest fire on record."""


class NewestPast:
    """All that the store can hold."""

    def __init__(self) -> None:
        self._pairs: set[Pair] = {(0, 0)}
        self._under_way: set[Pair] = set()

    @property
    def instants(self) -> list[int]:
        """The instants that a start can find."""
        return sorted({max(pair) for pair in self._pairs})

    def write_begins(self, times: Iterable[int], sure_ns: int, possible: Iterable[int]) -> None:
        """A write is on its way that records one of `times` as its own.

        It holds a fire at `sure_ns`, and perhaps one of the `possible`. A fire that lies after the
        write was recorded by a clock that has been set back since, and does not count.
        """
        fires = {sure_ns, *(max(sure_ns, each_ns) for each_ns in possible)}
        self._under_way = {
            (time_ns, max(fired_ns, each_ns if each_ns <= time_ns else 0))
            for time_ns in times
            for _, fired_ns in self._pairs
            for each_ns in fires
        }

    def write_holds(self) -> None:
        self._pairs, self._under_way = self._under_way or self._pairs, set()

    def process_ends(self, *, crash: bool) -> None:
        if crash:
            self._pairs |= self._under_way
        self._under_way = set()

    def found(self, newest_past_ns: int) -> None:
        """A start has read this off the store. Raises `Violation` when it cannot be."""
        fitting = {pair for pair in self._pairs if max(pair) == newest_past_ns}
        if not fitting:
            raise Violation(NEWEST_PAST, f"{newest_past_ns}, not {self.instants}")
        self._pairs = fitting

    def reset(self, now_ns: int) -> None:
        """The deployment says what time it is: what lies in the future is forgotten."""
        self._pairs = {(now_ns, min(fired_ns, now_ns)) for _, fired_ns in self._pairs}
