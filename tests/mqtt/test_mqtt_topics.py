"""Topic levels and filters, without a broker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import topic_matches_sub

from wakebridge.mqttbus.topics import (
    BadLevel,
    Topics,
    decode_level,
    encode_level,
    matches,
)

TOPICS = Topics("wakebridge")


@given(st.text(alphabet=st.characters(codec=None)))
def test_every_name_is_one_level_that_no_wildcard_and_no_slash_leaves(name: str) -> None:
    level = encode_level(name)
    assert not set("/+#") & set(level)
    level.encode()
    if name:
        assert decode_level(level) == name


@given(st.text(min_size=1, alphabet="ab%/+#2F6"))
def test_a_level_is_accepted_only_as_the_exact_encoding_of_its_name(level: str) -> None:
    try:
        name = decode_level(level)
    except BadLevel:
        return
    assert encode_level(name) == level


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("demo.skill", "demo.skill"),
        ("a/b", "a%2Fb"),
        ("+", "%2B"),
        ("#", "%23"),
        ("100%", "100%25"),
        ("tick tock", "tick tock"),
        ("über@home", "über@home"),
        ("\n", "%0A"),
        ("\x00", "%00"),
        ("\x85", "%C2%85"),
        ("\ufffe", "%EF%BF%BE"),
        ("\ud800", "%ED%A0%80"),
    ],
)
def test_usual_names_are_their_own_level_and_others_are_percent_encoded(
    name: str, level: str
) -> None:
    assert encode_level(name) == level
    assert decode_level(level) == name


@pytest.mark.parametrize("level", ["", "%", "%2", "%2f", "%61", "%FF", "a+b", "a#", "a/b"])
def test_other_levels_name_nobody(level: str) -> None:
    with pytest.raises(BadLevel):
        decode_level(level)


@given(
    st.lists(st.sampled_from(["a", "b", "", "$x"]), min_size=1, max_size=5),
    st.lists(st.sampled_from(["a", "b", "", "+", "$x"]), min_size=1, max_size=5),
    st.booleans(),
)
def test_filters_cover_the_topics_that_the_library_says_they_cover(
    topic_levels: list[str], filter_levels: list[str], multi: bool
) -> None:
    topic = "/".join(topic_levels)
    topic_filter = "/".join((*filter_levels, "#") if multi else filter_levels)
    assert matches(topic_filter, topic) == topic_matches_sub(topic_filter, topic)


def test_e2_an_event_is_named_without_its_owner() -> None:
    assert TOPICS.event("demo.skill", "demo.skill.a.b") == (
        "wakebridge/owners/demo.skill/event/a.b"
    )


def test_e90_a_legacy_event_keeps_its_whole_name() -> None:
    assert TOPICS.event("demo.skill", "demo.skill:tick") == (
        "wakebridge/owners/demo.skill/event/demo.skill:tick"
    )


@pytest.mark.parametrize("name", ["a/b", "+", "#", "../../other/event/x", "a/#", "\x00"])
def test_a_name_with_wildcards_or_slashes_cannot_leave_its_topic(name: str) -> None:
    topic = TOPICS.event("demo.skill", f"demo.skill.{name}")
    assert matches("wakebridge/owners/demo.skill/event/+", topic)
    topic = TOPICS.event(name, f"{name}.tick")
    assert matches("wakebridge/owners/+/event/tick", topic)


@pytest.mark.parametrize(
    ("topic", "allowed"),
    [
        ("wakebridge/owners/a/answer/x", True),
        ("wakebridge/owners/a/anything/deep/down", True),
        ("wakebridge/owners/a", False),
        ("wakebridge/owners/a/request/list", False),
        ("wakebridge/owners/ab/answer/x", False),
        ("wakebridge/owners/a/+", False),
        ("wakebridge/owners/a/#", False),
        ("", False),
    ],
)
def test_answers_stay_inside_the_owners_own_topics(topic: str, allowed: bool) -> None:
    assert TOPICS.may_answer_to("a", topic) is allowed
