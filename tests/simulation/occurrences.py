"""Which instants are occurrences, computed another way than the product does.

The rules of E6 and E7 by `zoneinfo` and by looking at one date after the other; slow and plain.
"""

import datetime
import zoneinfo
from functools import lru_cache
from pathlib import Path

from .kernel import NS

_EPOCH = datetime.date(1970, 1, 1)
_UTC = datetime.UTC
_WINDOW_S = 30 * 3600


class Zones:
    """One release of the time-zone rules, from a directory of compiled files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._offset = lru_cache(1 << 14)(self._offset_uncached)
        self._zones: dict[str, zoneinfo.ZoneInfo] = {}

    def _zone(self, name: str) -> zoneinfo.ZoneInfo:
        zone = self._zones.get(name)
        if zone is None:
            with (self.directory / name).open("rb") as file:
                zone = self._zones[name] = zoneinfo.ZoneInfo.from_file(file, key=name)
        return zone

    def _offset_uncached(self, name: str, instant_s: int) -> int:
        moment = datetime.datetime.fromtimestamp(instant_s, _UTC).astimezone(self._zone(name))
        offset = moment.utcoffset()
        assert offset is not None
        return int(offset.total_seconds())

    def first_reaching(self, name: str, reading_s: int) -> int:
        """Return the first instant whose local clock reads at or past `reading_s`."""
        low, high = reading_s - _WINDOW_S, reading_s + _WINDOW_S
        if self._offset(name, low) == self._offset(name, high):
            return reading_s - self._offset(name, low)
        at = low
        while at < high:
            end = self._end_of_offset(name, at, high)
            offset = self._offset(name, at)
            if end - 1 + offset >= reading_s:
                return max(at, reading_s - offset)
            at = end
        raise AssertionError("no local clock stands still for a day")

    def _end_of_offset(self, name: str, at: int, high: int) -> int:
        """Return when the offset that holds at `at` ends, `high` at the latest."""
        offset = self._offset(name, at)
        low = at
        while low < high and self._offset(name, min(low + 1800, high)) == offset:
            low += 1800
        if low >= high:
            return high
        changed = min(low + 1800, high)
        while changed - low > 1:
            middle = (low + changed) // 2
            if self._offset(name, middle) == offset:
                low = middle
            else:
                changed = middle
        return changed

    def local_next(
        self, name: str, time_s: int, days: tuple[int, ...], after_ns: int
    ) -> int | None:
        """Return the first occurrence later than `after_ns` (E7)."""
        day = after_ns // NS // 86_400 - 2
        best: int | None = None
        while True:
            if (day + 3) % 7 in days:
                due_s = self.first_reaching(name, day * 86_400 + time_s)
                falls_on = (due_s + self._offset(name, due_s)) // 86_400
                if (falls_on + 3) % 7 in days and due_s * NS > after_ns:
                    best = due_s * NS
                    break
            day += 1
            if day > after_ns // NS // 86_400 + 400:
                break
        return best


def every_next(start_ns: int, period_ns: int, after_ns: int) -> int:
    """Return the first `start + n * period` later than `after_ns` (E6)."""
    if after_ns < start_ns:
        return start_ns
    return start_ns + ((after_ns - start_ns) // period_ns + 1) * period_ns
