"""E7a, E7b: `Local` against a slow oracle around every clock change from 1970 to 2037.

The oracle shares nothing with the code under test: it reads the zones with `zoneinfo`, finds the
clock changes by looking at every sixth hour of 68 years, and then reads the local clock minute by
minute. `make test` sweeps the zones with peculiar histories; running this file sweeps all of them:

    python tests/schedule/test_zone_sweep.py
"""

import importlib.resources
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import accumulate, pairwise
from math import gcd
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from wakebridge.schedule import zones
from wakebridge.schedule.instants import NS_PER_S
from wakebridge.schedule.rules import ALL_DAYS, Local

_HOUR, _DAY = 3600, 86_400
_FIRST_S = int(datetime(1970, 1, 1, tzinfo=UTC).timestamp())
_LAST_S = int(datetime(2038, 1, 1, tzinfo=UTC).timestamp())
_ZONEINFO = Path(str(importlib.resources.files("tzdata"))) / "zoneinfo"

# Half-hour and two-hour changes, changes at and over midnight, skipped days, Ramadan, offsets with
# seconds, permanent changes, and the everyday ones.
PECULIAR = [
    *("Africa/Cairo", "Africa/Casablanca", "Africa/El_Aaiun", "Africa/Monrovia", "Africa/Juba"),
    *(
        "America/Asuncion",
        "America/Havana",
        "America/New_York",
        "America/Nuuk",
        "America/Sao_Paulo",
    ),
    *("America/St_Johns", "America/Scoresbysund", "America/Caracas", "Antarctica/Troll"),
    *(
        "Antarctica/Casey",
        "Asia/Amman",
        "Asia/Beirut",
        "Asia/Gaza",
        "Asia/Kathmandu",
        "Asia/Manila",
    ),
    *("Asia/Pyongyang", "Asia/Tehran", "Atlantic/Azores", "Australia/Lord_Howe", "Europe/Dublin"),
    *("Europe/Lisbon", "Europe/London", "Europe/Moscow", "Pacific/Apia", "Pacific/Chatham"),
    *("Pacific/Enderbury", "Pacific/Fakaofo", "Pacific/Kiritimati", "Pacific/Kwajalein"),
    *("Pacific/Norfolk", "UTC"),
]


class LocalClock:
    """What the wall clock of one zone shows, as `zoneinfo` tells it."""

    def __init__(self, name: str) -> None:
        with (_ZONEINFO / name).open("rb") as file:
            self.zone = ZoneInfo.from_file(file, key=name)

    def reading_s(self, instant_s: int) -> int:
        offset = datetime.fromtimestamp(instant_s, self.zone).utcoffset()
        assert offset is not None
        return instant_s + offset.days * _DAY + offset.seconds

    def changes(self) -> Iterator[int]:
        """Yield an instant at most six hours before every change of the clock, 1970 to 2037."""
        utcoffset = self.zone.utcoffset
        offsets = [utcoffset(moment) for moment in _SIX_HOURLY]
        for index, (before, after) in enumerate(pairwise(offsets)):
            if before != after:
                yield self._refine(_FIRST_S + index * 6 * _HOUR)

    def _refine(self, coarse_s: int) -> int:
        """Narrow a change of the reading down to the hour before it."""
        low_s, high_s = coarse_s - _DAY, coarse_s + _DAY + 6 * _HOUR
        while high_s - low_s > _HOUR:
            middle_s = (low_s + high_s) // 2 // 60 * 60
            if self.reading_s(middle_s) - middle_s == self.reading_s(low_s) - low_s:
                low_s = middle_s
            else:
                high_s = middle_s
        return low_s


