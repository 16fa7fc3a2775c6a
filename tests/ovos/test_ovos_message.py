"""Reading what participants write, and writing what a bus carries."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebridge.ovosbus.message import (
    FRAME_MAX_BYTES,
    Message,
    NotEncodable,
    decode,
    encode,
    peek_type,
)


def test_a_frame_without_data_and_context_has_empty_ones() -> None:
    assert decode('{"type": "a"}') == Message("a", {}, {})
    assert decode('{"type": "a", "data": null, "context": null}') == Message("a", {}, {})


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1]", '"a"', "null", "{}", '{"type": 1}', '{"type": null}', '{"data": {}}', "\x00"],
)
def test_what_is_no_message_is_none(text: str) -> None:
    assert decode(text) is None


def test_e20_a_request_that_is_hardly_json_is_still_a_request() -> None:
    nan = decode('{"type": "a", "data": {"n": NaN, "i": -Infinity}, "context": {"skill_id": "s"}}')
    assert nan is not None
    assert math.isnan(nan.data["n"])
    assert nan.context == {"skill_id": "s"}
    digits = decode('{"type": "a", "data": {"n": %s}}' % ("9" * 5000))
    assert digits == Message("a", {"n": math.inf}, {})
    half = decode('{"type": "a", "data": {"id": "\\ud800"}}')
    assert half == Message("a", {"id": "\ud800"}, {})


def test_e20_what_is_nested_too_deeply_comes_with_data_that_is_refused() -> None:
    deep = '{"type": "a", "data": ' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "}"
    assert decode(deep) == Message("a", [], {})


def test_data_and_context_of_another_kind() -> None:
    assert decode('{"type": "a", "data": [1], "context": [1]}') == Message("a", [1], {})


def test_the_type_is_read_without_the_rest() -> None:
    assert peek_type('{"type": "a.b:c", "data": {') == "a.b:c"
    assert peek_type(' { "type" : "a" , ') == "a"
    assert peek_type('{"data": {"type": "a"}}') is None
    assert peek_type('{"type": "a\\u002eb"}') is None, "an escaped type needs the whole parse"


def test_what_leaves_is_strict_json() -> None:
    text = encode("a", {"n": [math.nan, 1]}, {"half": "\ud800", "inf": -math.inf})
    assert json.loads(text, parse_constant=pytest.fail) == {
        "type": "a",
        "data": {"n": [None, 1]},
        "context": {"half": "\ud800", "inf": None},
    }


def test_a_frame_beyond_what_the_bus_carries_is_not_made() -> None:
    with pytest.raises(NotEncodable, match="bytes are more than the OVOS bus carries"):
        encode("a", {"text": "x" * FRAME_MAX_BYTES}, {})
    with pytest.raises(NotEncodable):
        encode("a", {"text": "é" * (FRAME_MAX_BYTES // 2)}, {})


_finite = st.floats(allow_nan=False, allow_infinity=False)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | _finite | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.text(), st.dictionaries(st.text(), _json), st.dictionaries(st.text(), _json))
def test_what_is_written_reads_back(
    message_type: str, data: dict[str, object], context: dict[str, object]
) -> None:
    assert decode(encode(message_type, data, context)) == Message(message_type, data, context)


@given(st.text() | st.binary().map(lambda raw: raw.decode("latin-1")))
def test_no_text_makes_the_reader_raise(text: str) -> None:
    decode(text)
    peek_type(text)
