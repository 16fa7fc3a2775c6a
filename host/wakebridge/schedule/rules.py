"""The timing rules of a schedule: which instants are its occurrences (E4 to E7).

Every rule answers the same questions. Instants are nanoseconds since the Unix epoch; intervals
are open below and closed above, `(after, through]`; no occurrence lies after the year 9999. The
cost of an answer does not depend on how far the anchor is away or how short the period is (E35).
"""

from sys import intern
from typing import Annotated, TypeAlias

import msgspec

from wakebridge.schedule import zones
from wakebridge.schedule.instants import MAX_NS, NS_PER_S

_S_PER_DAY = 86_400
_THURSDAY = 3
"""Weekday of day 0 of the Unix epoch, counted from Monday."""
_LAST_DATE = MAX_NS // NS_PER_S // _S_PER_DAY + 2
"""No later date can have an occurrence before the year 10000 in any zone."""
ALL_DAYS = (0, 1, 2, 3, 4, 5, 6)


class At(
    msgspec.Struct, frozen=True, gc=False, tag="at", tag_field="kind", forbid_unknown_fields=True
):
    """One occurrence, at `due_ns`."""

    due_ns: int

    def next_after(self, after_ns: int) -> int | None:
        """Return the earliest occurrence strictly later than `after_ns`, if there is one."""
        return self.due_ns if after_ns < self.due_ns <= MAX_NS else None

    def count_between(self, after_ns: int, through_ns: int) -> int:
        """Return how many occurrences lie in (after, through]."""
        return int(after_ns < self.due_ns <= min(through_ns, MAX_NS))

    def last_through(self, after_ns: int, through_ns: int) -> int | None:
        """Return the latest occurrence in (after, through], if there is one."""
        return self.due_ns if self.count_between(after_ns, through_ns) else None

    def latest(self, after_ns: int, through_ns: int, limit: int) -> list[int]:
        """Return the `limit` latest occurrences in (after, through], oldest first."""
        return [self.due_ns][: max(limit, 0) * self.count_between(after_ns, through_ns)]

    def nth_after(self, after_ns: int, nth: int) -> int | None:
        """Return the `nth` (1, 2, ...) occurrence later than `after_ns`, if there are so many."""
        return self.next_after(after_ns) if nth == 1 else None


class Every(
    msgspec.Struct, frozen=True, gc=False, tag="every", tag_field="kind", forbid_unknown_fields=True
):
    """Occurrence n is `start_ns + n * period_ns`, n = 0, 1, 2 and so on (E6).

    `period_ns` is at least 1. Lateness never shifts an occurrence: all follow from the anchor.
    """

    period_ns: Annotated[int, msgspec.Meta(ge=1)]
    start_ns: int

    def next_after(self, after_ns: int) -> int | None:
        """Return the earliest occurrence strictly later than `after_ns`, if there is one."""
        due_ns = self.start_ns + self._count_through(after_ns) * self.period_ns
        return due_ns if due_ns <= MAX_NS else None

    def count_between(self, after_ns: int, through_ns: int) -> int:
        """Return how many occurrences lie in (after, through]."""
        through_ns = min(through_ns, MAX_NS)
        if through_ns <= after_ns:
            return 0
        return self._count_through(through_ns) - self._count_through(after_ns)

    def last_through(self, after_ns: int, through_ns: int) -> int | None:
        """Return the latest occurrence in (after, through], if there is one."""
        if not self.count_between(after_ns, through_ns):
            return None
        count = self._count_through(min(through_ns, MAX_NS))
        return self.start_ns + (count - 1) * self.period_ns

    def latest(self, after_ns: int, through_ns: int, limit: int) -> list[int]:
        """Return the `limit` latest occurrences in (after, through], oldest first."""
        last_ns = self.last_through(after_ns, through_ns)
        if last_ns is None:
            return []
        count = min(self.count_between(after_ns, through_ns), limit)
        return [last_ns - n * self.period_ns for n in range(count - 1, -1, -1)]

    def nth_after(self, after_ns: int, nth: int) -> int | None:
        """Return the `nth` (1, 2, ...) occurrence later than `after_ns`, if there are so many."""
        due_ns = self.start_ns + (self._count_through(after_ns) + nth - 1) * self.period_ns
        return due_ns if due_ns <= MAX_NS else None

    def _count_through(self, through_ns: int) -> int:
        if through_ns < self.start_ns:
            return 0
        return (through_ns - self.start_ns) // self.period_ns + 1


