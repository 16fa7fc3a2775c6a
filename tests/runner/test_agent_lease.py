"""How long a silent or absent agent is believed in (R48)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakebridge.runner.lease import QUERIES_PER_LEASE, Lease, Patience
from wakebridge.runner.messages import read_report
from wakebridge.runner.port import Failed, Interrupted, Stopped

PATIENCE = Patience(time_limit_s=1000.0, lease_s=40.0, offline_grace_s=5.0, cancel_limit_s=10.0)


@pytest.fixture
def lease() -> Lease:
    return Lease(PATIENCE, "one", 0.0)


def test_three_questions_without_an_answer_end_the_lease(lease: Lease) -> None:
    for number in range(1, QUERIES_PER_LEASE + 1):
        now_s = number * 10.0
        assert lease.deadline_s() == now_s
        assert lease.outcome(now_s) is None
        assert lease.is_query_due(now_s)
        lease.asked(now_s, sent=True)
    assert lease.outcome(39.9) is None
    assert lease.deadline_s() == 40.0
    assert lease.outcome(40.0) == Interrupted("the agent has been silent for 40 s")


def test_any_word_of_the_agent_begins_the_lease_anew(lease: Lease) -> None:
    for now_s in range(10, 500, 10):
        lease.asked(float(now_s), sent=True)
        lease.heard(now_s + 1.0)
        assert lease.outcome(now_s + 9.0) is None


def test_questions_that_could_not_be_sent_do_not_count(lease: Lease) -> None:
    for now_s in range(10, 500, 10):
        assert lease.outcome(float(now_s)) is None
        lease.asked(float(now_s), sent=False)


def test_an_agent_may_be_offline_for_the_grace_and_come_back_the_same(lease: Lease) -> None:
    lease.present(None, 1.0)
    lease.present(None, 4.0)
    assert lease.deadline_s() == 6.0
    assert lease.outcome(5.9) is None
    lease.present("one", 5.9)
    assert lease.outcome(7.0) is None
    lease.present(None, 8.0)
    assert lease.outcome(13.0) == Interrupted("the agent has gone offline")


def test_an_agent_that_comes_back_as_another_has_lost_the_run(lease: Lease) -> None:
    lease.present("two", 1.0)
    lease.present("one", 1.1)
    assert isinstance(lease.outcome(1.2), Interrupted)


def test_a_stop_that_is_not_confirmed_ends_by_itself(lease: Lease) -> None:
    lease.stopping(1.0)
    lease.stopping(9.0)
    assert lease.outcome(10.9) is None
    assert lease.outcome(11.0) == Stopped(confirmed=False)


def test_the_time_limit_ends_a_run_however_talkative() -> None:
    lease = Lease(PATIENCE, "one", 0.0)
    lease.heard(999.0)
    assert lease.deadline_s() == 1000.0
    assert lease.outcome(999.9) is None
    assert lease.outcome(1000.0) == Failed("the agent took longer than 1000 s")


@given(
    st.lists(st.tuples(st.floats(0, 30), st.sampled_from(["heard", "asked", "off", "on", "stop"])))
)
def test_the_deadline_is_never_behind_once_everything_due_was_done(
    steps: list[tuple[float, str]],
) -> None:
    lease, now_s = Lease(PATIENCE, "one", 0.0), 0.0
    for wait_s, what in steps:
        now_s += wait_s
        if what == "heard":
            lease.heard(now_s)
        elif what == "stop":
            lease.stopping(now_s)
        elif what != "asked":
            lease.present("one" if what == "on" else None, now_s)
        if lease.outcome(now_s) is not None:
            return
        if what == "asked" or lease.is_query_due(now_s):
            lease.asked(now_s, sent=what == "asked")
        assert lease.deadline_s() > now_s


@given(st.binary(max_size=100))
def test_no_bytes_of_an_agent_raise(data: bytes) -> None:
    assert read_report(data) is not None
