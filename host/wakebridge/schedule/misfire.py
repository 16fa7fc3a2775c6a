"""What is owed at an instant: on-time fires, misfires, and what becomes of the schedule.

`evaluate` is the only place that decides between fired, late, skipped and waiting (E40 to E42). It
looks at one schedule and one instant, costs the same however long the schedule slept, and changes
nothing: the caller emits what the `Evaluation` says, then commits its `successor`.
"""

from typing import Final

import msgspec

from wakebridge.schedule.errors import UnknownZone
from wakebridge.schedule.instants import Now
from wakebridge.schedule.record import Record
from wakebridge.schedule.rules import At

# How many missed instants are listed one by one in a report and in a schedule's state. A daily
# alarm that was off for a year lists all of them; a period of one second that was off for a year
# would list 31 million, which no reader wants and no bus carries. The newest are kept.
MISSED_LISTED_MAX: Final = 512

# No timer wakes at the very nanosecond. A fire this soon after its due instant is on time whatever
# the grace; otherwise a grace of zero would make every fire a misfire.
PROMPT_NS: Final = 50_000_000


class Schedule(msgspec.Struct, frozen=True, gc=False):
    """One record and how far it has come. Frozen: a new state is a new `Schedule`.

    `route` names the bus that asked and therefore hears the fires. `legacy_event`, when set, is the
    message type of the older protocol that is emitted in place of `record.event` (E90).
    `consumed` counts occurrences fired or dropped (E9). `missed` holds what was missed since the
    most recent fire, oldest first, at most `MISSED_LISTED_MAX` (E24).
    `provisional` marks a recurrence that was accepted while the wall clock was not believed: it
    begins when the clock is (E71).
    """

    record: Record
    context_json: bytes | None
    route: str
    legacy_event: str | None
    next_ns: int | None
    last_fired_ns: int | None = None
    consumed: int = 0
    missed: tuple[int, ...] = ()
    provisional: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """The identity: owner and id (E1)."""
        return (self.record.skill_id, self.record.id)

    @property
    def one_shot(self) -> bool:
        """Whether the schedule has a single occurrence."""
        return isinstance(self.record.rule, At)

    @property
    def remaining(self) -> int | None:
        """Occurrences left where the number is bounded by `count` or by being a one-shot."""
        if self.one_shot:
            return 0 if self.next_ns is None else 1
        if self.record.count is None:
            return None
        return 0 if self.next_ns is None else self.record.count - self.consumed


class Fire(msgspec.Struct, frozen=True):
    """One occurrence to emit now. `due_ns` is the `next` that was answered (E34)."""

    schedule: Schedule
    due_ns: int
    remaining: int | None


class Missed(msgspec.Struct, frozen=True):
    """The report of E41: emitted before the late fire of the same evaluation.

    `total` counts every missed occurrence; `due_ns` lists the newest of them, oldest first.
    """

    schedule: Schedule
    due_ns: tuple[int, ...]
    total: int
    fired_late_ns: int | None
    next_ns: int | None


class Evaluation(msgspec.Struct, frozen=True):
    """What to emit, in this order, and the state to commit afterwards.

    `successor` is None when the schedule has had its last occurrence and is deleted (E32).
    """

    missed: Missed | None
    fire: Fire | None
    successor: Schedule | None


def deadline(schedule: Schedule) -> tuple[int | None, int | None]:
    """Return when to look at the schedule again as (wall ns, boot ns); one of them is None."""
    if schedule.next_ns is None:
        return None, None
    if schedule.record.in_boot_due_ns is not None:
        return None, schedule.record.in_boot_due_ns
    return schedule.next_ns, None


def lateness_ns(schedule: Schedule, now: Now) -> int:
    """Return how long ago the next occurrence was due, negative when it is still ahead.

    An `in` schedule is measured on the boot clock, so that a step of the wall clock neither hastens
    nor delays it (E5).
    """
    assert schedule.next_ns is not None
    boot_due_ns = schedule.record.in_boot_due_ns
    if boot_due_ns is not None:
        return now.boot_ns - boot_due_ns
    return now.wall_ns - schedule.next_ns


def grace_ns(record: Record) -> int:
    """Return how late a fire may be and still be on time: the owner's grace, or `PROMPT_NS`."""
    return max(record.grace_ns, PROMPT_NS)


def evaluate(schedule: Schedule, now: Now) -> Evaluation | None:
    """Return what is owed now, or None when nothing is due.

    A lateness equal to the grace is still on time. One call fires at most one occurrence: several
    that are due and within their grace take several calls, so that a schedule with a tiny period
    takes turns with all the others (E35).
    """
    if schedule.next_ns is None or lateness_ns(schedule, now) < 0:
        return None
    if lateness_ns(schedule, now) <= grace_ns(schedule.record):
        return _on_time(schedule, schedule.next_ns)
    return _misfire(schedule, schedule.next_ns, now)


def missed_something(schedule: Schedule, now: Now) -> bool:
    """Return whether the next occurrence is past its grace (the count in `ready`, E53)."""
    return schedule.next_ns is not None and lateness_ns(schedule, now) > grace_ns(schedule.record)


