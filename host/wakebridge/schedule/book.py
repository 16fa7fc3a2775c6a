"""Every schedule in memory: by identity, by owner, and by the instant it is due next.

The book is plain state. `apply` takes one `Change` and returns its inverse, so that a change whose
commit failed can be taken back (E27). Nothing here grows with the number of schedules except the
two heaps: finding what is due costs one look at their tops.
"""

import heapq
from collections.abc import Iterator
from typing import Final

import msgspec

from wakebridge.schedule import misfire
from wakebridge.schedule.instants import Now
from wakebridge.schedule.misfire import Schedule

Key = tuple[str, str]

# A replaced schedule leaves a stale heap entry behind. They are swept out when they outnumber the
# live ones, which keeps memory bounded and costs O(1) per change on average.
_SWEEP_FLOOR: Final = 256


class Change(msgspec.Struct, frozen=True):
    """Put `schedule` under `key`, or delete what is there when it is None."""

    key: Key
    schedule: Schedule | None


class _DueHeap:
    """Schedules by deadline on one clock. Stale entries are skipped by identity."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, Schedule]] = []
        self._serial = 0

    def push(self, deadline_ns: int, schedule: Schedule) -> None:
        self._serial += 1  # keeps equal deadlines in the order of arrival
        heapq.heappush(self._entries, (deadline_ns, self._serial, schedule))

    def first(self, live: dict[Key, Schedule]) -> tuple[int, Schedule] | None:
        entries = self._entries
        while entries and live.get(entries[0][2].key) is not entries[0][2]:
            heapq.heappop(entries)
        return (entries[0][0], entries[0][2]) if entries else None

    def pop(self) -> Schedule:
        return heapq.heappop(self._entries)[2]

    def sweep(self, live: dict[Key, Schedule]) -> None:
        if len(self._entries) > 2 * len(live) + _SWEEP_FLOOR:
            self._entries = [entry for entry in self._entries if live.get(entry[2].key) is entry[2]]
            heapq.heapify(self._entries)


class Book:
    """The schedules and their indexes."""

    def __init__(self) -> None:
        self._live: dict[Key, Schedule] = {}
        self._owned: dict[str, dict[str, Schedule]] = {}
        self._owners_of_id: dict[str, set[str]] = {}
        self._wall = _DueHeap()
        self._boot = _DueHeap()
        self._held: dict[str, dict[Key, Schedule]] = {}

    def __len__(self) -> int:
        """Return how many schedules there are."""
        return len(self._live)

    def get(self, key: Key) -> Schedule | None:
        """Return the schedule of this identity."""
        return self._live.get(key)

    def owned_by(self, skill_id: str) -> list[Schedule]:
        """Return the schedules of one owner in the order of their creation."""
        return list(self._owned.get(skill_id, {}).values())

    def owners_of(self, schedule_id: str) -> set[str]:
        """Return who has a schedule of this id: tells a foreign one from one that is nowhere."""
        return self._owners_of_id.get(schedule_id, set())

    def __iter__(self) -> Iterator[Schedule]:
        """Iterate over all schedules."""
        return iter(self._live.values())

    def apply(self, change: Change) -> Change:
        """Make the change and return the one that takes it back."""
        previous = self._live.get(change.key)
        if change.schedule is not None:
            self._put(change.schedule)
        elif previous is not None:
            self._delete(change.key)
        return Change(change.key, previous)

    def _put(self, schedule: Schedule) -> None:
        skill_id, schedule_id = schedule.key
        self._live[schedule.key] = schedule
        self._owned.setdefault(skill_id, {})[schedule_id] = schedule
        self._owners_of_id.setdefault(schedule_id, set()).add(skill_id)
        self.watch(schedule)
        self._wall.sweep(self._live)
        self._boot.sweep(self._live)

    def _delete(self, key: Key) -> None:
        skill_id, schedule_id = key
        self._held.get(self._live.pop(key).route, {}).pop(key, None)
        del self._owned[skill_id][schedule_id]
        if not self._owned[skill_id]:
            del self._owned[skill_id]
        self._owners_of_id[schedule_id].discard(skill_id)
        if not self._owners_of_id[schedule_id]:
            del self._owners_of_id[schedule_id]

    def watch(self, schedule: Schedule) -> None:
        """Look at the schedule again at its deadline."""
        wall_ns, boot_ns = misfire.deadline(schedule)
        if boot_ns is not None:
            self._boot.push(boot_ns, schedule)
        elif wall_ns is not None:
            self._wall.push(wall_ns, schedule)

    def hold(self, schedule: Schedule) -> None:
        """Set a due schedule aside until its bus is back: it costs no look in between."""
        self._held.setdefault(schedule.route, {})[schedule.key] = schedule

    def release(self, route: str) -> None:
        """Look again at everything that was held for this bus and still stands."""
        for schedule in self._held.pop(route, {}).values():
            if self._live.get(schedule.key) is schedule:
                self.watch(schedule)

    def pop_due(self, now: Now, *, wall_clock_trusted: bool) -> list[Schedule]:
        """Take every schedule that is due at `now` off the watch, earliest first.

        While the wall clock is not trusted only delays on the boot clock come due (E71).
        """
        due = self._pop_through(self._boot, now.boot_ns)
        if wall_clock_trusted:
            due += self._pop_through(self._wall, now.wall_ns)
        return due

    def _pop_through(self, heap: _DueHeap, through_ns: int) -> list[Schedule]:
        due = []
        while (first := heap.first(self._live)) is not None and first[0] <= through_ns:
            due.append(heap.pop())
        return due

    def deadlines(self) -> tuple[int | None, int | None]:
        """Return the earliest watched deadlines as (wall ns, boot ns)."""
        wall, boot = self._wall.first(self._live), self._boot.first(self._live)
        return (wall[0] if wall else None), (boot[0] if boot else None)

    def first_delay(self) -> tuple[int, int] | None:
        """Return the earliest end of an `in` on the boot clock, and its estimate on the wall's."""
        first = self._boot.first(self._live)
        if first is None or first[1].next_ns is None:
            return None
        return first[0], first[1].next_ns
