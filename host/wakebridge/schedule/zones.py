"""Time zones: one well-defined source of rules, as tables of instants and offsets.

The rules come from the PyPI package `tzdata` that is installed beside wakebridge, never from the
operating system, the environment or the device's own zone (E7d): the same release gives the same
occurrences on every machine. `whenever` reads the files and projects the rules to the year 9999;
what is kept here are its transitions as integers, because occurrences are then exact arithmetic.

These files are read where a zone is first asked for. They belong to the installation as the code
does, so this is no more IO than an import. A table is kept until `refresh_zone_rules` finds
another release, and never longer than the process (E7c).
"""

import difflib
import importlib.resources
from array import array
from bisect import bisect_right
from pathlib import Path

import whenever

from wakebridge.schedule.errors import UnknownZone, quote

_OFFSET_LIMIT_S = 86_400
"""No UTC offset reaches a day (RFC 3339 section 5.6 and whenever both hold to it)."""
_FIRST_S = -62_135_510_400
"""0001-01-03: early enough for every record of every zone, and no offset leaves the calendar."""
_AHEAD_S = 2 * 366 * 86_400
"""Transitions are read ahead in steps of two years: seldom again, and never all 16 000 at once."""


class ZoneTable:
    """The UTC offsets of one zone over all time, extended forward as it is asked about."""

    __slots__ = ("_complete_to_s", "_cursor", "_offsets_s", "_starts_s")

    def __init__(self, before_first: whenever.ZonedDateTime) -> None:
        self._starts_s = array("q", [-(2**62)])
        self._offsets_s = array("i", [int(before_first.offset.total("seconds"))])
        self._cursor: whenever.ZonedDateTime | None = before_first
        self._complete_to_s = before_first.timestamp()

    def offset_s(self, instant_s: int) -> int:
        """Return the offset at `instant_s`, in seconds east of UTC."""
        return self._offsets_s[self._index(instant_s)]

    def first_reaching(self, local_s: int) -> int:
        """Return the first instant whose local clock reads at or past `local_s` (E7a, E7b).

        `local_s` is a reading of the local clock counted as if it were UTC. In a fold this is the
        first of the two instants, in a gap the transition itself.
        """
        index = self._index(local_s - _OFFSET_LIMIT_S)
        self._extend(local_s + 2 * _OFFSET_LIMIT_S)
        starts, offsets = self._starts_s, self._offsets_s
        while True:
            instant = max(starts[index], local_s - offsets[index])
            index += 1
            if index == len(starts) or instant < starts[index]:
                return instant

    def furthest_reading(self, instant_s: int) -> int:
        """Return the latest local reading shown at any whole second up to `instant_s`.

        It is the inverse of `first_reaching`: a reading has been reached by `instant_s` exactly
        when it is not later than this. After a fold it is ahead of what the clock shows.
        """
        index = self._index(instant_s)
        starts, offsets = self._starts_s, self._offsets_s
        furthest = instant_s + offsets[index]
        while index and starts[index] > instant_s - 2 * _OFFSET_LIMIT_S:
            furthest = max(furthest, starts[index] - 1 + offsets[index - 1])
            index -= 1
        return furthest

    def gaps(self, after_s: int, through_s: int) -> list[tuple[int, int]]:
        """Return each transition in (after, through] that moves clocks forward.

        Each is (instant of the transition, local reading at that instant).
        """
        first, last = self._index(after_s) + 1, self._index(through_s)
        starts, offsets = self._starts_s, self._offsets_s
        return [
            (starts[i], starts[i] + offsets[i])
            for i in range(first, last + 1)
            if offsets[i] > offsets[i - 1]
        ]

    def _index(self, instant_s: int) -> int:
        if instant_s > self._complete_to_s:
            self._extend(instant_s)
        return bisect_right(self._starts_s, instant_s) - 1

    def _extend(self, through_s: int) -> None:
        if through_s <= self._complete_to_s:
            return
        goal_s = through_s + _AHEAD_S
        while self._cursor is not None and self._complete_to_s < goal_s:
            try:
                self._cursor = self._cursor.next_transition()
            except ValueError:  # the transition would lie beyond the year 9999
                self._cursor = None
            if self._cursor is not None:
                self._append(self._cursor)
        if self._cursor is None:
            self._complete_to_s = 2**62

    def _append(self, transition: whenever.ZonedDateTime) -> None:
        self._complete_to_s = transition.timestamp()
        offset_s = int(transition.offset.total("seconds"))
        if offset_s != self._offsets_s[-1]:  # a change of name alone moves no clock
            self._starts_s.append(self._complete_to_s)
            self._offsets_s.append(offset_s)