def _on_time(schedule: Schedule, due_ns: int) -> Evaluation:
    after = _consume(schedule, due_ns, count=1)
    fired = msgspec.structs.replace(after, last_fired_ns=due_ns, missed=())
    return Evaluation(None, Fire(schedule, due_ns, fired.remaining), _unless_over(fired))


def _misfire(schedule: Schedule, due_ns: int, now: Now) -> Evaluation:
    record = schedule.record
    listed, total = _missed_instants(schedule, due_ns, now)
    last_ns = listed[-1]
    after = _consume(schedule, last_ns, count=total)
    if record.misfire == "late":
        after = msgspec.structs.replace(after, last_fired_ns=last_ns, missed=())
        fire = Fire(schedule, last_ns, after.remaining)
        report = Missed(schedule, listed, total, last_ns, after.next_ns)
        return Evaluation(report, fire, _unless_over(after))
    kept = (*schedule.missed, *listed)[-MISSED_LISTED_MAX:]
    after = msgspec.structs.replace(after, missed=kept)
    report = Missed(schedule, listed, total, None, after.next_ns)
    return Evaluation(report, None, _unless_over(after))


def _missed_instants(schedule: Schedule, due_ns: int, now: Now) -> tuple[tuple[int, ...], int]:
    """Return the newest missed instants, oldest first, and how many there are in all."""
    record = schedule.record
    if schedule.one_shot:
        return (due_ns,), 1
    rule = record.rule
    # An occurrence at exactly `now - grace` is on time, so the last missed one lies before it.
    through_ns = now.wall_ns - grace_ns(record) - 1
    if record.until_ns is not None:
        through_ns = min(through_ns, record.until_ns)
    # `due_ns` was answered as an occurrence and is one (E34), also where new zone rules see none.
    try:
        later = rule.count_between(due_ns, through_ns)
        if record.count is not None and later >= record.count - schedule.consumed:
            later = max(record.count - schedule.consumed - 1, 0)
            through_ns = (rule.nth_after(due_ns, later) if later else None) or due_ns
        listed = (due_ns, *rule.latest(due_ns, through_ns, MISSED_LISTED_MAX))
    except UnknownZone:
        return (due_ns,), 1
    return listed[-MISSED_LISTED_MAX:], 1 + later


def _consume(schedule: Schedule, through_ns: int, count: int) -> Schedule:
    """Return the schedule after `count` occurrences, the last of them at `through_ns`."""
    record = schedule.record
    consumed = schedule.consumed + count
    exhausted = record.count is not None and consumed >= record.count
    next_ns = None if schedule.one_shot or exhausted else _next_after(record, through_ns)
    return msgspec.structs.replace(schedule, next_ns=next_ns, consumed=consumed)


def continued(schedule: Schedule, stored: Schedule, now: Now, *, doubted: bool) -> Schedule:
    """Return a replacement of `stored`; one with the same recurrence goes on where that one is.

    An owner that asks for its schedules again at every start loses nothing by it (E54). What has
    fired stays fired, also after a step back (E51), what was missed stays on record, and an
    occurrence that is due, and waits for its bus or its turn, is still owed. While the clock is
    `doubted` nobody can say what is due, so the one that was answered stays (E71). `next_ns` is
    None when all that is left has fired already.

    Another recurrence, or a one-shot, is taken as it is: the stored timing is discarded (E26).
    """
    record = schedule.record
    if stored.one_shot or stored.record.rule != record.rule:
        return schedule
    next_ns, provisional = schedule.next_ns, schedule.provisional
    owed_ns, fired_ns = stored.next_ns, stored.last_fired_ns
    if (
        owed_ns is not None
        and (doubted or owed_ns < now.wall_ns)
        and (record.until_ns is None or owed_ns <= record.until_ns)
    ):
        next_ns, provisional = owed_ns, stored.provisional
    elif fired_ns is not None and next_ns is not None and next_ns <= fired_ns:
        next_ns = _next_after(record, fired_ns)
    return msgspec.structs.replace(
        schedule,
        next_ns=next_ns,
        last_fired_ns=fired_ns,
        missed=stored.missed,
        provisional=provisional,
    )


def begun(schedule: Schedule, now: Now) -> Schedule:
    """Return a provisional schedule as if it had been accepted at `now`, by a clock that is right.

    The first occurrence that is not before `now` is its next one, and nothing counts as missed.
    """
    first_ns = _next_after(schedule.record, max(now.wall_ns - 1, schedule.last_fired_ns or 0))
    return msgspec.structs.replace(schedule, next_ns=first_ns, provisional=False)


def _next_after(record: Record, after_ns: int) -> int | None:
    """Return the next occurrence; None when it lies beyond `until`, or the rule's zone is lost.

    A schedule whose zone the tz database has lost is kept and waits: loading it under other zone
    rules looks for the zone again.
    """
    try:
        next_ns = record.rule.next_after(after_ns)
    except UnknownZone:
        return None
    if next_ns is not None and record.until_ns is not None and next_ns > record.until_ns:
        return None
    return next_ns


def _unless_over(schedule: Schedule) -> Schedule | None:
    """Return None for a one-shot that is done: it is deleted (E32).

    A recurring schedule that has had its last occurrence stays, without a next one, so that its
    owner can still read what happened; the owner cancels or replaces it.
    """
    return None if schedule.one_shot else schedule
