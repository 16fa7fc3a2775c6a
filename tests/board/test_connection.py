"""The sans-IO connection: one request at a time, repeated, bounded, never confused."""

import binascii
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebridge.board.connection import (
    ATTEMPT_TIMEOUTS_NS,
    HINTS_MAX,
    QUEUE_MAX,
    Answered,
    Connection,
    ConnectionEvent,
    Console,
    Evidence,
    Hint,
    PromptSeen,
    Refusal,
    TimedOut,
)
from wakebridge.board.errors import LinkOverloaded
from wakebridge.board.operations import Done, Pong
from wakewire import codes, framing, messages
from wakewire.errors import MessageError
from wakewire.messages import Answer, Event, TimerState

MS = 1_000_000
BOOT = b"bootboot"


def pong(request_id: int, uptime_ms: int = 1234) -> bytes:
    return framing.encode(Answer(request_id, codes.STATUS_OK, [uptime_ms]).encode())


def timer(request_id: int, remaining_ms: int = 5) -> bytes:
    state = TimerState(BOOT, codes.STATE_ARMED, 7, remaining_ms, 10, 0, 99)
    return framing.encode(Answer(request_id, codes.STATUS_OK, state.fields()).encode())


def pushed(seq: int, boot_id: bytes = BOOT) -> bytes:
    return framing.encode(Event(boot_id, seq, codes.SOURCE_RTC_TIMER, 99, 7, 0).encode())


def events_of(connection: Connection) -> list[ConnectionEvent]:
    events = []
    while (event := connection.next_event()) is not None:
        events.append(event)
    return events


def test_a_request_is_sent_answered_and_told() -> None:
    connection = Connection(first_id=40)
    handle = connection.request(codes.OP_PING)
    assert connection.data_to_send(1 * MS) == framing.encode(messages.ping(40))
    assert connection.data_to_send(2 * MS) == b""
    connection.receive(pong(40), 9 * MS)
    assert events_of(connection) == [Answered(handle, Pong(1234), 1 * MS, 9 * MS)]
    assert connection.next_deadline() is None
    assert connection.idle


def test_the_next_request_waits_for_the_answer_of_the_last() -> None:
    connection = Connection()
    first, second = connection.request(codes.OP_PING), connection.request(codes.OP_TIMER_GET)
    assert connection.data_to_send(0) == framing.encode(messages.ping(0))
    assert connection.data_to_send(1) == b""
    connection.receive(pong(0), 2)
    assert connection.data_to_send(3) == framing.encode(messages.timer_get(1))
    connection.receive(timer(1), 4)
    assert [event.handle for event in events_of(connection) if isinstance(event, Answered)] == [
        first,
        second,
    ]


def test_a_refusal_is_a_value() -> None:
    connection = Connection()
    handle = connection.request(codes.OP_TIMER_CANCEL, 7)
    connection.data_to_send(0)
    refusal = Answer(0, codes.STATUS_TOKEN_MISMATCH, ["another token"])
    connection.receive(framing.encode(refusal.encode()), 1)
    value = Refusal(codes.STATUS_TOKEN_MISMATCH, "another token")
    assert events_of(connection) == [Answered(handle, value, 0, 1)]


def test_silence_repeats_the_same_frame_and_then_gives_up() -> None:
    connection = Connection()
    handle = connection.request(codes.OP_TIMER_SET, 7, 1000)
    now_ns = 0
    frame = connection.data_to_send(now_ns)
    for timeout_ns in ATTEMPT_TIMEOUTS_NS[:-1]:
        assert connection.next_deadline() == now_ns + timeout_ns
        now_ns += timeout_ns
        connection.handle_timeout(now_ns - 1)
        assert connection.data_to_send(now_ns - 1) == b""
        connection.handle_timeout(now_ns)
        assert connection.data_to_send(now_ns) == frame
    connection.handle_timeout(now_ns + ATTEMPT_TIMEOUTS_NS[-1])
    assert events_of(connection) == [TimedOut(handle, codes.OP_TIMER_SET, len(ATTEMPT_TIMEOUTS_NS))]
    assert connection.idle


def test_r9_a_countdown_is_not_set_again_by_a_host_that_slept_over_its_request() -> None:
    """Its length was right before; and somebody else may have set one in the meantime."""
    connection = Connection()
    handle = connection.request(codes.OP_TIMER_SET, 7, 60_000)
    assert connection.data_to_send(0)
    connection.handle_timeout(60_000 * MS)
    assert connection.data_to_send(60_000 * MS) == b""
    assert events_of(connection) == [TimedOut(handle, codes.OP_TIMER_SET, 1)]

    connection.request(codes.OP_TIMER_GET)
    assert connection.data_to_send(60_000 * MS)
    connection.handle_timeout(120_000 * MS)
    assert connection.data_to_send(120_000 * MS), "what is only read is asked for again"