class Local(
    msgspec.Struct, frozen=True, gc=False, tag="local", tag_field="kind", forbid_unknown_fields=True
):
    """The wall clock of `zone` reads `time_s` seconds past midnight on one of `days` (E7).

    For each listed date the occurrence is the first instant whose local clock reads at or past
    that date and time: the transition instant in a gap, the first of two in a fold. It is dropped
    when it falls on a date whose weekday is not listed, and happens once when two dates share it.
    `days` holds 0 = Monday to 6 = Sunday, ascending. Every method raises `UnknownZone` when the
    tz database has lost the zone.
    """

    time_s: Annotated[int, msgspec.Meta(ge=0, lt=_S_PER_DAY)]
    days: Annotated[
        tuple[Annotated[int, msgspec.Meta(ge=0, le=6)], ...], msgspec.Meta(min_length=1)
    ]
    zone: str

    def next_after(self, after_ns: int) -> int | None:
        """Return the earliest occurrence strictly later than `after_ns`, if there is one."""
        if after_ns >= MAX_NS:
            return None
        table = zones.table(self.zone)
        date = self._dates_reached(table, after_ns // NS_PER_S)
        while True:
            date += 1
            if (date + _THURSDAY) % 7 not in self.days:
                continue
            due_s = table.first_reaching(date * _S_PER_DAY + self.time_s)
            if due_s * NS_PER_S > MAX_NS:
                return None
            if self._falls_on_listed_day(table, due_s):
                return due_s * NS_PER_S

    def count_between(self, after_ns: int, through_ns: int) -> int:
        """Return how many occurrences lie in (after, through].

        The cost grows with the clock changes in the interval, not with its days.
        """
        through_ns = min(through_ns, MAX_NS)
        if through_ns <= after_ns:
            return 0
        table = zones.table(self.zone)
        after_s, through_s = after_ns // NS_PER_S, through_ns // NS_PER_S
        count = self._listed_dates(
            self._dates_reached(table, after_s), self._dates_reached(table, through_s)
        )
        for gap_s, reading_s in table.gaps(after_s, through_s):
            # All dates whose time the gap skips share the transition instant as occurrence.
            shared = self._listed_dates(
                self._dates_reached(table, gap_s - 1), (reading_s - self.time_s) // _S_PER_DAY
            )
            count -= shared
            count += bool(shared) and self._falls_on_listed_day(table, gap_s)
        return count

    def last_through(self, after_ns: int, through_ns: int) -> int | None:
        """Return the latest occurrence in (after, through], if there is one."""
        latest = self.latest(after_ns, through_ns, 1)
        return latest[0] if latest else None

    def latest(self, after_ns: int, through_ns: int, limit: int) -> list[int]:
        """Return the `limit` latest occurrences in (after, through], oldest first."""
        through_ns = min(through_ns, MAX_NS)
        if through_ns <= after_ns:
            return []
        table = zones.table(self.zone)
        after_s = after_ns // NS_PER_S
        found: list[int] = []
        last_date = self._dates_reached(table, through_ns // NS_PER_S)
        first_date = self._dates_reached(table, after_s) + 1
        for date in range(last_date, first_date - 1, -1):
            if len(found) >= limit:
                break
            if (date + _THURSDAY) % 7 not in self.days:
                continue
            due_s = table.first_reaching(date * _S_PER_DAY + self.time_s)
            if self._falls_on_listed_day(table, due_s) and due_s * NS_PER_S not in found[-1:]:
                found.append(due_s * NS_PER_S)
        found.reverse()
        return found

    def nth_after(self, after_ns: int, nth: int) -> int | None:
        """Return the `nth` (1, 2, ...) occurrence later than `after_ns`, if there are so many.

        A jump over as many listed dates as `nth` lands at most as far short as dates were dropped
        or shared in between, which clock changes do once or twice a year at most.
        """
        table = zones.table(self.zone)
        weeks = (nth - 1) // len(self.days)
        date = self._dates_reached(table, after_ns // NS_PER_S) + 7 * weeks
        if date > _LAST_DATE:
            return None
        jumped_to_ns = table.first_reaching(date * _S_PER_DAY + self.time_s) * NS_PER_S
        due_ns: int | None = max(jumped_to_ns, after_ns)
        for _ in range(nth - self.count_between(after_ns, jumped_to_ns)):
            due_ns = None if due_ns is None else self.next_after(due_ns)
        return due_ns

    def _dates_reached(self, table: zones.ZoneTable, instant_s: int) -> int:
        """Return the last date (day of the epoch) whose nominal time was reached by then."""
        return (table.furthest_reading(instant_s) - self.time_s) // _S_PER_DAY

    def _falls_on_listed_day(self, table: zones.ZoneTable, due_s: int) -> bool:
        date = (due_s + table.offset_s(due_s)) // _S_PER_DAY
        return (date + _THURSDAY) % 7 in self.days

    def _listed_dates(self, after: int, through: int) -> int:
        """Return how many dates in (after, through] have a listed weekday."""
        if through <= after:  # a gap soon after a fold can skip only what was already reached
            return 0
        weeks, rest = divmod(through - after, 7)
        extra = sum(
            (date + _THURSDAY) % 7 in self.days for date in range(after + 1, after + 1 + rest)
        )
        return weeks * len(self.days) + extra


Rule: TypeAlias = At | Every | Local

_shared_days: dict[tuple[int, ...], tuple[int, ...]] = {ALL_DAYS: ALL_DAYS}


def shared_local(time_s: int, days: tuple[int, ...], zone: str) -> Local:
    """Return a `Local` that shares its parts with others: many alarms have few zones and days."""
    return Local(time_s, _shared_days.setdefault(days, days), intern(zone))
