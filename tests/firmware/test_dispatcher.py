"""Requests and answers of a board, and whatever else arrives where a request should."""

import ast
import json
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from board_harness import BOOT_ID, IDENTITY, TurnedBoard
from micropython_runner import FIRMWARE, TESTS
from wakewire import cbor, codes, limits, messages
from wakewire.errors import CborError, MessageError
from wakewire.readings import Event

TOKEN: Final = 0xDEADBEEF
SAVE: Final = 1
RESTART: Final = 2

leaves = st.none() | st.booleans() | st.integers(-(2**64), 2**64 - 1)
values = st.recursive(
    leaves | st.binary(max_size=9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=12,
)


def request(op: int, *args: object) -> bytes:
    return messages.Request(9, op, list(args)).encode()


def test_numbers_of_the_wire_are_those_of_wakewire() -> None:
    """The firmware keeps copies, as names would take a board's heap."""
    known = {**vars(codes), **vars(limits)}
    compared = 0
    for path in sorted((FIRMWARE / "wakeboard").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id.lstrip("_")
                if name in known and isinstance(node.value, ast.Call):
                    assert ast.literal_eval(node.value.args[0]) == known[name], (path, name)
                    compared += 1
    assert compared > 20


def test_hello_tells_identity_and_uptime() -> None:
    board = TurnedBoard()
    board.turn_to(1234)
    hello = board.hello()
    assert hello.version == limits.PROTOCOL_VERSION
    assert hello.fields()[1:-1] == IDENTITY
    assert hello.uptime_ms == 1234


@pytest.mark.parametrize(
    ("low", "high", "status"),
    [(1, 1, 0), (0, 255, 0), (1, 9, 0), (2, 9, 3), (0, 0, 3), (9, 1, 3)],
)
def test_hello_needs_a_common_version(low: int, high: int, status: int) -> None:
    assert TurnedBoard().ask(request(codes.OP_HELLO, low, high)).status == status


def test_ping_tells_uptime() -> None:
    board = TurnedBoard()
    board.turn_to(20 * 86_400_000)
    assert board.ask(messages.ping(1)).fields == [20 * 86_400_000]


def test_setting_the_same_countdown_again_leaves_it_alone() -> None:
    board = TurnedBoard()
    assert board.timer(messages.timer_set(1, TOKEN, 60_000)).remaining_ms == 60_000
    assert board.dispatcher.todo == SAVE
    board.dispatcher.todo = 0
    board.turn_to(10_000)
    assert board.timer(messages.timer_set(2, TOKEN, 60_000)).remaining_ms == 50_000
    assert board.dispatcher.todo == 0
    assert board.timer(messages.timer_set(3, TOKEN, 60_001)).remaining_ms == 60_001
    assert board.timer(messages.timer_set(4, TOKEN + 1, 60_001)).token == TOKEN + 1


def test_restored_countdown_is_approximate_and_the_same_one_replaces_it() -> None:
    board = TurnedBoard()
    board.dispatcher.countdown.set(TOKEN, 60_000, codes.FLAG_APPROXIMATE)
    assert board.timer(messages.timer_get(1)).flags == codes.FLAG_APPROXIMATE
    board.turn_to(10_000)
    state = board.timer(messages.timer_set(2, TOKEN, 60_000))
    assert (state.remaining_ms, state.flags) == (60_000, 0)


def test_expired_countdown_keeps_its_token_until_it_is_replaced() -> None:
    """R42: a lost event is recovered from here."""
    board = TurnedBoard()
    board.timer(messages.timer_set(1, TOKEN, 5))
    board.turn_to(6)
    state = board.timer(messages.timer_get(2))
    assert (state.state, state.token, state.remaining_ms) == (codes.STATE_EXPIRED, TOKEN, 0)
    assert board.ask(messages.timer_cancel(3, 1)).status == codes.STATUS_TOKEN_MISMATCH
    assert board.timer(messages.timer_cancel(4, TOKEN)).state == codes.STATE_IDLE
    expiry = board.events(1).events
    assert [(event.source, event.token) for event in expiry] == [(codes.SOURCE_RTC_TIMER, TOKEN)]


def test_cancel_by_token_by_force_and_of_nothing() -> None:
    board = TurnedBoard()
    assert board.timer(messages.timer_cancel(1, 7)).state == codes.STATE_IDLE
    board.timer(messages.timer_set(2, TOKEN, 1000))
    assert board.ask(messages.timer_cancel(3, 7)).status == codes.STATUS_TOKEN_MISMATCH
    assert board.timer(messages.timer_get(4)).state == codes.STATE_ARMED
    assert board.timer(messages.timer_cancel(5, 0)).state == codes.STATE_IDLE
    board.turn_to(2000)
    assert board.expiries == 0


def test_restart_is_done_after_its_answer() -> None:
    board = TurnedBoard()
    assert board.ask(messages.restart(1)).ok
    assert board.dispatcher.todo == RESTART


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (request(8), codes.STATUS_UNKNOWN_OP),
        (request(255), codes.STATUS_UNKNOWN_OP),
        (request(codes.OP_HELLO), codes.STATUS_BAD_REQUEST),
        (request(codes.OP_HELLO, "1", 1), codes.STATUS_BAD_REQUEST),
        (request(codes.OP_TIMER_SET, 0, 5), codes.STATUS_OUT_OF_RANGE),
        (request(codes.OP_TIMER_SET, 1 << 32, 5), codes.STATUS_OUT_OF_RANGE),
        (request(codes.OP_TIMER_SET, True, 5), codes.STATUS_BAD_REQUEST),
        (request(codes.OP_TIMER_SET, 5), codes.STATUS_BAD_REQUEST),
        (request(codes.OP_TIMER_CANCEL, None), codes.STATUS_BAD_REQUEST),
        (request(codes.OP_EVENTS_GET, BOOT_ID, -1), codes.STATUS_OUT_OF_RANGE),
        (request(codes.OP_EVENTS_GET), codes.STATUS_BAD_REQUEST),
    ],
)
def test_refusals_are_values(payload: bytes, status: int) -> None:
    board = TurnedBoard()
    answer = board.ask(payload)
    assert (answer.id, answer.status) == (9, status)
    assert board.dispatcher.refusals == 1


