"""Instants in requests and answers, told independently of the bridge's own code."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def moment(text: str) -> datetime:
    """Return an instant of an answer; it must have a numeric offset."""
    assert text[-6] in "+-", text
    return datetime.fromisoformat(text)


def in_s(seconds: float) -> datetime:
    """Return the instant so many seconds from now, on a whole millisecond."""
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def at(seconds: float) -> str:
    """Return that instant as a request has it."""
    return in_s(seconds).isoformat(timespec="milliseconds")


def next_local(wall: time, zone: str, days: tuple[str, ...] = DAYS) -> datetime:
    """Return the next occurrence of a wall-clock time that no change of the clock touches."""
    now = datetime.now(ZoneInfo(zone))
    for ahead in range(9):
        day = (now + timedelta(days=ahead)).date()
        found = datetime.combine(day, wall, ZoneInfo(zone))
        if found > now and DAYS[day.weekday()] in days:
            return found
    raise AssertionError("a week has every day")
