"""What one schedule may do next: the specification as a small machine, apart from the product.

A `Sched` is what the specification says of one accepted record at one moment. Everything here is
plain arithmetic on it; nothing calls the code under test.
"""

import dataclasses
import datetime
from dataclasses import dataclass
from typing import Any, Final

from wakebridge.schedule.instants import Now

from .kernel import MS, NS
from .occurrences import Zones, every_next

Key = tuple[str, str]

LISTED_MAX: Final = 512
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
# A timer needs a moment; a grace below it does not make every fire a misfire.
PROMPT_NS: Final = 50_000_000

_SPANS: Final = ("period_ns", "grace_ns", "boot_due_ns")
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def instant(text: str) -> int:
    """Read an RFC 3339 instant, by the standard library."""
    head, fraction = text, ""
    if "." in text:
        head, tail = text.split(".")
        digits = len(tail) - len(tail.lstrip("0123456789"))
        fraction, head = tail[:digits], head + tail[digits:]
    moment = datetime.datetime.fromisoformat(head) - _EPOCH
    whole = moment.days * 86_400 + moment.seconds
    return whole * NS + int(fraction[:9].ljust(9, "0") or "0")


def text_of(instant_ns: int) -> str:
    """Write an instant as an owner would."""
    whole, rest = divmod(instant_ns, NS)
    text = (_EPOCH + datetime.timedelta(seconds=whole)).strftime("%Y-%m-%dT%H:%M:%S")
    return text + (f".{rest:09d}" if rest else "") + "+00:00"


@dataclass(frozen=True, repr=False)
class Sched:
    """One accepted record and how far it has come."""

    owner: str
    id: str
    event: str
    route: str
    data: Any
    context: Any
    kind: str
    due_ns: int = 0
    period_ns: int = 0
    start_ns: int = 0
    time_s: int = 0
    days: tuple[int, ...] = ()
    zone: str = ""
    until_ns: int | None = None
    count: int | None = None
    misfire: str = "late"
    grace_ns: int = 60 * NS
    ephemeral: bool = False
    next_ns: int | None = None
    boot_due_ns: int | None = None
    last_fired_ns: int | None = None
    consumed: int = 0
    missed: tuple[int, ...] = ()
    untrusted: bool = False

    def __repr__(self) -> str:
        """Return what tells states apart, with instants that a person can read."""
        shown = []
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if value == each.default or each.name in ("data", "context"):
                continue
            if each.name.endswith("_ns") and each.name not in _SPANS and value is not None:
                value = text_of(value)
            shown.append(f"{each.name.removesuffix('_ns')}={value}")
        return f"<{' '.join(shown)}>"

    @property
    def key(self) -> Key:
        return self.owner, self.id

    @property
    def one_shot(self) -> bool:
        return self.kind in ("at", "in")

    @property
    def rule(self) -> tuple[object, ...]:
        return (self.kind, self.period_ns, self.start_ns, self.time_s, self.days, self.zone)

    def remaining(self) -> int | None:
        if self.one_shot:
            return 0 if self.next_ns is None else 1
        if self.count is None:
            return None
        return 0 if self.next_ns is None else self.count - self.consumed

    def with_(self, **changes: Any) -> "Sched":
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True)
class Owed:
    """What is to be emitted at an instant, and what the schedule is afterwards (None: deleted)."""

    missed: tuple[int, ...] | None
    total: int
    fire_ns: int | None
    after: Sched

    @property
    def kept(self) -> Sched | None:
        return None if self.after.one_shot else self.after


def rule_next(sched: Sched, zones: Zones, after_ns: int) -> int | None:
    """Return the first occurrence of a recurrence later than `after_ns`, whatever its bounds."""
    if sched.kind == "every":
        return every_next(sched.start_ns, sched.period_ns, after_ns)
    return zones.local_next(sched.zone, sched.time_s, sched.days, after_ns)


def accept(
    owner: str,
    body: dict[str, Any],
    context: Any,
    route: str,
    old: Sched | None,
    now: Now,
    z: Zones,
    *,
    trusted: bool,
) -> Sched | None:
    """Return the schedule that a valid request describes when it is accepted at `now`.

    `trusted` says whether the wall clock is believed. None when it describes no occurrence.
    """
    kind = next(each for each in ("at", "in", "every", "local") if each in body)
    sched = Sched(
        owner=owner,
        id=body["id"],
        event=body["event"],
        route=route,
        data=body.get("data", {}),
        context=context,
        kind=kind,
        until_ns=instant(body["until"]) if "until" in body else None,
        count=body.get("count"),
        misfire=body.get("misfire", "late"),
        grace_ns=round(body.get("grace_s", 60) * NS),
        ephemeral=body.get("ephemeral", False),
        untrusted=not trusted,
    )
    if kind == "at":
        due_ns = instant(body["at"])
        return sched.with_(due_ns=due_ns, next_ns=due_ns)
    if kind == "in":
        due_ns = _whole_ms(now.wall_ns + round(body["in"]["seconds"] * NS))
        boot_ns = now.boot_ns + due_ns - now.wall_ns
        return sched.with_(due_ns=due_ns, next_ns=due_ns, boot_due_ns=boot_ns)
    sched = _recurring(sched, body, old, now)
    first_ns = _first(sched, now, z)
    if first_ns is None or (sched.until_ns is not None and first_ns > sched.until_ns):
        return None
    if old is not None and old.rule == sched.rule:
        sched = sched.with_(last_fired_ns=old.last_fired_ns, missed=old.missed)
        # The same again takes nothing back: what is due is owed, and what was promised before the
        # clock was lost is not put off by it.
        owed_ns = old.next_ns
        if owed_ns is not None and (sched.until_ns is None or owed_ns <= sched.until_ns):
            if not trusted:
                return sched.with_(next_ns=owed_ns, untrusted=old.untrusted)
            if owed_ns < now.wall_ns:
                return sched.with_(next_ns=owed_ns)
        if old.last_fired_ns is not None and first_ns <= old.last_fired_ns:
            first_ns = rule_next(sched, z, old.last_fired_ns)
            if first_ns is None or (sched.until_ns is not None and first_ns > sched.until_ns):
                return None
    return sched.with_(next_ns=first_ns)


