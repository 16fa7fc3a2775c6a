"""Sessions that the backend holds for its own work (R21)."""

from wakebridge.routine.busy import BusySessions


def test_r21_a_session_is_held_until_its_lease_ends() -> None:
    busy = BusySessions()
    busy.hold("a", 100)
    busy.hold("b", 200)
    assert busy.roots(99) == {"a", "b"}
    assert busy.roots(100) == {"b"}
    assert busy.next_end_ns(50) == 100
    assert busy.next_end_ns(100) == 200
    assert busy.roots(50) == {"b"}, "what has ended is forgotten"
    assert busy.next_end_ns(200) is None


def test_r21_a_lease_is_renewed_shortened_and_given_back() -> None:
    busy = BusySessions()
    busy.hold("a", 100)
    busy.hold("a", 300)
    assert busy.roots(200) == {"a"}
    busy.hold("a", 210)
    assert busy.roots(250) == frozenset()
    busy.hold("a", 400)
    busy.release("a")
    busy.release("a")
    assert busy.roots(0) == frozenset()
    assert busy.next_end_ns(0) is None
