"""wakewire.cbor against cbor2: the same bytes for every value, the same verdict on every bytes.

Both run under CPython thousands of times; then samples of both kinds run under real MicroPython.
"""

import json
import random

import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from micropython_runner import BUILDS, PROTOCOL, Build, run
from reference_wire import DEPTH_MAX, PAYLOAD_MAX, Refused, decode, encode
from wakewire import cbor
from wakewire.errors import CborError
from wire_strategies import MESSAGES, VALUES


def depth_of(value: object) -> int:
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


def verdict(payload: bytes) -> str:
    """What wakewire makes of a payload; repr tells true from 1."""
    try:
        return repr(cbor.decode(payload))
    except CborError:
        return "refused"


def reference_verdict(payload: bytes) -> str:
    try:
        return repr(decode(payload))
    except Refused:
        return "refused"


@settings(max_examples=1500, deadline=None)
@given(VALUES)
def test_every_value_has_the_bytes_of_cbor2(value: object) -> None:
    expected = encode(value)
    if len(expected) > PAYLOAD_MAX or depth_of(value) > DEPTH_MAX:
        with pytest.raises(CborError):
            cbor.encode(value)
    else:
        assert cbor.encode(value) == expected
        assert verdict(expected) == repr(value)


@settings(max_examples=2000, deadline=None)
@given(MESSAGES)
def test_every_message_has_the_bytes_of_cbor2(message: list[object]) -> None:
    expected = encode(message)
    if len(expected) <= PAYLOAD_MAX:
        assert cbor.encode(message) == expected
        assert cbor.decode(memoryview(expected)) == cbor2.loads(expected) == message


@settings(max_examples=3000, deadline=None)
@given(st.binary(max_size=PAYLOAD_MAX + 3))
def test_every_bytes_get_the_verdict_of_cbor2(payload: bytes) -> None:
    assert verdict(payload) == reference_verdict(payload)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """An encoding with bytes replaced, dropped or put in: nearly right is where readers differ."""
    payload = bytearray(encode(draw(VALUES | MESSAGES))[: PAYLOAD_MAX + 2])
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(payload)))
        payload[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return bytes(payload)


@settings(max_examples=3000, deadline=None)
@given(damaged())
def test_damaged_bytes_get_the_verdict_of_cbor2(payload: bytes) -> None:
    assert verdict(payload) == reference_verdict(payload)


@pytest.mark.parametrize("value", [1.5, {}, {1: 2}, {1}, object(), 2**64, -(2**64) - 1, "\ud800"])
def test_values_outside_the_subset_are_refused(value: object) -> None:
    with pytest.raises(CborError):
        cbor.encode(value)
    with pytest.raises(CborError):
        cbor.encode([value])


@pytest.mark.parametrize("value", [bytearray(b"ab"), memoryview(b"ab"), (1, (2,))])
def test_what_a_board_has_at_hand_is_encoded(value: object) -> None:
    plain = [1, [2]] if isinstance(value, tuple) else b"ab"
    assert cbor.encode(value) == encode(plain)


# Reads one payload per line and answers with what it encodes to again, or that it is refused.
BOARD_SCRIPT = """
import json
from wakewire import cbor
from wakewire.errors import CborError
with open("payloads.json") as file:
    payloads = json.load(file)
for payload in payloads:
    try:
        print(cbor.encode(cbor.decode(bytes.fromhex(payload))).hex())
    except CborError:
        print("refused")
"""


def some_value(chance: random.Random, depth: int = 0) -> object:
    """A value of the subset, or a little deeper than it."""
    kind = chance.randrange(7 if depth < DEPTH_MAX + 1 else 6)
    if kind == 6:
        return [some_value(chance, depth + 1) for _ in range(chance.randrange(8))]
    number = chance.getrandbits(chance.choice((4, 5, 8, 9, 16, 17, 30, 31, 32, 33, 63, 64)))
    text = "".join(chr(chance.choice((65, 233, 0x20AC, 0x1F989))) for _ in range(number % 9))
    return (None, True, number, -1 - number, chance.randbytes(number % 30), text)[kind]


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
def test_the_board_gives_the_verdict_of_cbor2(build: Build) -> None:
    chance = random.Random(20)
    payloads = []
    for _ in range(3000):
        payload = bytearray(encode([some_value(chance) for _ in range(chance.randrange(6))]))
        if chance.random() < 0.5:
            payload[chance.randrange(len(payload))] = chance.getrandbits(8)
        payloads.append(bytes(payload))
    verdicts = [reference_verdict(payload) for payload in payloads]
    expected = [
        "refused" if said == "refused" else payload.hex()
        for said, payload in zip(verdicts, payloads, strict=True)
    ]
    assert 500 < expected.count("refused") < 2500
    written = json.dumps([payload.hex() for payload in payloads]).encode()
    output = run(build, BOARD_SCRIPT, path=[PROTOCOL], files={"payloads.json": written})
    assert output.split() == expected
