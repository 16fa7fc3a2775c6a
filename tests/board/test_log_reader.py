"""Reading the event log page by page from a board that may lie or restart (R41)."""

import pytest

from wakebridge.board.errors import BoardFault
from wakebridge.board.event_log import EVENTS_MAX, EventLog, LogReader
from wakewire.messages import Event, EventBatch

OLD, NEW = b"old boot", b"new boot"


def event(seq: int, boot_id: bytes = OLD) -> Event:
    return Event(boot_id, seq, 4, seq * 1000, 7, 0)


def page(first: int, last: int, last_seq: int, boot_id: bytes = OLD, lost: int = 0) -> EventBatch:
    events = [event(seq, boot_id) for seq in range(first, last + 1)]
    return EventBatch(boot_id, 1, last_seq, lost, events)


def read(after_seq: int, *pages: EventBatch) -> tuple[LogReader, list[tuple[bytes, int]]]:
    reader = LogReader(OLD, after_seq)
    cursors = []
    for batch in pages:
        cursor = reader.next_cursor()
        assert cursor is not None
        cursors.append(cursor)
        reader.take(batch)
    return reader, cursors


def test_pages_are_put_together_to_the_end() -> None:
    reader, cursors = read(2, page(3, 9, 12), page(10, 12, 12))
    assert cursors == [(OLD, 2), (OLD, 9)]
    assert reader.next_cursor() is None
    assert reader.result() == EventLog(OLD, 12, 0, tuple(event(seq) for seq in range(3, 13)))


def test_nothing_new_is_one_page() -> None:
    reader, _ = read(5, page(1, 0, 5))
    assert reader.next_cursor() is None
    assert reader.result() == EventLog(OLD, 5, 0, ())


def test_what_was_overwritten_is_counted() -> None:
    reader, _ = read(0, page(70, 76, 90, lost=69), page(80, 90, 90, lost=3))
    assert reader.result().lost == 72


def test_another_boot_is_told_by_the_answer() -> None:
    reader, _ = read(40, page(1, 2, 2, NEW))
    assert reader.result() == EventLog(NEW, 2, 0, (event(1, NEW), event(2, NEW)))


def test_a_restart_between_two_pages_begins_anew() -> None:
    reader, cursors = read(0, page(1, 7, 20), page(1, 1, 1, NEW))
    assert cursors == [(OLD, 0), (OLD, 7)]
    assert reader.result() == EventLog(NEW, 1, 0, (event(1, NEW),))


@pytest.mark.parametrize(
    "batch",
    [
        page(3, 5, 9),  # not after the cursor
        page(6, 12, 9),  # beyond the end
        page(1, 0, 9),  # announced and not sent
    ],
)
def test_contradictions_are_the_boards_fault(batch: EventBatch) -> None:
    with pytest.raises(BoardFault):
        read(5, batch)


def test_a_log_without_end_is_given_up() -> None:
    pages = [page(first, first + 6, first + 100) for first in range(1, 2 * EVENTS_MAX, 7)]
    with pytest.raises(BoardFault):
        read(0, *pages)


def test_a_board_that_restarts_for_ever_is_given_up() -> None:
    pages = [page(1, 7, 20, bytes((number,)) * 8) for number in range(10)]
    with pytest.raises(BoardFault):
        read(0, *pages)