class ZoneRules:
    """One release of the tz database: a directory of TZif files with their `tzdata.zi`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.version, self.names = _read_index(directory)
        self._tables: dict[str, ZoneTable] = {}

    def table(self, name: str) -> ZoneTable:
        """Return the table of the zone called exactly `name`; raises `UnknownZone`."""
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = self._load(name)
        return table

    def _load(self, name: str) -> ZoneTable:
        if name not in self.names:
            raise UnknownZone(_unknown(name, self.names))
        return ZoneTable(self._before_first(name))

    def _before_first(self, name: str) -> whenever.ZonedDateTime:
        """Look the zone up in this directory only, leaving whenever's own search path alone."""
        search_path = whenever.get_tzpath()
        whenever.reset_tzpath([str(self.directory)])
        whenever.clear_tzcache()
        try:
            return whenever.Instant.from_timestamp(_FIRST_S).to_tz(name)
        except (whenever.TimeZoneNotFoundError, ValueError) as problem:
            raise UnknownZone(f"the rules of {quote(name)} cannot be read: {problem}") from None
        finally:
            whenever.reset_tzpath(search_path)
            whenever.clear_tzcache()


def zone_rules_version() -> str:
    """Return the tz database release in use, such as `2026f`."""
    return _rules().version


def zone_names() -> frozenset[str]:
    """Return the names of every zone that a schedule can use."""
    return _rules().names


def table(name: str) -> ZoneTable:
    """Return the table of the zone called exactly `name`; raises `UnknownZone`."""
    return _rules().table(name)


def refresh_zone_rules(directory: Path | None = None) -> bool:
    """Take up the release that is installed now; return whether it is another one (E7c).

    Rules read before are forgotten, so that the next computation uses the new ones.
    `directory` replaces the installed `tzdata` package by another compiled tz database.
    """
    global _current
    before, _current = _current, ZoneRules(directory or _installed())
    return before is None or before.version != _current.version


_current: ZoneRules | None = None


def _rules() -> ZoneRules:
    if _current is None:
        refresh_zone_rules()
    assert _current is not None
    return _current


def _installed() -> Path:
    return Path(str(importlib.resources.files("tzdata"))) / "zoneinfo"


def _read_index(directory: Path) -> tuple[str, frozenset[str]]:
    names = set()
    with (directory / "tzdata.zi").open(encoding="utf-8") as index:
        version = index.readline().removeprefix("# version ").strip()
        for line in index:
            if line.startswith("Z "):
                names.add(line.split()[1])
            elif line.startswith("L "):
                names.add(line.split()[2])
    names.discard("Factory")  # the tz database's own "not configured" placeholder
    return version, frozenset(names)


def _unknown(name: str, names: frozenset[str]) -> str:
    folded = {known.lower(): known for known in names}
    near = difflib.get_close_matches(name[:40].lower().replace(" ", "_"), folded, 1)
    if not near and name:
        near = [n for n in sorted(folded) if n.endswith("/" + name[:40].lower().replace(" ", "_"))]
    hint = f": did you mean {folded[near[0]]!r}?" if near else ", such as 'Europe/Lisbon'"
    return f"{quote(name)} is not an IANA time zone name{hint}"
