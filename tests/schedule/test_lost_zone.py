"""New zone rules take nothing away that was promised, and a lost zone stops nobody else (E7c)."""

import sqlite3
from pathlib import Path

import msgspec
import pytest

from wakebridge.schedule.book import Change
from wakebridge.schedule.instants import NS_PER_S, Now, parse_instant
from wakebridge.schedule.misfire import Schedule, evaluate
from wakebridge.schedule.record import parse_record
from wakebridge.schedule.rules import Local
from wakebridge.store.errors import StateUnreadable
from wakebridge.store.schedules_sqlite import SchedulesSqlite

ACCEPTED = Now(parse_instant("2026-03-01T00:00:00Z"), 0)


def alarm(due: str, **fields: object) -> Schedule:
    """A daily alarm whose next occurrence was computed with the rules of that day."""
    body = {"id": "a", "event": "s.a", "local": {"time": "07:30", "zone": "UTC"}, **fields}
    record = parse_record("s", body, ACCEPTED, None)
    return Schedule(record, None, "mqtt", None, parse_instant(due))


def without_zone(schedule: Schedule) -> Schedule:
    record = msgspec.structs.replace(schedule.record, rule=Local(27_000, (0, 1), "Gone/Away"))
    return msgspec.structs.replace(schedule, record=record)


def at(instant: str) -> Now:
    return Now(parse_instant(instant), 0)


@pytest.mark.parametrize("now", ["2026-03-01T07:00:00Z", "2026-03-01T08:30:00Z"])
def test_e7c_an_occurrence_where_new_rules_see_none_is_missed_once_and_reported(now: str) -> None:
    """The host slept while the rules changed; the answered `next` stays an occurrence (E34)."""
    schedule = alarm("2026-03-01T06:30:00Z")
    evaluation = evaluate(schedule, at(now))
    assert evaluation is not None
    assert evaluation.missed is not None
    assert evaluation.fire is not None
    assert schedule.next_ns in evaluation.missed.due_ns
    assert evaluation.missed.total == 1 + (now > "2026-03-01T07:31")
    assert evaluation.successor is not None
    assert evaluation.successor.next_ns is not None
    assert evaluation.successor.next_ns > evaluation.fire.due_ns


def test_e9_the_count_holds_where_new_rules_see_no_occurrence() -> None:
    schedule = alarm("2026-03-01T06:30:00Z", count=1)
    evaluation = evaluate(schedule, at("2026-03-04T00:00:00Z"))
    assert evaluation is not None
    assert evaluation.missed is not None
    assert (evaluation.missed.total, evaluation.missed.next_ns) == (1, None)


@pytest.mark.parametrize("late_s", [0, 3600])
def test_e7c_a_schedule_whose_zone_is_lost_fires_what_was_answered_and_is_kept(
    late_s: int,
) -> None:
    schedule = without_zone(alarm("2026-03-01T07:30:00Z"))
    assert schedule.next_ns is not None
    evaluation = evaluate(schedule, Now(schedule.next_ns + late_s * NS_PER_S, 0))
    assert evaluation is not None
    assert evaluation.fire is not None
    assert evaluation.fire.due_ns == schedule.next_ns
    assert evaluation.successor is not None
    assert evaluation.successor.next_ns is None


def forget_zone_rules(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("UPDATE bridge SET zone_rules = 'other'")
    db.close()


async def test_e7c_loading_survives_a_lost_zone_and_finds_one_that_is_back(tmp_path: Path) -> None:
    path = tmp_path / "schedules.db"
    store = SchedulesSqlite(path)
    waiting = msgspec.structs.replace(alarm("2026-03-01T07:30:00Z"), next_ns=None)
    renamed = msgspec.structs.replace(waiting.record, id="b")
    lost = without_zone(
        msgspec.structs.replace(waiting, record=renamed, next_ns=ACCEPTED.wall_ns + NS_PER_S)
    )
    await store.commit([Change(each.key, each) for each in (waiting, lost)], ACCEPTED.wall_ns)
    store.close()
    forget_zone_rules(path)
    store = SchedulesSqlite(path)
    found = {each.record.id: each for each in store.load(ACCEPTED.wall_ns).schedules}
    store.close()
    assert found["a"].next_ns == parse_instant("2026-03-01T07:30:00Z")
    assert found["b"] == lost


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE schedules SET route = x'00'",
        "UPDATE schedules SET context = x'5b5d'",
        "UPDATE schedules SET progress = CAST('[1' || hex(zeroblob(30)) || ',null,0,[]]' AS BLOB)",
        "UPDATE schedules SET progress = CAST('[1,null,-1,[]]' AS BLOB)",
        "UPDATE bridge SET lease = 0",
        "UPDATE bridge SET written_ns = 'soon'",
        "DELETE FROM bridge",
    ],
)
async def test_a_row_that_is_not_as_it_was_written_is_refused_and_left(
    tmp_path: Path, change: str
) -> None:
    path = tmp_path / "schedules.db"
    store = SchedulesSqlite(path)
    schedule = alarm("2026-03-01T07:30:00Z")
    await store.commit([Change(schedule.key, schedule)], ACCEPTED.wall_ns)
    store.close()
    with sqlite3.connect(path) as db:
        db.execute(change)
    db.close()
    before = path.read_bytes()
    store = SchedulesSqlite(path)
    with pytest.raises(StateUnreadable, match=r"schedules\.db"):
        store.load(ACCEPTED.wall_ns)
    store.close()
    assert path.read_bytes() == before
