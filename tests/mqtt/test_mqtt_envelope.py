"""Whatever bytes come in: a request or one clause that says what is wrong (E13, E21)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebridge.adapters.mqtt.envelope import (
    NESTING_MAX,
    REQUEST_BYTES_MAX,
    MalformedRequest,
    parse_request,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def parsed(payload: bytes) -> bool:
    """Parse; return whether it was a request. Anything but the one error fails the test."""
    try:
        message = parse_request(payload)
    except MalformedRequest as error:
        reason = str(error)
    else:
        assert message.context is None or isinstance(message.context, dict)
        return True
    assert reason
    assert "\n" not in reason
    return False


@given(st.binary())
def test_any_bytes_are_a_request_or_malformed(payload: bytes) -> None:
    parsed(payload)


@given(st.dictionaries(st.sampled_from(["data", "context", "type", "x"]), JSON))
def test_any_json_around_a_request_is_a_request_or_malformed(message: dict[str, object]) -> None:
    payload = json.dumps(message).encode()
    finite = "NaN" not in payload.decode() and "Infinity" not in payload.decode()
    well_formed = isinstance(message.get("context", {}), dict | None) and isinstance(
        message.get("type", ""), str | None
    )
    if parsed(payload):
        assert well_formed
    if not well_formed:
        assert not parsed(payload)
    if finite and well_formed and message.get("data") is None:
        assert parsed(payload)


@given(st.binary(), st.integers(min_value=0))
def test_a_request_cut_or_changed_anywhere_does_no_harm(noise: bytes, where: int) -> None:
    whole = b'{"data":{"id":"a","in":{"seconds":1.5e3}},"context":{"skill_id":"s","t":"\\u00e9"}}'
    at = where % len(whole)
    parsed(whole[:at])
    parsed(whole[:at] + noise + whole[at:])
    parsed(whole[:at] + noise)


@pytest.mark.parametrize(("depth", "allowed"), [(NESTING_MAX - 1, True), (NESTING_MAX, False)])
def test_nesting_is_bounded_exactly_and_brackets_in_text_do_not_count(
    depth: int, allowed: bool
) -> None:
    assert parsed(b'{"data":' + b"[" * depth + b"]" * depth + b"}") is allowed
    assert parsed(b'{"data":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}") is allowed
    assert parsed(b'{"data":"' + b"[{" * depth + b'"}')


def test_size_is_bounded_exactly() -> None:
    head, tail = b'{"data":"', b'"}'
    filler = REQUEST_BYTES_MAX - len(head) - len(tail)
    assert parsed(head + b"x" * filler + tail)
    assert not parsed(head + b"x" * (filler + 1) + tail)