def test_later_elements_are_ignored() -> None:
    board = TurnedBoard()
    assert board.ask(request(codes.OP_TIMER_SET, TOKEN, 1000, "later", [1, None])).ok


def test_fault_of_ours_is_an_internal_error() -> None:
    board = TurnedBoard()
    board.dispatcher.identity = ["x" * 300]
    with pytest.raises(CborError):
        board.dispatcher.answer(messages.hello(1))
    del board.dispatcher.log
    assert board.ask(messages.events_get(1, BOOT_ID, 0)).status == codes.STATUS_INTERNAL
    assert board.ask(messages.ping(2)).ok


def hostile_payloads() -> list[bytes]:
    """A13, as `payloads_hex` writes them."""
    cases = json.loads((TESTS / "data/firmware-cases.json").read_text())
    written = next(case for case in cases if case["id"] == "A13")["input"]["payloads_hex"]
    special = {"81 x5000 then 00": b"\x81" * 5000 + b"\0", "9f x4096": b"\x9f" * 4096}
    return [special.get(text) or bytes.fromhex(text) for text in written]


@pytest.mark.parametrize("payload", hostile_payloads(), ids=lambda payload: payload[:4].hex())
def test_a13_hostile_payload_is_counted_and_dropped(payload: bytes) -> None:
    board = TurnedBoard()
    assert board.dispatcher.answer(payload) is None
    assert board.dispatcher.bad_payloads == 1
    assert board.ask(messages.ping(1)).ok


def test_a13_there_are_ten() -> None:
    assert len(hostile_payloads()) == 10


@given(st.binary(max_size=192))
def test_any_bytes_are_answered_or_counted(payload: bytes) -> None:
    check_answer(payload)


@given(st.lists(values, max_size=6))
def test_any_array_is_answered_or_counted(items: list[object]) -> None:
    try:
        check_answer(cbor.encode(items))
    except CborError:
        return  # deeper or longer than the wire allows


@given(st.integers(0, 0xFFFF), st.integers(0, 255), st.lists(values, max_size=3))
def test_any_request_is_answered(request_id: int, op: int, args: list[object]) -> None:
    try:
        payload = cbor.encode([0, request_id, op, *args])
    except CborError:
        return
    answer = check_answer(payload)
    assert answer is not None
    assert answer.id == request_id
    assert answer.status not in (codes.STATUS_INTERNAL, codes.STATUS_BUSY)


def check_answer(payload: bytes) -> messages.Answer | None:
    """What a board says to a payload is an answer exactly when the host's reader sees a request."""
    board = TurnedBoard()
    answer = board.dispatcher.answer(payload)
    try:
        is_request = isinstance(messages.parse(payload), messages.Request)
    except MessageError:
        is_request = False
    assert (answer is not None) == is_request
    assert board.dispatcher.bad_payloads == (not is_request)
    if answer is None:
        return None
    parsed = messages.parse(answer)
    assert isinstance(parsed, messages.Answer)
    return parsed


def test_pushed_event_is_the_newest() -> None:
    board = TurnedBoard()
    board.timer(messages.timer_set(1, TOKEN, 5))
    board.turn_to(5)
    event = messages.parse(board.dispatcher.latest_event())
    assert event == Event(BOOT_ID, 2, codes.SOURCE_RTC_TIMER, 5, TOKEN, 0)
