"""Times and days as people type and read them."""

import re
from typing import Any, Final

import click

_SECONDS_OF: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
# More digits are a slip of the hand, and would be more than a number holds.
_DIGITS: Final = r"\d{1,15}(?:\.\d{1,15})?"
_NUMBER: Final = re.compile(rf"-?{_DIGITS}", re.ASCII)
_SPAN: Final = re.compile(rf"(?:({_DIGITS})([smhdw]))+", re.ASCII)
_PART: Final = re.compile(rf"({_DIGITS})([smhdw])", re.ASCII)
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class Span(click.ParamType[Any]):
    """A length of time: 90, 90s, 10m, 1h30m, 2d. Converts to seconds."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the seconds, or fail with what would be right."""
        if isinstance(value, int | float):
            return value
        text = str(value).strip().lower()
        if _NUMBER.fullmatch(text) is not None:
            return float(text) if "." in text else int(text)
        if _SPAN.fullmatch(text) is None:
            self.fail(f"{value!r} is not a length of time: write 90s, 10m, 1h30m or 2d", param, ctx)
        parts = _PART.findall(text)
        seconds: float = sum(float(number) * _SECONDS_OF[unit] for number, unit in parts)
        return int(seconds) if seconds == int(seconds) else seconds


class Days(click.ParamType[Any]):
    """Weekdays: mon,wed or mon-fri or sat-mon. Converts to a list of names."""

    name = "days"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the names in the order of the week, or fail with what would be right."""
        if isinstance(value, list):
            return value
        chosen: set[str] = set()
        for part in str(value).lower().split(","):
            first, _, last = part.strip().partition("-")
            if first not in _DAYS or (last or first) not in _DAYS:
                self.fail(f"{part!r} is not a weekday: write mon,wed or mon-fri", param, ctx)
            begin, end = _DAYS.index(first), _DAYS.index(last or first)
            chosen.update(
                _DAYS[n % 7] for n in range(begin, (end if end >= begin else end + 7) + 1)
            )
        return [day for day in _DAYS if day in chosen]


def describe_timing(record: dict[str, Any]) -> str:
    """Return when a schedule is due, in a few words."""
    if "at" in record:
        return f"at {record['at']}"
    if "in" in record:
        return f"once after {describe_span(record['in']['seconds'])}"
    if "every" in record:
        return f"every {describe_span(record['every']['seconds'])}"
    local = record["local"]
    days = local.get("days")
    which = "daily" if days is None or len(days) == len(_DAYS) else ",".join(days)
    return f"{local['time']} {which} {local['zone']}"


def describe_span(seconds: float) -> str:
    """Return a length of time in its two largest units: 1h30m, 2d, 45s."""
    if seconds < 1 or seconds != int(seconds):
        return f"{seconds:g}s"
    left, parts = int(seconds), []
    for unit in ("d", "h", "m", "s"):
        count, left = divmod(left, _SECONDS_OF[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2]) or "0s"
