"""Requests as a host builds them, and what it reads in answers of older and newer boards."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakewire import codes, limits, messages
from wakewire.errors import FrameError, MessageError, WireError
from wakewire.host_limits import REQUEST_MAX
from wakewire.limits import COUNTDOWN_MAX_MS, ID_MAX, SEQ_MAX, TOKEN_MAX
from wakewire.messages import Answer, Diag, Event, EventBatch, Hello, Request, TimerState
from wire_strategies import EVENTS, HELLOS, TIMER_STATES, event_batches

BOOT = bytes(range(8))


@pytest.mark.parametrize(
    ("payload", "op", "args"),
    [
        (messages.hello(7), codes.OP_HELLO, [1, 1]),
        (messages.hello(7, 1, 3), codes.OP_HELLO, [1, 3]),
        (messages.ping(7), codes.OP_PING, []),
        (messages.timer_get(7), codes.OP_TIMER_GET, []),
        (messages.timer_set(7, 1, 2), codes.OP_TIMER_SET, [1, 2]),
        (messages.timer_cancel(7, 0), codes.OP_TIMER_CANCEL, [0]),
        (messages.events_get(7, BOOT, 5), codes.OP_EVENTS_GET, [BOOT, 5]),
        (messages.diag(7), codes.OP_DIAG, []),
        (messages.restart(7), codes.OP_RESTART, []),
    ],
)
def test_requests_say_what_was_asked(payload: bytes, op: int, args: list[object]) -> None:
    assert messages.parse(payload) == Request(7, op, args)


@pytest.mark.parametrize(
    "payload",
    [
        messages.hello(ID_MAX, 255, 255),
        messages.timer_set(ID_MAX, TOKEN_MAX, COUNTDOWN_MAX_MS),
        messages.timer_cancel(ID_MAX, TOKEN_MAX),
        messages.events_get(ID_MAX, BOOT, SEQ_MAX),
    ],
)
def test_the_longest_requests_fit_the_smallest_receive_ring(payload: bytes) -> None:
    assert len(payload) <= REQUEST_MAX
    assert 2 * (REQUEST_MAX + 4) + 2 <= 128


@pytest.mark.parametrize(
    "refused",
    [
        lambda: messages.ping(ID_MAX + 1),
        lambda: messages.ping(-1),
        lambda: messages.hello(1, 0, 256),
        lambda: messages.hello(1, 2, 1),
        lambda: messages.timer_set(1, 0, 1),
        lambda: messages.timer_set(1, TOKEN_MAX + 1, 1),
        lambda: messages.timer_set(1, 1, 0),
        lambda: messages.timer_set(1, 1, COUNTDOWN_MAX_MS + 1),
        lambda: messages.timer_cancel(1, -1),
        lambda: messages.events_get(1, BOOT[:7], 0),
        lambda: messages.events_get(1, BOOT, -1),
    ],
)
def test_requests_out_of_range_are_not_built(refused: object) -> None:
    assert callable(refused)
    with pytest.raises(MessageError):
        refused()


@settings(max_examples=200, deadline=None)
@given(HELLOS | TIMER_STATES | event_batches())
def test_readings_read_what_they_write(reading: Hello | TimerState | EventBatch) -> None:
    assert type(reading).from_fields(reading.fields()) == reading


@settings(max_examples=200, deadline=None)
@given(EVENTS)
def test_pushed_event_reads_as_written(event: Event) -> None:
    assert messages.parse(event.encode()) == event


@given(st.lists(st.integers(0, 2**32), max_size=17))
def test_counters_of_an_older_board_are_unknown_not_zero(counters: list[int]) -> None:
    diag = Diag.from_fields(list(counters))
    assert diag.fields() == counters
    assert len(counters) > 16 or diag.checkpoint_errors is None


def test_counters_of_a_newer_board_are_ignored() -> None:
    assert Diag.from_fields([*range(17), 5, "later"]).fields() == list(range(17))


def test_appended_fields_are_ignored() -> None:
    """The wire is append-only, so that a host takes a newer board as the one it knows."""
    state = TimerState(BOOT, 1, 7, 10, 20, 0, 30)
    assert TimerState.from_fields([*state.fields(), "later"]) == state
    event = Event(BOOT, 1, 4, 10, 7, 0)
    batch = EventBatch(BOOT, 1, 1, 0, [event])
    fields = [BOOT, 1, 1, 0, [[*event.fields(), 9]], "later"]
    assert EventBatch.from_fields(fields) == batch


def test_numbers_of_a_later_version_are_taken_as_they_are() -> None:
    assert Event.from_fields(BOOT, [1, 77, 0, 0, 0x80]).source == 77
    assert TimerState.from_fields([BOOT, 9, 0, 0, 0, 0x80, 0]).state == 9


def test_refusal_tells_its_reason() -> None:
    assert Answer(1, codes.STATUS_BUSY, ["restarting"]).reason == "restarting"
    assert Answer(1, codes.STATUS_BUSY, []).reason == ""
    assert Answer(1, codes.STATUS_BUSY, [5]).reason == ""
    assert Answer(1, codes.STATUS_OK, ["text"]).reason == ""
    assert not Answer(1, codes.STATUS_BUSY, []).ok


def test_message_error_names_the_field() -> None:
    with pytest.raises(MessageError, match="remaining_ms: out of range"):
        TimerState.from_fields([BOOT, 1, 7, COUNTDOWN_MAX_MS + 1, 20, 0, 30])
    with pytest.raises(MessageError, match="uptime_ms: missing"):
        TimerState.from_fields([BOOT, 1, 7, 10, 20, 0])


def test_messages_compare_by_kind_and_content_and_tell_what_they_hold() -> None:
    assert Request(1, 2, []) != Answer(1, 2, [])
    assert Request(1, 2, []) != Request(1, 2, [0])
    assert repr(Event(BOOT, 1, 4, 10, 7, 0)) == (
        "Event(boot_id=b'\\x00\\x01\\x02\\x03\\x04\\x05\\x06\\x07', flags=0, seq=1, "
        "source=4, token=7, uptime_ms=10)"
    )


def test_errors_are_one_family_of_value_errors() -> None:
    assert issubclass(MessageError, WireError)
    assert issubclass(FrameError, WireError)
    assert issubclass(WireError, ValueError)


def test_a_countdown_is_a_small_integer_on_a_32_bit_board() -> None:
    assert limits.COUNTDOWN_MAX_MS < 2**30
    assert limits.COUNTDOWN_MAX_MS == 7 * 24 * 3600 * 1000
