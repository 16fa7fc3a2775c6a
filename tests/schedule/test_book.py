"""The book of schedules against a plain dictionary: the same answers, whatever was done (E27)."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakebridge.schedule.book import Book, Change, Key
from wakebridge.schedule.instants import Now
from wakebridge.schedule.misfire import Schedule, deadline
from wakebridge.schedule.record import parse_record

NOW = Now(1_700_000_000_000_000_000, 5_000_000_000)
S = 1_000_000_000
OWNERS = ("a", "b", "c")
IDS = ("x", "y", "z")


def schedule(owner: str, schedule_id: str, due_s: int, *, delay: bool = False) -> Schedule:
    """Return a one-shot that is due so many seconds from `NOW`."""
    body: dict[str, Any] = {"id": schedule_id, "event": f"{owner}.e"}
    if delay:
        body["in"] = {"seconds": due_s}
    else:
        # The epoch second of NOW is 2023-11-14T22:13:20Z.
        body["at"] = f"2023-11-14T22:{13 + (20 + due_s) // 60:02d}:{(20 + due_s) % 60:02d}Z"
    record = parse_record(owner, body, NOW, None)
    return Schedule(record, None, "mqtt", None, NOW.wall_ns + due_s * S)


keys = st.tuples(st.sampled_from(OWNERS), st.sampled_from(IDS))
changes = st.builds(
    lambda key, due_s, delay, put: Change(
        key, schedule(key[0], key[1], due_s, delay=delay) if put else None
    ),
    keys,
    st.integers(1, 30),
    st.booleans(),
    st.booleans(),
)


def check(book: Book, model: dict[Key, Schedule]) -> None:
    """The book answers as the dictionary does."""
    assert len(book) == len(model)
    assert {each.key: each for each in book} == model
    for owner in OWNERS:
        assert {each.key: each for each in book.owned_by(owner)} == {
            key: each for key, each in model.items() if key[0] == owner
        }
        for schedule_id in IDS:
            assert book.get((owner, schedule_id)) is model.get((owner, schedule_id))
    for schedule_id in IDS:
        assert set(book.owners_of(schedule_id)) == {
            owner for owner, other in model if other == schedule_id
        }
    walls = [wall for wall, _ in map(deadline, model.values()) if wall is not None]
    boots = [boot for _, boot in map(deadline, model.values()) if boot is not None]
    assert book.deadlines() == (min(walls, default=None), min(boots, default=None))


@settings(max_examples=150)
@given(st.lists(changes, max_size=25), st.data())
def test_the_book_is_a_dictionary_with_indexes_and_every_change_can_be_taken_back_e27(
    made: list[Change], data: st.DataObject
) -> None:
    book = Book()
    model: dict[Key, Schedule] = {}
    inverses = []
    states = [dict(model)]
    for change in made:
        inverse = book.apply(change)
        assert inverse == Change(change.key, model.get(change.key))
        if change.schedule is None:
            model.pop(change.key, None)
        else:
            model[change.key] = change.schedule
        inverses.append(inverse)
        states.append(dict(model))
        check(book, model)
    back = data.draw(st.integers(0, len(made)))
    for inverse in reversed(inverses[len(made) - back :]):
        book.apply(inverse)
    check(book, states[len(made) - back])


@given(st.lists(changes, max_size=25), st.integers(0, 31))
def test_what_is_due_is_taken_once_earliest_first(made: list[Change], after_s: int) -> None:
    book = Book()
    for change in made:
        book.apply(change)
    now = Now(NOW.wall_ns + after_s * S, NOW.boot_ns + after_s * S)
    due = book.pop_due(now, wall_clock_trusted=True)
    expected = [each for each in book if each.next_ns is not None and each.next_ns <= now.wall_ns]
    assert sorted(each.key for each in due) == sorted(each.key for each in expected)
    for on_boot in (True, False):
        order = [
            each.next_ns for each in due if (each.record.in_boot_due_ns is not None) is on_boot
        ]
        assert order == sorted(order, key=lambda ns: ns or 0)
    assert book.pop_due(now, wall_clock_trusted=True) == []


def test_what_is_held_comes_back_with_its_bus_unless_it_is_gone() -> None:
    book = Book()
    kept, replaced, cancelled = (schedule("a", name, 1) for name in IDS)
    book.fill([kept, replaced, cancelled])
    later = Now(NOW.wall_ns + 2 * S, NOW.boot_ns + 2 * S)
    for each in book.pop_due(later, wall_clock_trusted=True):
        book.hold(each)
    assert book.deadlines() == (None, None)
    book.apply(Change(replaced.key, schedule("a", "y", 20)))
    book.apply(Change(cancelled.key, None))
    book.release("ovos")
    assert book.pop_due(later, wall_clock_trusted=True) == []
    book.release("mqtt")
    assert book.pop_due(later, wall_clock_trusted=True) == [kept]


def test_without_a_trusted_clock_only_delays_come_due_e71() -> None:
    book = Book()
    delay = schedule("a", "x", 1, delay=True)
    book.fill([delay, schedule("a", "y", 1)])
    later = Now(NOW.wall_ns + 2 * S, NOW.boot_ns + 2 * S)
    assert book.pop_due(later, wall_clock_trusted=False) == [delay]


@pytest.mark.parametrize("delay", [True, False])
def test_replacing_for_ever_costs_no_memory_for_ever_e54(delay: bool) -> None:
    book = Book()
    for number in range(5_000):
        book.apply(Change(("a", "x"), schedule("a", "x", 1 + number % 30, delay=delay)))
    assert len(book) == 1
    assert len(book._boot._entries) + len(book._wall._entries) < 600
