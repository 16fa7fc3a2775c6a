"""Counts what came twice: at most one fire for each crash (E51), whatever else is known.

Kept apart from the judge of schedules, and much simpler than it: it goes by what subscribers have
received, and by nothing else.
"""

from collections import defaultdict
from typing import Final

from .kernel import Violation
from .properties import REPEATS
from .schedule_model import Key

_REMEMBERED: Final = 32
"""Fires of one schedule that are kept in mind: what repeats is the newest, after a crash."""


class Repeats:
    """What every schedule has fired since it was last accepted."""

    def __init__(self) -> None:
        self._sure: defaultdict[Key, dict[int, bool]] = defaultdict(dict)
        """By due instant: whether the bridge heard that it arrived."""
        self._left = 0
        self.count = 0

    def accepted(self, key: Key) -> None:
        """A schedule took the place of the one before: its occurrences are others."""
        self._sure.pop(key, None)

    def crashed(self) -> None:
        self._left += 1  # what comes again may wait for its bus until after the next one

    def fired(self, key: Key, due_ns: int, *, acknowledged: bool) -> None:
        """A subscriber received this. Raises `Violation` when it may not have come again."""
        fires = self._sure[key]
        if fires.get(due_ns, False):
            self.count += 1
            self._left -= 1
            if self._left < 0:
                raise Violation(REPEATS, f"{key} due {due_ns} came again")
        fires[due_ns] = acknowledged
        if len(fires) > _REMEMBERED:
            del fires[next(iter(fires))]
