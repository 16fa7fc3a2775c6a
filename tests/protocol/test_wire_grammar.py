"""protocol/wire.cddl: every message is one of its sentences, and wrong ones are not.

cddl-verifier rather than pycddl: the latter (0.6.4) refuses an array that ends in ``* element``
and takes an empty array for any choice of arrays.
"""

from typing import Final

import pytest
from cddl_verifier import Validator  # type: ignore[import-untyped]  # ships no types
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_wire import encode
from wakewire import messages
from wakewire.errors import MessageError
from wakewire.limits import PAYLOAD_MAX
from wire_strategies import ANSWERS, PUSHED, REFUSALS, REQUESTS, VALUES
from wire_vectors import (
    MESSAGES,
    PROTOCOL,
    REFUSED_ANSWERS,
    REFUSED_MESSAGES,
    Entry,
    name_of,
    payload_of,
)

GRAMMAR: Final = Validator(PROTOCOL / "wire.cddl")

ANSWER_RULES: Final = {
    "hello": "hello-answer",
    "ping": "ping-answer",
    "timer_get": "timer-answer",
    "timer_set": "timer-answer",
    "timer_cancel": "timer-answer",
    "events_get": "events-answer",
    "diag": "diag-answer",
    "restart": "restart-answer",
}


def fits(payload: bytes, rule: str) -> bool:
    return bool(GRAMMAR.validate(payload, root_type=rule).valid)


def parses(payload: bytes) -> bool:
    try:
        messages.parse(payload)
    except MessageError:
        return False
    return True


@pytest.mark.parametrize("entry", MESSAGES, ids=name_of)
def test_golden_message_fits(entry: Entry) -> None:
    assert fits(payload_of(entry), "message")
    assert fits(payload_of(entry), name_of(entry).split()[0])
    if "op" in entry:
        assert fits(payload_of(entry), ANSWER_RULES[entry["op"]])


@pytest.mark.parametrize("entry", REFUSED_MESSAGES, ids=name_of)
def test_wrong_message_does_not_fit(entry: Entry) -> None:
    assert not fits(payload_of(entry), "message")


@pytest.mark.parametrize("entry", REFUSED_ANSWERS, ids=name_of)
def test_wrong_answer_does_not_fit(entry: Entry) -> None:
    # That numbers follow each other is beyond a grammar.
    expressible = name_of(entry) != "events not consecutive"
    assert fits(payload_of(entry), ANSWER_RULES[entry["op"]]) is not expressible


@settings(max_examples=500, deadline=None)
@given(
    REQUESTS.map(lambda message: ("request", message))
    | ANSWERS
    | REFUSALS.map(lambda message: ("refusal", message))
    | PUSHED.map(lambda message: ("event", message))
)
def test_every_message_fits(drawn: tuple[str, list[object]]) -> None:
    rule, message = drawn
    payload = encode(message)
    assert fits(payload, rule)
    assert fits(payload, "message")


@st.composite
def nearly_messages(draw: st.DrawFn) -> bytes:
    """A message with elements replaced, dropped or swapped, within the subset of CBOR."""
    message = list(draw(REQUESTS | ANSWERS.map(lambda answer: answer[1]) | PUSHED))
    at = draw(st.integers(0, len(message) - 1))
    message[at : at + draw(st.integers(0, 2))] = draw(st.lists(VALUES, max_size=1))
    return encode(message)


@settings(max_examples=600, deadline=None)
@given(nearly_messages())
def test_grammar_and_parser_agree_on_what_a_message_is(payload: bytes) -> None:
    """Of a request the parser leaves the arguments to the board, which names the bad one."""
    if len(payload) > PAYLOAD_MAX or not parses(payload):
        assert len(payload) > PAYLOAD_MAX or not fits(payload, "message")
    elif not isinstance(messages.parse(payload), messages.Request):
        assert fits(payload, "message")
