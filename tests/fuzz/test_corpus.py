"""Every input that a fuzzer found worth keeping, again; the wire's also on real MicroPython."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fuzz import http_target
from fuzz.targets import TARGETS, corpus_of, target
from micropython_runner import BUILDS, PROTOCOL, Build, run
from reference_wire import Refused, decode, payloads
from wakewire import framing

RUN_TARGET = Path(__file__).with_name("run_target.py")


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_shows_no_fault(name: str) -> None:
    check = target(name)
    inputs = corpus_of(name)
    assert inputs
    try:
        for path in inputs:
            check(path.read_bytes())
    finally:
        http_target.stop()


def fuzz_briefly(name: str, directory: Path) -> str:
    """Run a fuzzer for a second; return what it complains about."""
    directory.mkdir()
    options = ("-max_total_time=1", "-timeout=10", "-rss_limit_mb=1024", "-verbosity=0")
    corpora = (str(directory), str(corpus_of(name)[0].parent))
    command = (sys.executable, str(RUN_TARGET), name, *options, *corpora)
    ended = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, errors="replace", timeout=90
    )
    return f"{name}: {ended.stderr[-3000:]}" if ended.returncode else ""


@pytest.mark.timeout(300)
def test_fuzzers_find_no_fault_in_a_second_each(tmp_path: Path) -> None:
    """Coverage-guided, from the corpus on; `make fuzz SECONDS=n` runs longer."""
    with ThreadPoolExecutor(2) as pool:
        complaints = pool.map(lambda name: fuzz_briefly(name, tmp_path / name), TARGETS)
    assert [each for each in complaints if each] == []


# Pushes each stream through the board's decoder and says what it found and counted; then reads each
# payload and says what it encodes to again, or that it is refused.
BOARD_SCRIPT = """
import json
from wakewire import cbor, framing
from wakewire.errors import CborError
with open("corpora.json") as file:
    streams, payloads = json.load(file)
for stream in streams:
    decoder = framing.Decoder()
    found = []
    for byte in bytes.fromhex(stream):
        view = decoder.push(byte)
        if view is not None:
            found.append(bytes(view).hex())
    counts = [decoder.frames, decoder.crc_errors, decoder.overlong, decoder.malformed]
    print(json.dumps([found, counts]))
for payload in payloads:
    try:
        print(cbor.encode(cbor.decode(bytes.fromhex(payload))).hex() or "-")
    except CborError:
        print("refused")
"""


def verdict_on_stream(stream: bytes) -> str:
    decoder = framing.Decoder()
    for byte in stream:
        decoder.push(byte)
    counts = [decoder.frames, decoder.crc_errors, decoder.overlong, decoder.malformed]
    return json.dumps([[each.hex() for each in payloads(stream)], counts])


def verdict_on_payload(payload: bytes) -> str:
    try:
        decode(payload)
    except Refused:
        return "refused"
    return payload.hex()


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
def test_the_real_board_gives_the_same_verdicts(build: Build) -> None:
    streams = [path.read_bytes()[1:] for path in corpus_of("frames")]
    encoded = [path.read_bytes() for name in ("cbor", "message") for path in corpus_of(name)]
    corpora = [[each.hex() for each in streams], [each.hex() for each in encoded]]
    output = run(
        build,
        BOARD_SCRIPT,
        path=[PROTOCOL],
        files={"corpora.json": json.dumps(corpora).encode()},
        heap_bytes=8 << 20,
    )
    expected = [verdict_on_stream(each) for each in streams]
    expected += [verdict_on_payload(each) for each in encoded]
    assert output.splitlines() == expected