def _recurring(sched: Sched, body: dict[str, Any], old: Sched | None, now: Now) -> Sched:
    if sched.kind == "every":
        period_ns = round(body["every"]["seconds"] * NS)
        if "start" in body["every"]:
            start_ns = instant(body["every"]["start"])
        elif old is not None and old.kind == "every" and old.period_ns == period_ns:
            start_ns = old.start_ns
        else:
            start_ns = _whole_ms(now.wall_ns + period_ns)
        return sched.with_(period_ns=period_ns, start_ns=start_ns)
    local = body["local"]
    hours, minutes, *seconds = (int(part) for part in local["time"].split(":"))
    days = tuple(n for n, name in enumerate(_DAYS) if name in local.get("days", _DAYS))
    time_s = hours * 3600 + minutes * 60 + sum(seconds)
    return sched.with_(time_s=time_s, days=days, zone=local["zone"])


def _first(sched: Sched, now: Now, zones: Zones) -> int | None:
    """Return the first occurrence that acceptance promises: the past was never promised."""
    ago_ns = now.wall_ns - sched.start_ns
    if sched.kind == "every" and 0 <= ago_ns <= sched.grace_ns and ago_ns < sched.period_ns:
        return sched.start_ns
    return rule_next(sched, zones, now.wall_ns - 1)


def _whole_ms(instant_ns: int) -> int:
    return -(-instant_ns // MS) * MS


def begun(sched: Sched, now: Now, zones: Zones) -> Sched:
    """Return a recurrence that waited for the clock as if it were accepted now (E71)."""
    if not sched.untrusted:
        return sched
    if sched.one_shot:
        return sched.with_(untrusted=False)
    first_ns = rule_next(sched, zones, max(now.wall_ns - 1, sched.last_fired_ns or 0))
    if first_ns is not None and sched.until_ns is not None and first_ns > sched.until_ns:
        first_ns = None
    return sched.with_(next_ns=first_ns, untrusted=False)


def lateness_ns(sched: Sched, now: Now) -> int | None:
    """Return how late the next occurrence is, negative when it is ahead; None: there is none."""
    if sched.next_ns is None:
        return None
    if sched.boot_due_ns is not None:
        return now.boot_ns - sched.boot_due_ns
    return now.wall_ns - sched.next_ns


def owed(sched: Sched, now: Now, zones: Zones) -> Owed | None:
    """Return what is owed at `now`, None when nothing is due (E40 to E42)."""
    late_ns = lateness_ns(sched, now)
    if late_ns is None or late_ns < 0 or sched.next_ns is None:
        return None
    if late_ns <= max(sched.grace_ns, PROMPT_NS):
        after = _consume(sched, sched.next_ns, 1, zones)
        fired = after.with_(last_fired_ns=sched.next_ns, missed=())
        return Owed(None, 0, sched.next_ns, fired)
    missed, total, last_ns = _missed(sched, now, zones)
    after = _consume(sched, last_ns, total, zones)
    if sched.misfire == "late":
        after = after.with_(last_fired_ns=last_ns, missed=())
        return Owed(missed, total, last_ns, after)
    after = after.with_(missed=(*sched.missed, *missed)[-LISTED_MAX:])
    return Owed(missed, total, None, after)


def _missed(sched: Sched, now: Now, zones: Zones) -> tuple[tuple[int, ...], int, int]:
    """Return the newest missed instants, how many there are in all, and the last of them."""
    assert sched.next_ns is not None
    if sched.one_shot:
        return (sched.next_ns,), 1, sched.next_ns
    through_ns = now.wall_ns - max(sched.grace_ns, PROMPT_NS) - 1
    if sched.until_ns is not None:
        through_ns = min(through_ns, sched.until_ns)
    left = None if sched.count is None else sched.count - sched.consumed
    if sched.kind == "every":
        total = (through_ns - sched.next_ns) // sched.period_ns + 1
        if left is not None:
            total = min(total, left)
        last_ns = sched.next_ns + (total - 1) * sched.period_ns
        first = max(0, total - LISTED_MAX)
        listed = tuple(sched.next_ns + n * sched.period_ns for n in range(first, total))
        return listed, total, last_ns
    found = [sched.next_ns]
    while left is None or len(found) < left:
        following = rule_next(sched, zones, found[-1])
        if following is None or following > through_ns:
            break
        found.append(following)
    return tuple(found[-LISTED_MAX:]), len(found), found[-1]


def _consume(sched: Sched, through_ns: int, count: int, zones: Zones) -> Sched:
    consumed = sched.consumed + count
    next_ns = None if sched.one_shot else rule_next(sched, zones, through_ns)
    if sched.count is not None and consumed >= sched.count:
        next_ns = None
    if next_ns is not None and sched.until_ns is not None and next_ns > sched.until_ns:
        next_ns = None
    return sched.with_(next_ns=next_ns, consumed=consumed)
