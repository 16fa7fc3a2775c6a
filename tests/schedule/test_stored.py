"""E5, E50, E54: what is written of a record, and that nothing else is taken for one."""

import time
import tracemalloc
from typing import Any

import pytest

from wakebridge.schedule.errors import CorruptRecord
from wakebridge.schedule.instants import Now, parse_instant
from wakebridge.schedule.record import Record, parse_record
from wakebridge.schedule.rules import At
from wakebridge.schedule.stored import decode_stored, encode_stored

NOW = Now(parse_instant("2026-03-01T08:00:00Z"), boot_ns=5)
WEEKDAYS = {"time": "06:30", "days": ["mon", "tue", "wed", "thu", "fri"], "zone": "Europe/Lisbon"}


def _record(name: str = "alarm-0", /, **fields: Any) -> Record:
    request = {"id": name, "event": f"demo.skill.{name}", "data": {"label": "Wake up"}, **fields}
    return parse_record("demo.skill", request, NOW, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"at": "9999-12-31T23:59:59.999999999Z"},
        {"at": "0001-01-01T00:00:00Z", "misfire": "skip"},
        {"every": {"seconds": 1e-9}, "count": 2**63 - 1, "grace_s": 1e308},
        {"every": {"seconds": 10**300, "start": "9999-01-01T00:00:00Z"}},
        {"local": WEEKDAYS, "until": "2999-01-01T00:00:00+14:00"},
        {"local": WEEKDAYS, "data": {"text": 'line\none "two" ä😀 \\'}},
    ],
)
def test_e50_what_was_stored_is_read_back_equal(fields: dict[str, Any]) -> None:
    """E50: beyond 64-bit nanoseconds as well, and with any text in `data`."""
    record = _record(**fields)
    assert decode_stored(encode_stored(record)) == record


def test_e5_an_in_schedule_is_an_at_after_a_restart() -> None:
    """E5: the boot clock of another boot means nothing."""
    record = _record(**{"in": {"seconds": 300}})
    assert record.in_boot_due_ns is not None
    restored = decode_stored(encode_stored(record))
    assert restored.in_boot_due_ns is None
    assert restored.rule == At(parse_instant("2026-03-01T08:05:00Z"))
    assert restored.to_wire()["in"] == {"seconds": 300}


def test_e50_an_ephemeral_record_is_never_written() -> None:
    """E50: not even by mistake."""
    with pytest.raises(ValueError, match="never written"):
        encode_stored(_record(local=WEEKDAYS, ephemeral=True))


def test_the_stored_form_is_what_the_format_says() -> None:
    """E54: the format of version 1 is fixed; a change of these bytes is another version."""
    assert encode_stored(_record(local=WEEKDAYS)) == (
        b'[1,"demo.skill","alarm-0","demo.skill.alarm-0",{"kind":"local","time_s":23400,'
        b'"days":[0,1,2,3,4],"zone":"Europe/Lisbon"},null,null,"late",60000000000,139,159]\n'
        b'{"id":"alarm-0","event":"demo.skill.alarm-0","local":{"time":"06:30",'
        b'"days":["mon","tue","wed","thu","fri"],"zone":"Europe/Lisbon"},'
        b'"data":{"label":"Wake up"}}'
    )


_GOOD = encode_stored(_record(every={"seconds": 600}))


@pytest.mark.parametrize(
    "stored",
    [
        *(b"", b"\n", b"{}", b"[1]\n{}", _GOOD[:-1], _GOOD[1:], _GOOD.replace(b"\n", b" ")),
        _GOOD.replace(b"[1,", b"[2,", 1),
        _GOOD.replace(b"[1,", b'["1",', 1),
        _GOOD.replace(b"]\n", b",true]\n"),
        _GOOD.replace(b'"kind":"every"', b'"kind":"cron"'),
        _GOOD.replace(b'"kind":"every",', b""),
        _GOOD.replace(b'"kind":"every"', b'"kind":"every","jitter_ns":5'),
        _GOOD.replace(b'"period_ns":600000000000', b'"period_ns":0'),
        _GOOD.replace(b'"period_ns":600000000000', b'"period_ns":6e2'),
        _GOOD.replace(b'"late"', b'"all"'),
        _GOOD.replace(b'"late",60000000000', b'"late",-1'),
        b"\xff" + _GOOD,
        encode_stored(_record(local=WEEKDAYS)).replace(b'"days":[0', b'"days":[7', 1),
        encode_stored(_record(local=WEEKDAYS)).replace(b"[0,1,2,3,4]", b"[]", 1),
        encode_stored(_record(local=WEEKDAYS)).replace(b"23400", b"86400", 1),
    ],
)
def test_e52_anything_else_is_an_error_and_nothing_is_dropped(stored: bytes) -> None:
    """E52, E54: an unknown version, field, kind or policy is never read as something near it."""
    with pytest.raises(CorruptRecord) as refused:
        decode_stored(stored)
    assert refused.value.reason.isprintable()


def test_a_hundred_thousand_records_load_in_a_fraction_of_a_second() -> None:
    """E53: 100 000 schedules are ready within a second, of which this is the smaller part."""
    stored = [encode_stored(_record(f"alarm-{number}", local=WEEKDAYS)) for number in range(2000)]
    best_s = 60.0
    for _ in range(10):
        started = time.perf_counter()
        for one in stored:
            decode_stored(one)
        best_s = min(best_s, time.perf_counter() - started)
    assert best_s / len(stored) < 5e-6


def test_a_record_takes_at_most_600_bytes() -> None:
    """E53: what a weekday alarm with a small payload holds in memory."""
    stored = [encode_stored(_record(f"alarm-{number}", local=WEEKDAYS)) for number in range(2000)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        records = [decode_stored(one) for one in stored]
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown / len(records) < 600
