"""The properties, judged by what a subscriber, the agents and the daemon's log have seen.

Each takes what was observed and returns the violations as sentences; the figures say how much there
was to judge.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from bridges import Fired
from crash.faults import BOARD_FAULTS, REPEATING_FAULTS, Fault
from crash.load import Book, instant
from crash.world import World

STOPPED = {"completed", "interrupted", "failed", "cancelled"}

# What a broker has confirmed and a subscriber has not heard can die with the broker: its own
# persistence is written after the confirmation. Such a loss is counted, and not ours.
BROKER_MEMORY_S = 2.0

# A wake may be that much early, and a board that was hit is believed again within that time.
EARLY_WAKE_S = 1.5
BOARD_RECOVERY_S = 25.0


@dataclass
class Struck:
    """When a fault struck or was mended, on the wall clock and on the monotonic one."""

    fault: Fault
    wall_s: float
    monotonic_s: float


@dataclass
class Figures:
    """What there was to judge."""

    occurrences: int = 0
    seen: int = 0
    repeated: int = 0
    redelivered: int = 0
    missed: int = 0
    swallowed_by_the_broker: int = 0
    cancelled: int = 0
    unanswered: int = 0
    refused: int = 0
    routines: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    runs_recovered: int = 0
    routines_refused: int = 0
    refused_starts: int = 0

    def __str__(self) -> str:
        return "\n".join(
            f"  {name.replace('_', ' ')}: {value}" for name, value in vars(self).items()
        )


class Verdict:
    """Judges one run of the world."""

    def __init__(
        self, world: World, book: Book, strikes: list[Struck], wall_offset_s: float
    ) -> None:
        self._world = world
        self._book = book
        self._strikes = strikes
        self._wall_offset_s = wall_offset_s
        self._lines = world.bridge.lines
        self.figures = Figures(
            occurrences=len(book.occurrences),
            cancelled=len(book.cancelled),
            unanswered=len(book.unanswered),
            refused=book.refused,
            missed=sum(len(each.missed) for each in world.owner.missed),
            routines_refused=book.routines_refused,
            refused_starts=world.refused_starts,
        )

    def violations(self, listed: list[dict[str, Any]]) -> list[str]:
        """Return everything that must not have happened. `listed` are the routines at the end."""
        return [
            *self._lost(),
            *self._fires(),
            *self._misses(),
            *self._cancelled(),
            *self._runs(listed),
            *(f"the state on disk is not readable: {each}" for each in self._world.unreadable),
            *(f"the daemon shows a fault: {each}" for each in self._world.bridge.faults()),
        ]

    def outstanding(self) -> set[tuple[str, datetime]]:
        """Return the owed occurrences that were neither heard nor reported as missed."""
        seen = {(each.id, instant(each.due)) for each in self._world.owner.fired}
        seen |= {(m.id, instant(due)) for m in self._world.owner.missed for due in m.missed}
        return self._book.occurrences - seen

    def swallowed(self, schedule_id: str) -> bool:
        """Whether the broker had confirmed the event and died before anybody can have heard it."""
        told_s = [
            line["at_s"]
            for line in self._lines
            if line.get("message") in ("fired", "missed") and line.get("id") == schedule_id
        ]
        kills_s = [each.wall_s for each in self._strikes if each.fault.name == "kill the broker"]
        return any(-0.5 <= kill - told <= BROKER_MEMORY_S for kill in kills_s for told in told_s)

    def _lost(self) -> list[str]:
        lost = []
        for schedule_id, due in sorted(self.outstanding()):
            if self.swallowed(schedule_id):
                self.figures.swallowed_by_the_broker += 1
            else:
                lost.append(f"{schedule_id} of {due} was accepted and never heard of again")
        return lost

    def _fires(self) -> list[str]:
        wrong: list[str] = []
        known: dict[tuple[str, str], set[str]] = {}
        repeats_s: list[float] = []
        for fired in self._world.owner.fired:
            due = instant(fired.due)
            heard_s = fired.heard_s + self._wall_offset_s
            if instant(fired.fired) < due or heard_s < due.timestamp() - 0.001:
                wrong.append(f"early: {fired}")
            if fired.id in self._book.accepted and due not in self._book.accepted[fired.id].due:
                wrong.append(f"nobody asked for {fired}")
            before = known.setdefault(fired.key, set())
            if fired.fired in before:
                self.figures.redelivered += 1
            elif before:
                repeats_s.append(fired.heard_s)
                if not self._may_repeat(len(repeats_s), fired.heard_s):
                    wrong.append(f"repeated without a crash that explains it: {fired}")
            before.add(fired.fired)
        self.figures.seen, self.figures.repeated = len(known), len(repeats_s)
        return wrong

    def _may_repeat(self, repeats: int, heard_s: float) -> bool:
        """At most one repetition for each crash so far."""
        crashes = {
            each.fault
            for each in self._strikes
            if each.fault.name in REPEATING_FAULTS and each.monotonic_s < heard_s
        }
        return repeats <= len(crashes)

    def _misses(self) -> list[str]:
        """Every fire that is late beyond its grace was announced before (E41)."""
        wrong = []
        for number, fired in enumerate(self._world.owner.fired):
            promise = self._book.accepted.get(fired.id)
            late = instant(fired.fired) - instant(fired.due)
            # The decision was taken before the text was written: a tenth of a second is not judged.
            if promise is None or late < timedelta(seconds=promise.grace_s + 0.1):
                continue
            announced = any(
                missed.id == fired.id
                and instant(fired.due) in map(instant, missed.missed)
                and missed.before <= number
                for missed in self._world.owner.missed
            )
            if not announced and not self.swallowed(fired.id) and not self._is_repeat(fired):
                wrong.append(f"late by {late} without a report before it: {fired}")
        return wrong

    def _is_repeat(self, fired: Fired) -> bool:
        """Whether it was heard in time before: what comes once more after a crash is no miss."""
        first = next(each for each in self._world.owner.fired if each.key == fired.key)
        return first is not fired

    def _cancelled(self) -> list[str]:
        return [
            f"fired after its cancellation was answered: {fired}"
            for fired in self._world.owner.fired
            if fired.id in self._book.cancelled and fired.heard_s > self._book.cancelled[fired.id]
        ]

    # -- routines ---------------------------------------------------------------------------------

    def _runs(self, listed: list[dict[str, Any]]) -> list[str]:
        wrong = []
        by_id = {each["id"]: each for each in listed}
        started = self._started()
        self.figures.runs = sum(started.values())
        for name, times in started.items():
            if times > 1:
                wrong.append(f"the agent was given {name} {times} times")
        journal = self._world.journal
        begun, ended = Counter(journal.runs()), Counter(journal.runs("end"))
        for routine_id in self._book.routines:
            shown = by_id.get(routine_id)
            if shown is None:
                if len(self._book.routines) < 250:  # the list forgets the oldest stopped ones
                    wrong.append(f"routine {routine_id} has disappeared")
                continue
            self.figures.routines[shown["status"]] += 1
            if shown["status"] not in STOPPED:
                wrong.append(f"routine {routine_id} is still {shown['status']}")
            once = begun[routine_id] == ended[routine_id] == 1
            if self._world.runner == "command" and shown["status"] == "completed" and not once:
                wrong.append(f"routine {routine_id} is completed and did not run once")
        return wrong + self._unwoken()

    def _started(self) -> Counter[str]:
        """Return how often each run reached an agent."""
        if self._world.runner == "mqtt":
            return Counter(self._world.agent.taken)
        return Counter(self._world.journal.runs())

    def _unwoken(self) -> list[str]:
        """Runs begin after a wake of source 4, or where a board was hit, a recovered one (R42)."""
        wrong = []
        wakes_s = [
            line["at_s"]
            for line in self._lines
            if line.get("message") == "board event" and line.get("source") == 4
        ]
        hits_s = [each.wall_s for each in self._strikes if each.fault.name in BOARD_FAULTS]
        for line in self._lines:
            due = self._book.routines.get(str(line.get("id")))
            if line.get("message") != "routine" or line.get("status") != "running" or due is None:
                continue
            at_s, due_s = line["at_s"], due.timestamp()
            if at_s < due_s:
                wrong.append(f"routine {line['id']} ran {due_s - at_s:.3f} s before it was due")
            if any(due_s - EARLY_WAKE_S <= wake_s <= at_s for wake_s in wakes_s):
                continue
            self.figures.runs_recovered += 1
            if not any(at_s - BOARD_RECOVERY_S <= hit_s <= at_s for hit_s in hits_s):
                wrong.append(f"routine {line['id']} ran without a wake of source 4")
        return wrong
