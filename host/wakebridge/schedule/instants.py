"""Instants: RFC 3339 text on the outside, integer nanoseconds since the Unix epoch inside.

The grammar is RFC 3339 section 5.6 and nothing more; `datetime.fromisoformat` reads another
language (it refuses leap seconds and accepts ISO 8601 forms that RFC 3339 does not have).
"""

import re
from datetime import UTC, date, datetime, timedelta

import msgspec

from wakebridge.schedule import zones
from wakebridge.schedule.errors import BadInstant, quote

NS_PER_S = 1_000_000_000
_S_PER_DAY = 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_NAIVE = datetime(1970, 1, 1)  # noqa: DTZ001 - a calendar to count from, not a moment
_EPOCH_DAY = date(1970, 1, 1).toordinal()

MIN_NS = (date.min.toordinal() - _EPOCH_DAY) * _S_PER_DAY * NS_PER_S
"""0001-01-01T00:00:00Z: the first instant that RFC 3339's four-digit year can name here."""
MAX_NS = (date.max.toordinal() - _EPOCH_DAY + 1) * _S_PER_DAY * NS_PER_S - 1
"""9999-12-31T23:59:59.999999999Z: the last instant that a four-digit year can name."""

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_WITHOUT_OFFSET = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d([.,]\d*)?)?", re.ASCII)
_EXAMPLE = "2031-03-29T07:30:00+01:00"


class Now(msgspec.Struct, frozen=True, gc=False):
    """One reading of both clocks, taken together.

    `wall_ns` is nanoseconds since the Unix epoch; `boot_ns` is CLOCK_BOOTTIME in nanoseconds,
    which no step of the wall clock moves and which counts time spent in suspend (E5).
    """

    wall_ns: int
    boot_ns: int


def parse_instant(text: object) -> int:
    """Return the instant that RFC 3339 `text` names, in nanoseconds since the Unix epoch.

    Digits beyond the nanosecond are cut off. `:60` is accepted only where a leap second can be,
    at 23:59:60 UTC, and means the second after it (case A14). Raises `BadInstant` with a reason
    that says what is wrong and what would be right (E4).
    """
    if not isinstance(text, str):
        raise BadInstant(f"an instant is a string such as {_EXAMPLE!r}, not {_kind(text)}")
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise BadInstant(_what_is_wrong(text))
    year, month, day, hour, minute, second, fraction, sign, offset_h, offset_min = match.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:
        raise BadInstant(f"{quote(text)} names a day that does not exist") from None
    seconds = int(second)
    if hour > "23" or minute > "59" or seconds > 60:
        raise BadInstant(f"{quote(text)} names a time of day that does not exist")
    total_s = days * _S_PER_DAY + int(hour) * 3600 + int(minute) * 60 + seconds
    if sign is not None:
        if offset_h > "23" or offset_min > "59":
            raise BadInstant(f"{quote(text)} has an offset beyond 23:59")
        offset_s = int(offset_h) * 3600 + int(offset_min) * 60
        total_s += offset_s if sign == "-" else -offset_s
    if seconds == 60 and total_s % _S_PER_DAY:
        raise BadInstant(f"{quote(text)} is not a leap second: those are at 23:59:60 UTC only")
    instant_ns = total_s * NS_PER_S
    if fraction is not None:
        instant_ns += int(fraction[:9].ljust(9, "0"))
    if not MIN_NS <= instant_ns <= MAX_NS:
        raise BadInstant(f"{quote(text)} lies outside the years 0001 to 9999 in UTC")
    return instant_ns


def format_instant(instant_ns: int) -> str:
    """Return `instant_ns` as RFC 3339 in UTC, always with the numeric offset `+00:00` (E13).

    A fraction is written only when there is one, in the fewest of 3, 6 or 9 digits, which every
    reader of RFC 3339 understands. `instant_ns` lies within `MIN_NS` to `MAX_NS`.
    """
    seconds, nanos = divmod(instant_ns, NS_PER_S)
    if not nanos:
        return (_EPOCH + timedelta(seconds=seconds)).isoformat()
    whole = (_EPOCH_NAIVE + timedelta(seconds=seconds)).isoformat()
    fraction = f"{nanos:09d}"
    digits = 3 if nanos % 1_000_000 == 0 else 6 if nanos % 1000 == 0 else 9
    return f"{whole}.{fraction[:digits]}+00:00"


def format_instant_in(instant_ns: int, zone: str) -> str:
    """Return `instant_ns` as RFC 3339 with the offset that `zone` has then, for people to read.

    Offsets of local mean time have seconds, which RFC 3339 cannot write: the offset is cut to
    the minute and the clock reading with it, so the text still names the same instant. Near the
    ends of the calendar, where the local year would be 0 or 10000, the text is in UTC. Raises
    `UnknownZone`.
    """
    offset_min = zones.table(zone).offset_s(instant_ns // NS_PER_S) // 60
    local_ns = instant_ns + offset_min * 60 * NS_PER_S
    if not MIN_NS <= local_ns <= MAX_NS:
        return format_instant(instant_ns)
    sign = "-" if offset_min < 0 else "+"
    hours, minutes = divmod(abs(offset_min), 60)
    return f"{format_instant(local_ns)[:-6]}{sign}{hours:02d}:{minutes:02d}"


def with_numeric_offset(text: str) -> str:
    """Return a text that `parse_instant` accepts, with `Z` written as `+00:00` (E13).

    Everything else stays as the owner wrote it, the offset of his choice included.
    """
    text = text.upper()
    return f"{text[:-1]}+00:00" if text.endswith("Z") else text


def _what_is_wrong(text: str) -> str:
    quoted = quote(text)
    if _WITHOUT_OFFSET.fullmatch(text):
        return f"{quoted} has no UTC offset: write e.g. {_EXAMPLE!r}, or '+00:00' for UTC"
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
        return f"{quoted} is a date without a time and an offset: write e.g. {_EXAMPLE!r}"
    if len(text) > 10 and text[10] == " ":
        return f"{quoted} has a space where RFC 3339 has a 'T': write e.g. {_EXAMPLE!r}"
    if re.search(r"[.](?!\d)|,", text):
        return f"{quoted} has no digits after its decimal point: write e.g. '07:30:00.5+01:00'"
    if re.search(r"[+-]\d\d(\d\d)?$", text, re.ASCII) and len(text) > 11:
        return f"{quoted} has an offset without a colon or minutes: write it as '+01:00'"
    if re.fullmatch(r"[+-]?\d+([.]\d+)?", text, re.ASCII):
        return f"{quoted} is a number, not an instant: write e.g. {_EXAMPLE!r}"
    return f"{quoted} is not an RFC 3339 instant: write e.g. {_EXAMPLE!r}"


def _kind(value: object) -> str:
    return "null" if value is None else f"a {type(value).__name__}"
