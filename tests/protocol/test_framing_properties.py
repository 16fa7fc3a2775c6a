"""Frames among noise, in any chunks, on a host and on a board."""

import random
import sys
import tracemalloc
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reference_wire import console, frame, payloads
from wakewire.errors import FrameError
from wakewire.framing import Decoder, encode
from wakewire.host_limits import CONSOLE_MAX
from wakewire.limits import PAYLOAD_MAX
from wakewire.stream import StreamDecoder

PAYLOADS = st.binary(min_size=1, max_size=PAYLOAD_MAX)

# Dense in what matters: flags, escapes, escaped flags and escapes, bytes that are passed over.
NOISE = st.binary(max_size=60) | st.lists(
    st.sampled_from(b"~~}}\x5e\x5d\x00\r\n\x7fA\xff"), max_size=40
).map(bytes)

MEGABYTE = 1 << 20
FLOODS = {
    "random": random.Random(1).randbytes(MEGABYTE),
    "text": b"all work and no play " * (MEGABYTE // 21),
    "an open frame": b"~" + b"a" * MEGABYTE,
    "an open frame of control bytes": b"~" + b"\n" * MEGABYTE,
    "an open frame of escapes": b"~" + b"}" * MEGABYTE,
    "an open frame of escaped bytes": b"~" + b"}!" * (MEGABYTE // 2),
}


def pushed(decoder: Decoder, stream: bytes) -> list[bytes]:
    return [bytes(view) for byte in stream if (view := decoder.push(byte)) is not None]


def counts(decoder: Decoder) -> tuple[int, int, int, int]:
    return decoder.frames, decoder.crc_errors, decoder.overlong, decoder.malformed


@st.composite
def damaged_frames(draw: st.DrawFn) -> bytes:
    """A frame with bytes lost, changed or put in, flags among them."""
    wire = bytearray(frame(draw(PAYLOADS)))
    at = draw(st.integers(0, len(wire) - 1))
    wire[at : at + draw(st.integers(0, 2))] = draw(NOISE)[:2]
    return bytes(wire)


@st.composite
def chunked(draw: st.DrawFn) -> list[bytes]:
    """A stream of frames and noise, cut anywhere."""
    parts = draw(st.lists(st.one_of(PAYLOADS.map(frame), damaged_frames(), NOISE), max_size=8))
    stream = b"".join(parts)
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    edges = [0, *cuts, len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


@settings(max_examples=1000, deadline=None)
@given(PAYLOADS)
def test_frame_is_that_of_the_standard_and_safe_on_a_console(payload: bytes) -> None:
    wire = encode(payload)
    assert wire == frame(payload)
    assert not set(wire[1:-1]) & {*range(0x20), 0x7E, 0x7F}
    assert len(wire) <= 2 * (PAYLOAD_MAX + 4) + 2


@pytest.mark.parametrize("size", [0, PAYLOAD_MAX + 1])
def test_payload_of_a_wrong_size_is_not_framed(size: int) -> None:
    with pytest.raises(FrameError):
        encode(bytes(size))


@settings(max_examples=1500, deadline=None)
@given(chunked())
@example([b"~a}", b"~", b"}", b"}~"])
def test_chunks_and_single_bytes_find_the_frames_of_the_rule(chunks: list[bytes]) -> None:
    stream = b"".join(chunks)
    host, board = StreamDecoder(), Decoder()
    found = [payload for chunk in chunks for payload in host.feed(chunk)]
    assert found == pushed(board, stream) == payloads(stream)
    assert counts(host) == counts(board)


@settings(max_examples=1500, deadline=None)
@given(chunked(), st.integers(1, 6))
def test_chunks_and_single_bytes_agree_when_most_is_overlong(
    chunks: list[bytes], payload_max: int
) -> None:
    stream = b"".join(chunks)
    host, board = StreamDecoder(payload_max), Decoder(payload_max)
    found = [payload for chunk in chunks for payload in host.feed(chunk)]
    assert found == pushed(board, stream) == payloads(stream, payload_max)
    assert counts(host) == counts(board)


@settings(max_examples=1000, deadline=None)
@given(NOISE, PAYLOADS, NOISE, PAYLOADS, NOISE)
def test_no_noise_hides_a_frame(
    before: bytes, one: bytes, between: bytes, two: bytes, after: bytes
) -> None:
    stream = before + encode(one) + between + encode(two) + after
    assert StreamDecoder().feed(stream) == [one, two]
    assert pushed(Decoder(), stream) == [one, two]


@settings(max_examples=1000, deadline=None)
@given(chunked())
def test_console_text_does_not_depend_on_the_chunks(chunks: list[bytes]) -> None:
    """What is no frame and no flag is console text, whole and in order."""
    stream = b"".join(chunks)
    host, whole = StreamDecoder(), StreamDecoder()
    for chunk in chunks:
        host.feed(chunk)
    whole.feed(stream)
    text = host.take_console()
    assert text == whole.take_console()
    settled, last = console(stream)
    assert text in (settled, settled + last)


def test_console_text_is_there_at_once() -> None:
    """A dead board's prompt ends in no flag: nothing after it would ever release it."""
    host = StreamDecoder()
    host.feed(encode(b"last words") + b"Traceback\r\n>>> ")
    assert host.take_console() == b"Traceback\r\n>>> "
    host.feed(b"~half a frame, then the board is interrupted\r\n>>> ")
    assert host.take_console() == b""
    host.feed(b"~")  # the echo of the next request
    assert host.take_console() == b"half a frame, then the board is interrupted\r\n>>> "


@pytest.mark.parametrize("name", FLOODS)
def test_a_megabyte_of_noise_costs_no_memory_and_hides_nothing(name: str) -> None:
    host = StreamDecoder()
    flood = FLOODS[name]
    tracemalloc.start()
    for start in range(0, len(flood), 4096):
        host.feed(flood[start : start + 4096])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 1024
    assert len(host.take_console()) <= CONSOLE_MAX
    assert host.feed(encode(b"next")) == [b"next"]
    board = Decoder()
    assert pushed(board, flood[: 1 << 16] + encode(b"next"))[-1] == b"next"


def lines_of_python(host: StreamDecoder, chunk: bytes) -> int:
    """How many lines of Python a chunk takes."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        host.feed(chunk)
    finally:
        sys.settrace(before)
    return lines


def test_the_host_does_not_go_through_bytes_in_python() -> None:
    assert lines_of_python(StreamDecoder(), FLOODS["text"]) < 50


def test_before_the_first_flag_there_is_no_frame() -> None:
    tail = encode(b"whole")[1:]
    host, board = StreamDecoder(), Decoder()
    assert host.feed(tail) == pushed(board, tail) == []
    assert counts(host) == counts(board) == (0, 0, 0, 0)


def test_a_view_is_of_the_payload_alone() -> None:
    board = Decoder()
    assert pushed(board, encode(b"a long payload") + encode(b"short")) == [
        b"a long payload",
        b"short",
    ]