def test_a_restart_is_asked_for_once_only() -> None:
    connection = Connection()
    handle = connection.request(codes.OP_RESTART)
    connection.data_to_send(0)
    connection.handle_timeout(ATTEMPT_TIMEOUTS_NS[0])
    assert events_of(connection) == [TimedOut(handle, codes.OP_RESTART, 1)]
    connection.request(codes.OP_RESTART)
    connection.data_to_send(0)
    connection.receive(framing.encode(Answer(1, codes.STATUS_OK, []).encode()), 1)
    assert events_of(connection)[0] == Answered(1, Done(), 0, 1)


def test_an_answer_to_a_repeated_request_is_dated_from_the_first_sending() -> None:
    """It may answer either, so the reading is as old as the older one."""
    connection = Connection()
    connection.request(codes.OP_PING)
    connection.data_to_send(5)
    connection.handle_timeout(5 + ATTEMPT_TIMEOUTS_NS[0])
    connection.data_to_send(5 + ATTEMPT_TIMEOUTS_NS[0])
    connection.receive(pong(0) * 2, 10**9)
    assert events_of(connection) == [Answered(0, Pong(1234), 5, 10**9)]
    assert connection.counters().unknown_answers == 1


@pytest.mark.parametrize("request_id", [1, 65535])
def test_an_answer_to_no_request_of_this_session_is_counted_and_dropped(request_id: int) -> None:
    connection = Connection()
    connection.receive(pong(0), 0)
    connection.request(codes.OP_PING)
    connection.receive(pong(0), 0)  # queued, not sent yet: nothing to answer
    connection.data_to_send(0)
    connection.receive(pong(request_id), 1)
    assert events_of(connection) == []
    assert connection.counters().unknown_answers == 3


@pytest.mark.parametrize("fields", [[], ["text"], [-1], [True], [1 << 60]])
def test_an_answer_that_is_none_is_counted_and_the_request_goes_on(fields: list[object]) -> None:
    connection = Connection()
    connection.request(codes.OP_PING)
    connection.data_to_send(0)
    connection.receive(framing.encode(Answer(0, 0, fields).encode()), 1)
    assert events_of(connection) == []
    assert connection.counters().bad_answers == 1
    connection.receive(pong(0), 2)
    assert events_of(connection) == [Answered(0, Pong(1234), 0, 2)]


def test_ids_wrap_and_stay_in_range() -> None:
    connection = Connection(first_id=0xFFFF)
    for request_id in (0xFFFF, 0, 1):
        connection.request(codes.OP_PING)
        assert connection.data_to_send(0) == framing.encode(messages.ping(request_id))
        connection.receive(pong(request_id), 0)


def test_the_queue_is_bounded() -> None:
    connection = Connection()
    for _ in range(QUEUE_MAX):
        connection.request(codes.OP_PING)
    with pytest.raises(LinkOverloaded):
        connection.request(codes.OP_PING)


def test_arguments_that_the_wire_does_not_take_are_the_callers_mistake() -> None:
    connection = Connection()
    with pytest.raises(MessageError):
        connection.request(codes.OP_TIMER_SET, 7, 604_800_001)
    connection.request(codes.OP_PING)
    assert connection.data_to_send(0) == framing.encode(messages.ping(0))


def test_hints_are_told_once_and_kept_in_bounds() -> None:
    connection = Connection()
    connection.receive(pushed(1) + pushed(2) + pushed(1) + pushed(1, b"another!"), 0)
    hints = [event.event for event in events_of(connection) if isinstance(event, Hint)]
    assert [(hint.boot_id, hint.seq) for hint in hints] == [
        (BOOT, 1),
        (BOOT, 2),
        (b"another!", 1),
    ]
    connection.receive(b"".join(pushed(seq) for seq in range(10, 10 + 3 * HINTS_MAX)), 0)
    assert len(events_of(connection)) == HINTS_MAX
    assert connection.counters().repeated_hints == 1
    assert connection.counters().dropped_hints == 2 * HINTS_MAX


def test_console_text_is_told_and_bounded() -> None:
    connection = Connection()
    connection.receive(b"starting\r\n" + pushed(1), 0)
    assert Console(b"starting\r\n") in events_of(connection)
    for _ in range(100):
        connection.receive(b"x" * 1_000 + pushed(1), 0)
    (told,) = events_of(connection)
    assert isinstance(told, Console)
    assert len(told.text) <= 4_096


def friendly_echo(frame: bytes) -> bytes:
    """Return what MicroPython's line editor sends back for a frame that is typed at it."""
    return bytes(byte for byte in frame if 32 <= byte < 127)


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_the_echo_of_our_own_request_betrays_a_prompt(step: int) -> None:
    connection = Connection()
    connection.request(codes.OP_TIMER_SET, 0x51AB1234, 600_000)
    echo = friendly_echo(connection.data_to_send(0))
    for start in range(0, len(echo), step):
        connection.receive(echo[start : start + step], 1)
    assert PromptSeen(Evidence.ECHO) in events_of(connection)


