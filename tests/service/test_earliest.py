"""What the board is armed for: one instant for one occurrence, at every look (E5, R44)."""

from wakebridge.engine import CLOCKS_JITTER_NS, EventEngine, Request
from wakebridge.schedule.instants import Now, format_instant, parse_instant

NOW = Now(parse_instant("2026-03-01T10:00:00.123456789+00:00"), 5_000_000_123)


def engine_with_a_delay() -> tuple[EventEngine, str]:
    engine = EventEngine()
    engine.load([], 0, NOW)
    body = {"id": "a", "event": "demo.a", "in": {"seconds": 60}}
    decision = engine.decide(Request("schedule", body, {"skill_id": "demo"}, b"{}", "mqtt"), NOW)
    assert decision.change is not None
    engine.apply(decision.change)
    return engine, str(decision.answer["next"])


def later(boot_ns: int, wall_step_ns: int = 0) -> Now:
    return Now(NOW.wall_ns + boot_ns + wall_step_ns, NOW.boot_ns + boot_ns)


def test_r44_e5_a_delay_ends_at_its_answered_instant_however_the_clocks_are_read() -> None:
    """Reading two clocks takes time; were it to move the target, each look would arm anew."""
    engine, answered = engine_with_a_delay()
    for jitter_ns in (0, 20, -20, 3_000, -3_000, 900_000, -900_000, CLOCKS_JITTER_NS):
        earliest_ns = engine.earliest_ns(later(1_000_000_000, jitter_ns))
        assert earliest_ns is not None
        assert format_instant(earliest_ns) == answered


def test_e5_after_a_step_the_target_moves_once_and_then_stands_still() -> None:
    engine, answered = engine_with_a_delay()
    step_ns = 3_600_000_000_000
    moved = {
        engine.earliest_ns(later(1_000_000_000 + n, step_ns + jitter_ns))
        for n, jitter_ns in enumerate((0, 700, -700, 900_000, -900_000))
    }
    assert moved == {parse_instant(answered) + step_ns}
    stepped_back = engine.earliest_ns(later(2_000_000_000))
    assert stepped_back == parse_instant(answered)
