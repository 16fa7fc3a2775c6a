"""Every schedule in memory: by identity, by owner, and by the instant it is due next.

The book is plain state. `apply` takes one `Change` and returns its inverse, so that a change whose
commit failed can be taken back (E27). Finding what is due costs one look at the tops of two heaps,
however many schedules there are. Each of them costs one entry in a heap and two in dictionaries.
"""

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator
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
    """Schedules by deadline on one clock. Stale entries are told by `is_live` and skipped."""

    def __init__(self, is_live: Callable[[Schedule], bool]) -> None:
        self._is_live = is_live
        self._entries: list[tuple[int, int, Schedule]] = []
        self._serial = 0

    def push(self, deadline_ns: int, schedule: Schedule) -> None:
        self._serial += 1  # keeps equal deadlines in the order of arrival
        heapq.heappush(self._entries, (deadline_ns, self._serial, schedule))

    def first(self) -> tuple[int, Schedule] | None:
        entries = self._entries
        while entries and not self._is_live(entries[0][2]):
            heapq.heappop(entries)
        return (entries[0][0], entries[0][2]) if entries else None

    def pop(self) -> Schedule:
        return heapq.heappop(self._entries)[2]

    def sweep(self, live_count: int) -> None:
        if len(self._entries) > 2 * live_count + _SWEEP_FLOOR:
            self._entries = [entry for entry in self._entries if self._is_live(entry[2])]
            heapq.heapify(self._entries)


class Book:
    """The schedules and their indexes."""

    def __init__(self) -> None:
        self._count = 0
        self._owned: dict[str, dict[str, Schedule]] = {}
        # Nearly every id has one owner, and a set for it would cost more than the schedule's data.
        self._owners_of_id: dict[str, str | set[str]] = {}
        self._wall = _DueHeap(self._is_live)
        self._boot = _DueHeap(self._is_live)
        self._held: dict[str, dict[Key, Schedule]] = {}

    def __len__(self) -> int:
        """Return how many schedules there are."""
        return self._count

    def get(self, key: Key) -> Schedule | None:
        """Return the schedule of this identity."""
        owned = self._owned.get(key[0])
        return None if owned is None else owned.get(key[1])

    def _is_live(self, schedule: Schedule) -> bool:
        owned = self._owned.get(schedule.record.skill_id)
        return owned is not None and owned.get(schedule.record.id) is schedule

    def owned_by(self, skill_id: str) -> list[Schedule]:
        """Return the schedules of one owner in the order of their creation."""
        return list(self._owned.get(skill_id, {}).values())

    def owners_of(self, schedule_id: str) -> Collection[str]:
        """Return who has a schedule of this id: tells a foreign one from one that is nowhere."""
        owners = self._owners_of_id.get(schedule_id, ())
        return (owners,) if isinstance(owners, str) else owners

    def __iter__(self) -> Iterator[Schedule]:
        """Iterate over all schedules, owner by owner."""
        for owned in self._owned.values():
            yield from owned.values()

    def fill(self, schedules: Iterable[Schedule]) -> None:
        """Put in what a store held; the book is empty before."""
        for schedule in schedules:
            self._index(schedule)
            self.watch(schedule)

    def apply(self, change: Change) -> Change:
        """Make the change and return the one that takes it back."""
        previous = self.get(change.key)
        if change.schedule is not None:
            self._index(change.schedule)
            self.watch(change.schedule)
            self._wall.sweep(self._count)
            self._boot.sweep(self._count)
        elif previous is not None:
            self._delete(previous)
        return Change(change.key, previous)

    def _index(self, schedule: Schedule) -> None:
        skill_id, schedule_id = schedule.record.skill_id, schedule.record.id
        owned = self._owned.get(skill_id)
        if owned is None:
            owned = self._owned[skill_id] = {}
        if schedule_id not in owned:
            self._count += 1
            others = self._owners_of_id.setdefault(schedule_id, skill_id)
            if isinstance(others, set):
                others.add(skill_id)
            elif others != skill_id:
                self._owners_of_id[schedule_id] = {others, skill_id}
        owned[schedule_id] = schedule

    def _delete(self, schedule: Schedule) -> None:
        skill_id, schedule_id = schedule.key
        self._held.get(schedule.route, {}).pop(schedule.key, None)
        self._count -= 1
        del self._owned[skill_id][schedule_id]
        if not self._owned[skill_id]:
            del self._owned[skill_id]
        owners = self._owners_of_id[schedule_id]
        if isinstance(owners, set):
            owners.discard(skill_id)
        if isinstance(owners, str) or not owners:
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
            if self._is_live(schedule):
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
        while (first := heap.first()) is not None and first[0] <= through_ns:
            due.append(heap.pop())
        return due

    def deadlines(self) -> tuple[int | None, int | None]:
        """Return the earliest watched deadlines as (wall ns, boot ns)."""
        wall, boot = self._wall.first(), self._boot.first()
        return (wall[0] if wall else None), (boot[0] if boot else None)

    def first_delay(self) -> tuple[int, int] | None:
        """Return the earliest end of an `in` on the boot clock, and its estimate on the wall's."""
        first = self._boot.first()
        if first is None or first[1].next_ns is None:
            return None
        return first[0], first[1].next_ns