# Without a zone: as readings of the local clock they need no arithmetic to be looked up.
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001
_SIX_HOURLY = [_EPOCH + timedelta(hours=6 * n) for n in range((_LAST_S - _FIRST_S) // 21_600)]


class Scan:
    """Every minute around one clock change, read one by one."""

    def __init__(self, clock: LocalClock, change_s: int) -> None:
        around = range(change_s - 46 * _HOUR, change_s + 28 * _HOUR, _HOUR)
        readings = [clock.reading_s(instant_s) for instant_s in around]
        step_s = gcd(60, *around, *readings)
        self.instants_s: list[int] = []
        self.readings_s: list[int] = []
        for hour_s, (reading_s, next_s) in zip(around, pairwise(readings), strict=False):
            minutes = range(hour_s, hour_s + _HOUR, step_s)
            self.instants_s += minutes
            if next_s - reading_s == _HOUR and abs(hour_s - change_s) > 2 * _HOUR:
                offset_s = reading_s - hour_s
                self.readings_s += [minute_s + offset_s for minute_s in minutes]
            else:
                self.readings_s += [clock.reading_s(minute_s) for minute_s in minutes]
        self.furthest_s = list(accumulate(self.readings_s, max))
        self.after_s = change_s - 20 * _HOUR
        self.through_s = self.instants_s[-1]
        self.jumps: list[tuple[int, int, int]] = []
        for instant_s, (before, after) in zip(
            self.instants_s[1:], pairwise(self.readings_s), strict=True
        ):
            if after != before + step_s:
                self.jumps.append((instant_s, before + step_s, after))

    def occurrences(self, time_s: int, days: tuple[int, ...]) -> list[int]:
        """Return the occurrences in (after, through] by the words of E7, in seconds."""
        found = set()
        first_date, last_date = self.readings_s[0] // _DAY, self.furthest_s[-1] // _DAY
        for date in range(first_date, last_date + 1):
            index = bisect_left(self.furthest_s, date * _DAY + time_s)
            if (date + 3) % 7 not in days or index == len(self.instants_s):
                continue
            lands_on = self.readings_s[index] // _DAY
            if (lands_on + 3) % 7 in days and self.after_s < self.instants_s[index]:
                found.add(self.instants_s[index])
        return sorted(found)

    def telling_rules(self, zone: str) -> Iterator[Local]:
        """Yield rules whose times and days lie at the edges of what the change skips or repeats."""
        for _, before_s, after_s in self.jumps:
            middle_s = (before_s + after_s) // 120 * 60
            edges = {edge + d for edge in (before_s, after_s) for d in (-60, 0, 60)}
            times = {edge % _DAY for edge in (*edges, middle_s)} | {0, _DAY - 60}
            from_day, to_day = (before_s // _DAY + 3) % 7, (after_s // _DAY + 3) % 7
            others = tuple(day for day in ALL_DAYS if day != to_day)
            for time_s in times:
                for days in (ALL_DAYS, (from_day,), others):
                    yield Local(time_s, days, zone)


def compare(rule: Local, scan: Scan) -> None:
    """Ask the rule every question about the time around one change, and from within it."""
    after_ns, through_ns = scan.after_s * NS_PER_S, scan.through_s * NS_PER_S
    expected = [due_s * NS_PER_S for due_s in scan.occurrences(rule.time_s, rule.days)]
    found, due_ns = [], rule.next_after(after_ns)
    while due_ns is not None and due_ns <= through_ns:
        found.append(due_ns)
        due_ns = rule.next_after(due_ns)
    assert found == expected, (rule, found, expected)
    assert rule.count_between(after_ns, through_ns) == len(expected), rule
    assert rule.latest(after_ns, through_ns, 99) == expected, rule
    if expected:
        assert rule.nth_after(after_ns, len(expected)) == expected[-1], rule
    for jump_s, _, _ in scan.jumps:
        for probe_ns in ((jump_s + seconds) * NS_PER_S for seconds in (-1, 0, 60, 1800, 3600)):
            before = bisect_right(expected, probe_ns)
            assert rule.count_between(after_ns, probe_ns) == before, (rule, probe_ns)
            if before < len(expected):
                assert rule.next_after(probe_ns) == expected[before], (rule, probe_ns)


def sweep(zone: str) -> int:
    """Compare the code with the oracle around every change of `zone`; return how many rules ran."""
    compared = 0
    clock = LocalClock(zone)
    for change_s in clock.changes():
        scan = Scan(clock, change_s)
        for rule in scan.telling_rules(zone):
            compare(rule, scan)
            compared += 1
    return compared


@pytest.mark.parametrize("zone", PECULIAR)
def test_local_agrees_with_a_scan_of_every_minute_around_every_change(zone: str) -> None:
    """E7a, E7b: gaps, folds and skipped days, occurrence by occurrence."""
    assert sweep(zone) > 0 or zone == "UTC"


def test_the_sample_holds_a_zone_of_every_kind_of_change() -> None:
    """E7a, E7b: a gap over midnight, a skipped day and an offset with seconds are among them."""
    assert set(PECULIAR) <= zones.zone_names()


def main() -> None:
    """Sweep every zone, each distinct history once."""
    started, rules = time.monotonic(), 0
    histories: dict[bytes, str] = {}
    for zone in sorted(zones.zone_names()):
        histories.setdefault((_ZONEINFO / zone).read_bytes(), zone)
    for zone in histories.values():
        rules += sweep(zone)
    names, took_s = len(zones.zone_names()), time.monotonic() - started
    print(f"{names} zones, {len(histories)} histories, {rules} rules agree, {took_s:.0f} s")


if __name__ == "__main__":
    main()
