"""Case A13: CBOR made to exhaust its reader, through the real framing, host side and board side."""

import json
import re
import time
import tracemalloc
from pathlib import Path
from typing import Any, Final

import cbor2
import pytest

from micropython_runner import BUILDS, PROTOCOL, Build, run
from reference_wire import frame
from wakewire import cbor, framing, messages
from wakewire.errors import CborError, MessageError
from wakewire.stream import StreamDecoder

CASE: Final[dict[str, Any]] = next(
    case
    for case in json.loads((Path(__file__).parents[1] / "data/wire-cases.json").read_text())
    if case["id"] == "A13"
)
BOUNDS: Final = CASE["expected"]
VALID: Final = bytes.fromhex(CASE["input"]["then_valid_hex"])


def payload_of(written: str) -> bytes:
    """The bytes of ``81 x5000 then 00``: a piece, how often, and what follows."""
    match = re.fullmatch(r"([0-9a-f]+)(?: x(\d+))?(?: then ([0-9a-f]+))?", written)
    assert match is not None
    piece, times, tail = match.groups(default="")
    return bytes.fromhex(piece) * int(times or 1) + bytes.fromhex(tail)


PAYLOADS: Final = {written: payload_of(written) for written in CASE["input"]["payloads_hex"]}

over_payloads = pytest.mark.parametrize("written", PAYLOADS)


def test_the_case_has_ten_payloads() -> None:
    assert len(PAYLOADS) == 10
    assert len(PAYLOADS["81 x5000 then 00"]) == 5001


@over_payloads
def test_decoder_refuses_at_once_and_in_little_memory(written: str) -> None:
    tracemalloc.start()
    start = time.perf_counter()
    with pytest.raises(CborError):
        cbor.decode(PAYLOADS[written])
    elapsed_ms = (time.perf_counter() - start) * 1000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert elapsed_ms < BOUNDS["max_time_ms_each"]
    assert peak < 64 * 1024  # the case allows 8 MiB


@over_payloads
def test_host_counts_or_refuses_it_and_takes_the_frame_after_it(written: str) -> None:
    decoder = StreamDecoder()
    found = decoder.feed(frame(PAYLOADS[written]) + framing.encode(VALID))
    *hostile, valid = found
    for payload in hostile:
        with pytest.raises(MessageError):
            messages.parse(payload)
    assert len(hostile) + decoder.overlong == 1
    assert cbor2.loads(valid) == {"id": 1}


# Pushes each stream through the board's decoder and tells what came of every payload.
BOARD_SCRIPT = """
import json, time
from wakewire import cbor, framing
from wakewire.errors import CborError
with open("streams.json") as file:
    streams = json.load(file)
decoder = framing.Decoder()
refused = 0
slowest_ms = 0
for stream in streams:
    found = []
    for byte in bytes.fromhex(stream):
        start = time.ticks_ms()
        payload = decoder.push(byte)
        if payload:
            found.append(bytes(payload))
            try:
                cbor.decode(payload)
            except CborError:
                refused += 1
        slowest_ms = max(slowest_ms, time.ticks_diff(time.ticks_ms(), start))
    print(found[-1].hex())
print(decoder.frames, decoder.overlong, refused, slowest_ms)
"""


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
def test_board_counts_or_refuses_it_and_takes_the_frame_after_it(build: Build) -> None:
    streams = [(frame(payload) + frame(VALID)).hex() for payload in PAYLOADS.values()]
    output = run(
        build,
        BOARD_SCRIPT,
        path=[PROTOCOL],
        files={"streams.json": json.dumps(streams).encode()},
        heap_bytes=96 * 1024,
    )
    *valid, summary = output.splitlines()
    assert valid == [VALID.hex()] * 10
    frames, overlong, refused, slowest_ms = map(int, summary.split())
    # Eight payloads fit a frame and are refused; every map after them is outside the subset.
    assert (frames, overlong, refused) == (8 + 10, 2, 8 + 10)
    assert slowest_ms < BOUNDS["max_time_ms_each"]
