"""The firmware's pure half under two real MicroPythons, one of them with 32-bit words."""

import json
from typing import Final

import pytest

from micropython_runner import BUILDS, FIRMWARE, PROTOCOL, TESTS, WASM, Build, run
from wakewire import framing, messages

PATH: Final = [FIRMWARE, PROTOCOL]
SEVEN_DAYS_MS: Final = 604_800_000
NAIVE_LIMIT_MS: Final = 536_870_912  # 6.21 days and a millisecond: 2^29 ms

# `ticks` wraps as those of a 32-bit board do; steps are those of the loop.
COUNT_SCRIPT: Final = """
from wakeboard.countdown import Countdown
def count(start, duration_ms, step_ms):
    countdown = Countdown(start)
    countdown.set(1, duration_ms, 0)
    now_ms = 0
    early = 0
    while True:
        now_ms = min(now_ms + step_ms, duration_ms if now_ms < duration_ms - 1 else now_ms + 1)
        if now_ms == duration_ms and not early:
            now_ms -= 1
            early = 1
        expired = countdown.advance((start + now_ms) & 0x3fffffff)
        if expired or now_ms > duration_ms:
            return now_ms, countdown.s, countdown.ms, countdown.left_ms
"""


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
@pytest.mark.parametrize("duration_ms", [NAIVE_LIMIT_MS - 1, NAIVE_LIMIT_MS, SEVEN_DAYS_MS])
@pytest.mark.parametrize("start", [0, 0x3FFFFFFF - 1000])
def test_a09_long_countdowns_end_on_the_millisecond(
    build: Build, duration_ms: int, start: int
) -> None:
    """A09 r1: where a naive `ticks_diff` says that seven days are over already."""
    script = COUNT_SCRIPT + f"print(*count({start}, {duration_ms}, 60000))"
    output = run(build, script, path=PATH).split()
    assert list(map(int, output)) == [duration_ms, duration_ms // 1000, duration_ms % 1000, 0]


def test_the_32_bit_build_has_the_trap() -> None:
    script = f"import time\nprint(time.ticks_diff({SEVEN_DAYS_MS}, 0))"
    assert int(run(WASM, script)) == -468_941_824


def test_counting_allocates_nothing_on_32_bits() -> None:
    script = f"""
import gc
from wakeboard.countdown import Countdown
countdown = Countdown(0x3ffffff0)
countdown.set(0x3fffffff, {SEVEN_DAYS_MS}, 0)
def run():
    before = gc.mem_alloc()
    at = 0x3ffffff0
    for _ in range(1000):
        at = at + 5000 if at < 0x3fffec78 else at - 0x3fffec78  # modulo 2^30, in small ints
        countdown.advance(at)
    return gc.mem_alloc() - before
print(run(), countdown.left_ms)
"""
    assert run(WASM, script, path=PATH).split() == ["0", str(SEVEN_DAYS_MS - 5_000_000)]


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
def test_a13_hostile_payloads_through_the_real_framing(build: Build) -> None:
    """Each is counted once and dropped, the frame after it is answered, within 100 ms."""
    cases = json.loads((TESTS / "data/firmware-cases.json").read_text())
    written = next(case for case in cases if case["id"] == "A13")["input"]["payloads_hex"]
    special = {"81 x5000 then 00": b"\x81" * 5000 + b"\0", "9f x4096": b"\x9f" * 4096}
    payloads = [special.get(text) or bytes.fromhex(text) for text in written]
    frames = [frame_of_any_length(payload) for payload in payloads]
    valid = framing.encode(messages.ping(1))
    script = f"""
import gc, time
from wakewire.framing import Decoder
from wakeboard.dispatcher import Dispatcher
decoder = Decoder()
board = Dispatcher(b"bootboot", [], 0)
valid = {valid!r}
def take(data):
    answers = []
    for byte in data:
        payload = decoder.push(byte)
        if payload is not None:
            answers.append(board.answer(payload))
    return answers
def faults():
    return decoder.crc_errors + decoder.overlong + decoder.malformed + board.bad_payloads
for at in range({len(frames)}):
    frame = open("frame%d" % at, "rb").read()
    before = faults()
    began = time.ticks_ms()
    hostile = take(frame)
    took = time.ticks_diff(time.ticks_ms(), began)
    counted = faults() - before
    print(counted, hostile in ([], [None]), took <= 100, take(valid)[-1])
"""
    files = {f"frame{at}": frame for at, frame in enumerate(frames)}
    lines = run(build, script, path=PATH, files=files, heap_bytes=64 * 1024).splitlines()
    assert lines == [r"1 True True b'\x84\x01\x01\x00\x00'"] * 10


def frame_of_any_length(payload: bytes) -> bytes:
    """Frame a payload that `framing.encode` would refuse for its length."""
    if len(payload) <= 192:
        return framing.encode(payload)
    body = payload + bytes(4)
    escaped = b"".join(
        bytes((0x7D, byte ^ 0x20)) if byte < 0x20 or 0x7D <= byte <= 0x7F else bytes((byte,))
        for byte in body
    )
    return b"~" + escaped + b"~"


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
def test_checkpoint_and_events_are_the_same_bytes_as_under_cpython(build: Build) -> None:
    script = """
from wakeboard.countdown import Countdown
from wakeboard.event_log import EventLog
from wakeboard.backup import restore
countdown = Countdown(0x3fffffff)
countdown.set(0xdeadbeef, 604800000, 0)
record = countdown.checkpoint()
print(record)
again = Countdown(0x3fffffff)
restore(again, record)
print(again.token, again.left_ms, again.flags, again.armed)
log = EventLog()
log.append(4, 0xffffffff, 999, 0xffffffff, 1)
print(log.read(1))
"""
    output = run(build, script, path=PATH)
    expected: list[str] = []
    exec(script.replace("print(", "expected.append("), {"expected": _Lines(expected)})
    assert output.splitlines() == expected


class _Lines:
    """Collects what a script would print."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def append(self, *values: object) -> None:
        self._lines.append(" ".join(map(str, values)))