def test_a_whole_request_that_comes_back_is_an_echo_too() -> None:
    connection = Connection()
    connection.request(codes.OP_PING)
    connection.receive(connection.data_to_send(0), 1)
    assert PromptSeen(Evidence.ECHO) in events_of(connection)
    assert connection.counters().echoes >= 1


@pytest.mark.parametrize("text", [b"\r\n>>> ", b"\r\nraw REPL; CTRL-B to exit\r\n>"])
@pytest.mark.parametrize("step", [1, 1000])
def test_a_prompt_in_the_console_is_told_once_until_it_is_forgotten(text: bytes, step: int) -> None:
    connection = Connection()
    for _ in range(3):
        for start in range(0, len(text), step):
            connection.receive(text[start : start + step], 0)
    seen = [event for event in events_of(connection) if isinstance(event, PromptSeen)]
    assert seen == [PromptSeen(Evidence.PROMPT)]
    connection.forget_prompt()
    connection.receive(text, 0)
    assert PromptSeen(Evidence.PROMPT) in events_of(connection)


def test_a_prompt_inside_a_frame_is_no_prompt() -> None:
    connection = Connection()
    refusal = Answer(9, codes.STATUS_BUSY, [">>> "])
    connection.receive(framing.encode(refusal.encode()), 0)
    assert events_of(connection) == []


def test_keys_go_out_before_the_next_frame() -> None:
    connection = Connection()
    connection.request(codes.OP_PING)
    connection.type_at_prompt(b"\r\x02")
    assert connection.data_to_send(0) == b"\r\x02" + framing.encode(messages.ping(0))


CASE = json.loads((Path(__file__).parents[1] / "data" / "board-cases.json").read_text())["A13"]


def hostile_payloads() -> list[bytes]:
    payloads = []
    for text in CASE["input"]["payloads_hex"]:
        if " x5000 then 00" in text:
            payloads.append(b"\x81" * 5000 + b"\x00")
        elif " x4096" in text:
            payloads.append(b"\x9f" * 4096)
        else:
            payloads.append(bytes.fromhex(text))
    return payloads


def raw_frame(payload: bytes) -> bytes:
    """Frame a payload of any length: the possessed end does not keep to the limit."""
    body = payload + binascii.crc32(payload).to_bytes(4, "little")
    escaped = b"".join(
        bytes((0x7D, byte ^ 0x20)) if byte < 0x20 or 0x7D <= byte <= 0x7F else bytes((byte,))
        for byte in body
    )
    return b"\x7e" + escaped + b"\x7e"


@pytest.mark.parametrize("payload", hostile_payloads(), ids=lambda payload: payload[:4].hex())
def test_hostile_payloads_are_counted_and_the_link_lives(payload: bytes) -> None:
    """A13, towards the host."""
    connection = Connection()
    connection.request(codes.OP_PING)
    connection.data_to_send(0)
    connection.receive(raw_frame(payload), 1)
    counters = connection.counters()
    assert counters.bad_messages + counters.overlong == 1
    assert not [event for event in events_of(connection) if isinstance(event, Answered)]
    connection.receive(pong(0), 2)
    assert Answered(0, Pong(1234), 0, 2) in events_of(connection)


frames = st.one_of(
    st.binary(max_size=64),
    st.binary(min_size=1, max_size=64).map(framing.encode),
    st.integers(0, 70_000).map(lambda seq: pushed(seq % 2**32 or 1)),
    st.sampled_from([pong(0), timer(0), timer(1), pong(1), b">>> ", b"\x7e", b"\x7d"]),
    st.builds(lambda byte, count: bytes((byte,)) * count, st.integers(0, 255), st.just(5_000)),
)


@given(chunks=st.lists(frames, max_size=40), times=st.lists(st.integers(0, 10**10), max_size=40))
def test_a_possessed_board_cannot_crash_stall_or_grow_it(
    chunks: list[bytes], times: list[int]
) -> None:
    """A13: after any amount of nonsense the next exchange works, and little is kept."""
    connection = Connection()
    connection.request(codes.OP_TIMER_GET)
    now_ns = 0
    for index, chunk in enumerate(chunks):
        now_ns += times[index % len(times)] if times else 1
        connection.handle_timeout(now_ns)
        connection.data_to_send(now_ns)
        connection.receive(chunk, now_ns)
    events_of(connection)
    while not connection.idle:
        connection.data_to_send(now_ns)
        deadline_ns = connection.next_deadline()
        assert deadline_ns is not None
        now_ns = max(now_ns, deadline_ns)
        connection.handle_timeout(now_ns)
    events_of(connection)
    connection.receive(b"\x7e", now_ns)
    handle = connection.request(codes.OP_PING)
    connection.data_to_send(now_ns)
    connection.receive(pong(handle), now_ns)
    assert Answered(handle, Pong(1234), now_ns, now_ns) in events_of(connection)
