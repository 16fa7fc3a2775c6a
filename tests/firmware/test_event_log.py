"""The ring of wake events: numbers that never repeat, and losses that are told."""

from typing import Final

import pytest
from wakeboard.event_log import RING_LEN, EventLog

from board_harness import BOOT_ID, TurnedBoard
from wakewire import codes, messages

SEVEN_PER_PAGE: Final = 7


def fill(board: TurnedBoard, count: int) -> None:
    for at in range(count):
        board.dispatcher.log.append(codes.SOURCE_BUTTON, at, 7, 0xFFFFFFFF, 1)


def test_boot_is_event_one() -> None:
    batch = TurnedBoard().events(0)
    assert [(event.seq, event.source) for event in batch.events] == [(1, codes.SOURCE_BOOT)]
    assert (batch.oldest_seq, batch.last_seq, batch.lost) == (1, 1, 0)


def test_record_keeps_every_field_at_its_longest() -> None:
    log = EventLog()
    log.append(255, 0xFFFFFFFF, 999, 0xFFFFFFFF, 255)
    assert log.read(1) == [1, 255, 0xFFFFFFFF * 1000 + 999, 0xFFFFFFFF, 255]


@pytest.mark.parametrize("count", [0, RING_LEN - 1, RING_LEN, RING_LEN + 1, 5 * RING_LEN])
def test_reading_to_the_end_finds_the_newest_and_counts_the_lost(count: int) -> None:
    board = TurnedBoard()
    fill(board, count)
    seen: list[int] = []
    cursor = 0
    lost = board.events(0).lost
    while True:
        batch = board.events(cursor)
        if not batch.events:
            break
        assert len(batch.events) <= SEVEN_PER_PAGE
        seen += [event.seq for event in batch.events]
        cursor = seen[-1]
    assert cursor == batch.last_seq == count + 1
    assert seen == list(range(lost + 1, count + 2))
    assert lost == max(0, count + 1 - RING_LEN)


def test_lost_counts_from_the_cursor() -> None:
    board = TurnedBoard()
    fill(board, RING_LEN + 9)
    assert board.events(4).lost == 10 - 4
    assert board.events(10).lost == 0
    assert board.events(RING_LEN + 10).events == []


def test_cursor_of_another_boot_reads_from_the_start() -> None:
    board = TurnedBoard()
    fill(board, 2)
    batch = board.events(2, b"elsewhen")
    assert batch.boot_id == BOOT_ID
    assert [event.seq for event in batch.events] == [1, 2, 3]


def test_cursor_beyond_the_newest_finds_nothing() -> None:
    batch = TurnedBoard().events(0xFFFFFFFF)
    assert (batch.events, batch.lost, batch.last_seq) == ([], 0, 1)


def test_page_of_the_longest_numbers_fits_a_payload() -> None:
    board = TurnedBoard()
    log = board.dispatcher.log
    log.last_seq = 0xFFFFFFF0
    for _ in range(RING_LEN):  # sources and flags stay below 24: one byte each
        log.append(23, 0xFFFFFFFF, 999, 0xFFFFFFFF, 23)
    answer = board.dispatcher.answer(messages.events_get(0xFFFF, b"elsewhen", 0))
    assert answer is not None
    assert len(answer) == 185
