"""What callers give to the client and get from it. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any, Literal

import msgspec


class Local(msgspec.Struct, frozen=True):
    """A wall-clock time in a zone, on all days or some: `Local("07:30", "Europe/Lisbon")` (E7)."""

    time: time | str
    zone: str
    days: tuple[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"], ...] | None = None

    def encode(self) -> dict[str, object]:
        """Return the `local` object of a record. Raise ValueError for a time with a zone."""
        wall = self.time
        if isinstance(wall, time):
            if wall.tzinfo is not None:
                raise ValueError("the time of Local is naive: its zone is the field `zone`")
            wall = wall.isoformat("seconds" if wall.second else "minutes")
        encoded: dict[str, object] = {"time": wall, "zone": self.zone}
        if self.days is not None:
            encoded["days"] = self.days
        return encoded


class Scheduled(msgspec.Struct, frozen=True):
    """An accepted schedule (E22). `next` is when it fires first, None for never."""

    id: str
    skill_id: str
    next: datetime | None
    replaced: bool


class State(msgspec.Struct, frozen=True):
    """Where a stored schedule stands (E24)."""

    next: datetime | None
    last_fired: datetime | None
    missed: tuple[datetime, ...]
    remaining: int | None


class Entry(msgspec.Struct, frozen=True):
    """One stored schedule: the record as it was accepted, and its state (E24, E25)."""

    record: Mapping[str, Any]
    state: State


class Fired(msgspec.Struct, frozen=True):
    """One occurrence of a schedule (E30). A handler gets each (`id`, `due`) once."""

    id: str
    event: str
    due: datetime
    fired: datetime
    remaining: int | None
    data: Mapping[str, Any]
    context: Mapping[str, Any]


class Missed(msgspec.Struct, frozen=True):
    """Occurrences of one schedule that were not fired in time (E41)."""

    id: str
    missed: tuple[datetime, ...]
    fired_late: datetime | None
    next: datetime | None


def encode_instant(when: datetime) -> str:
    """Return an instant of a request (E4). Raise ValueError for a naive datetime.

    A naive one would mean the zone of whatever machine runs this.
    """
    if when.utcoffset() is None:
        raise ValueError("give a datetime with a zone, such as datetime.now(UTC)")
    return when.astimezone(UTC).isoformat()


def decode_instant(text: str) -> datetime:
    """Return an answer's instant as an aware datetime, to the microsecond."""
    return datetime.fromisoformat(text)


def maybe_instant(text: str | None) -> datetime | None:
    """Return an answer's instant or null."""
    return None if text is None else decode_instant(text)


def encode_seconds(span: timedelta) -> float | int:
    """Return a duration in seconds, as a whole number where it is one."""
    seconds = span.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds


def decode_entry(pair: Mapping[str, Any]) -> Entry:
    """Return one `{record, state}` pair of an answer."""
    state = pair["state"]
    return Entry(
        record=pair["record"],
        state=State(
            next=maybe_instant(state["next"]),
            last_fired=maybe_instant(state["last_fired"]),
            missed=tuple(decode_instant(text) for text in state["missed"]),
            remaining=state["remaining"],
        ),
    )
