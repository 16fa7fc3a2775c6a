"""From what a caller says to the record of a request: E80, without a bridge."""

import math
from datetime import UTC, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from wakebridge.client import Local
from wakebridge.client.record import Options, build_record
from wakebridge.client.values import decode_instant

LISBON = ZoneInfo("Europe/Lisbon")
NOON = datetime(2031, 3, 29, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("options", "encoded"),
    [
        (Options(at=NOON), {"at": "2031-03-29T12:00:00+00:00"}),
        (
            Options(at=datetime(2031, 7, 1, 7, 30, tzinfo=LISBON)),
            {"at": "2031-07-01T06:30:00+00:00"},
        ),
        # The second of the two 01:30 at the end of summer time, and an offset RFC 3339 cannot say.
        (
            Options(at=datetime(2031, 10, 26, 1, 30, fold=1, tzinfo=LISBON)),
            {"at": "2031-10-26T01:30:00+00:00"},
        ),
        (
            Options(at=datetime(2031, 1, 1, tzinfo=timezone(timedelta(seconds=1)))),
            {"at": "2030-12-31T23:59:59+00:00"},
        ),
        (Options(in_=timedelta(minutes=5)), {"in": {"seconds": 300}}),
        (Options(in_=timedelta(milliseconds=1500)), {"in": {"seconds": 1.5}}),
        (
            Options(every=timedelta(hours=1), start=NOON, count=3),
            {"every": {"seconds": 3600, "start": "2031-03-29T12:00:00+00:00"}, "count": 3},
        ),
        (
            Options(local=Local("07:30", "Europe/Lisbon", ("mon", "fri")), until=NOON),
            {
                "local": {"time": "07:30", "zone": "Europe/Lisbon", "days": ("mon", "fri")},
                "until": "2031-03-29T12:00:00+00:00",
            },
        ),
        (
            Options(local=Local(time(7, 30), "UTC")),
            {"local": {"time": "07:30", "zone": "UTC"}},
        ),
        (
            Options(local=Local(time(7, 30, 5), "UTC")),
            {"local": {"time": "07:30:05", "zone": "UTC"}},
        ),
        (
            Options(at=NOON, misfire="skip", grace=timedelta(0), ephemeral=True, data={"a": 1}),
            {
                "at": "2031-03-29T12:00:00+00:00",
                "misfire": "skip",
                "grace_s": 0,
                "ephemeral": True,
                "data": {"a": 1},
            },
        ),
    ],
)
def test_e80_options_become_the_record(options: Options, encoded: dict[str, object]) -> None:
    record = build_record("demo.skill", "tick", **options)
    assert record == {"id": "tick", "event": "demo.skill.tick", **encoded}


def test_e80_the_default_id_is_the_events_name_and_a_given_one_stands() -> None:
    assert build_record("demo.skill", "tick", at=NOON)["id"] == "tick"
    assert build_record("demo.skill", "tick", at=NOON, id="other")["id"] == "other"


@pytest.mark.parametrize(
    "options",
    [
        Options(at=datetime(2031, 3, 29, 12)),  # noqa: DTZ001 - a naive one is the point
        Options(every=timedelta(hours=1), start=datetime(2031, 3, 29)),  # noqa: DTZ001 - the point
        Options(every=timedelta(hours=1), until=datetime(2031, 3, 29)),  # noqa: DTZ001 - the point
        Options(local=Local(time(7, 30, tzinfo=UTC), "UTC")),
        Options(at=NOON, start=NOON),
    ],
)
def test_e80_naive_datetimes_and_a_start_without_period_are_refused(options: Options) -> None:
    with pytest.raises(ValueError, match=r"zone|every"):
        build_record("demo.skill", "tick", **options)


def test_instants_of_answers_are_aware_whatever_their_fraction() -> None:
    assert decode_instant("2031-03-29T12:00:00+00:00") == NOON
    finer = decode_instant("2031-03-29T12:00:00.123456789+00:00")
    assert finer == NOON.replace(microsecond=123456)


@pytest.mark.parametrize(
    "data", [{"a": math.nan}, {"a": [1, {"b": math.inf}]}, {"a": (-math.inf,)}]
)
def test_a_number_that_json_does_not_have_is_refused_and_not_sent_as_null(
    data: dict[str, object],
) -> None:
    with pytest.raises(ValueError, match=r"data holds .*, and JSON has no such number"):
        build_record("demo", "tea", at=NOON, data=data)
