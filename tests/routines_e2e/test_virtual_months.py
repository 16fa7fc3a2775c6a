"""Months of virtual time: the real service, stores, client and firmware (R5, R6, R44 to R48)."""

import asyncio
import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from virtual_bridge import Begun, VirtualBoard, VirtualBridge, taken
from virtual_time import NS, VirtualClock, VirtualLoop, run_virtual
from wakebridge.routine.routine import Definition
from wakebridge.routine.state import Every, Status
from wakebridge.service import waking

START_NS = 1_800_000_000 * NS + 123_456_789
DAY_S = 86_400
DAY_NS = DAY_S * NS
LEG_MAX_MS = 604_800_000


@pytest.fixture(autouse=True)
def _polled_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of a million readings of a countdown that runs on would only take time."""
    monkeypatch.setattr(waking, "READBACK_S", 6 * 3600.0)


@pytest.mark.parametrize("ppm", [0.0, 18.0, -18.0])
def test_r5_r45_thirty_days_away_are_legs_of_at_most_seven_days(ppm: float, tmp_path: Path) -> None:
    """Each leg's end is an early and harmless wake; at the last one the routine runs, once."""

    async def live(loop: VirtualLoop) -> None:
        clock = VirtualClock(loop, START_NS)
        board = VirtualBoard(loop, ppm)
        bridge = VirtualBridge(loop, clock, board, tmp_path)
        await bridge.start()
        due_ns = START_NS + 30 * DAY_NS + 1_000_000
        await bridge.create(due_ns)
        await asyncio.sleep(30 * DAY_S - 60)
        assert bridge.agent.begun == []
        assert len(board.wakes_s) >= 4
        await asyncio.sleep(120)
        [begun] = bridge.agent.begun
        assert begun.due_ns == due_ns
        assert 0 <= begun.at.wall_ns - due_ns < NS
        assert max(board.armed_ms) <= LEG_MAX_MS
        assert board.armed_ms[:4] == [LEG_MAX_MS] * 4
        assert len(board.wakes_s) <= 7
        await bridge.stop()

    run_virtual(live)


def test_r44_restarts_on_the_way_never_restart_the_countdown(tmp_path: Path) -> None:
    """Also of a leg: over thirty restarts in thirty days each full leg was set once.

    Near the target the leg that ends early is set again when the board's clock is known better.
    """

    async def live(loop: VirtualLoop) -> None:
        board = VirtualBoard(loop)
        bridge = VirtualBridge(loop, VirtualClock(loop, START_NS), board, tmp_path)
        await bridge.start()
        due_ns = START_NS + 30 * DAY_NS
        await bridge.create(due_ns)
        for number in range(30):
            await asyncio.sleep(DAY_S - 10)
            await (bridge.crash() if number % 2 else bridge.stop())
            await asyncio.sleep(5)
            await bridge.start()
        await asyncio.sleep(3600)
        assert [begun.due_ns for begun in bridge.agent.begun] == [due_ns]
        full = [armed_ms for armed_ms in board.armed_ms if armed_ms > LEG_MAX_MS // 2]
        assert full == board.armed_ms[:4] == [LEG_MAX_MS] * 4
        assert len(board.armed_ms) <= 9
        assert len(board.wakes_s) <= 7
        await bridge.stop()

    run_virtual(live)


@dataclass
class History:
    """When the bridge was up, in wall ns, and what had to be done about interrupted runs."""

    up: list[tuple[int, int]]
    updates: int = 0
    longest_down_s: float = 0


def spans_s(chance: random.Random) -> tuple[float, float]:
    """Draw how long the bridge is up, and then down: seconds to days."""
    up_s = chance.choice(
        (chance.uniform(1, 60), chance.uniform(60, 6 * 3600), chance.uniform(DAY_S, 4 * DAY_S))
    )
    down_s = chance.choice(
        (chance.uniform(0.1, 30), chance.uniform(60, 6 * 3600), chance.uniform(DAY_S, 9 * DAY_S))
    )
    return up_s, down_s


async def six_months(bridge: VirtualBridge, routine_id: str, chance: random.Random) -> History:
    """Let the bridge come and go for half a year; what a crash interrupted is updated."""
    history = History([])
    end_ns = START_NS + 183 * DAY_NS
    while (began_ns := bridge.clock.now().wall_ns) < end_ns:
        up_s, down_s = spans_s(chance)
        if chance.random() < 0.3:
            up_s = until_about_due_s(bridge, routine_id, chance) or up_s
        await asyncio.sleep(up_s)
        history.up.append((began_ns, bridge.clock.now().wall_ns))
        await (bridge.stop() if chance.random() < 0.5 else bridge.crash())
        await asyncio.sleep(down_s)
        history.longest_down_s = max(history.longest_down_s, down_s)
        await bridge.start()
        if bridge.routine(routine_id).status is Status.INTERRUPTED:
            history.updates += 1
            await update(bridge, routine_id)
    return history


def until_about_due_s(
    bridge: VirtualBridge, routine_id: str, chance: random.Random
) -> float | None:
    """Return how long it is to about the next occurrence: right before, at or within its run."""
    due_ns = bridge.routine(routine_id).next_due_ns
    if due_ns is None:
        return None
    left_s = (due_ns - bridge.clock.now().wall_ns) / NS + chance.uniform(-2, 5)
    return left_s if left_s > 0 else None


async def update(bridge: VirtualBridge, routine_id: str) -> None:
    """Have a stopped routine go on with its old phase, as an agent would."""
    now_ns = bridge.clock.now().wall_ns
    first_ns = FIRST_NS + -(-(now_ns - FIRST_NS) // DAY_NS) * DAY_NS
    definition = Definition(task="x", run_at_ns=first_ns, interval_s=DAY_S)
    taken(await bridge.routines.update(routine_id, definition))


FIRST_NS = START_NS + 3600 * NS


@pytest.mark.parametrize("seed", range(4))
def test_r6_r47_r48_a_daily_routine_keeps_its_phase_over_six_months(
    seed: int, tmp_path: Path
) -> None:
    """With the bridge down at random, in order or not, also within a run: no occurrence twice."""

    async def live(loop: VirtualLoop) -> None:
        chance = random.Random(seed)
        board = VirtualBoard(loop, chance.uniform(-20, 20))
        bridge = VirtualBridge(loop, VirtualClock(loop, START_NS), board, tmp_path)
        await bridge.start()
        routine_id = await bridge.create(FIRST_NS, DAY_S)
        history = await six_months(bridge, routine_id, chance)
        await asyncio.sleep(60)
        check(bridge.agent.begun, history)
        rule = bridge.routine(routine_id).rule
        assert isinstance(rule, Every)
        next_ns = bridge.routine(routine_id).next_due_ns
        assert next_ns is not None
        assert (next_ns - FIRST_NS) % DAY_NS == 0
        assert max(board.armed_ms) <= LEG_MAX_MS
        interrupted = len(bridge.agent.begun) - len(bridge.agent.ended)
        print(
            f"seed {seed}: {len(bridge.agent.begun)} runs, {interrupted} cut off,"
            f" {history.updates} updates, {len(history.up)} lives,"
            f" {history.longest_down_s / DAY_S:.1f} days down at most, {len(board.wakes_s)} wakes"
        )
        await bridge.stop()

    run_virtual(live)


def check(begun: list[Begun], history: History) -> None:
    dues = [each.due_ns for each in begun]
    assert len(dues) > 40
    assert all((due_ns - FIRST_NS) % DAY_NS == 0 for due_ns in dues), "the phase, to the ns"
    assert dues == sorted(set(dues)), "never one twice, never one after a later one"
    late = {each.due_ns: each.at.wall_ns - each.due_ns for each in begun}
    assert min(late.values()) >= 0, "never early"
    for since_ns, until_ns in history.up:
        first = FIRST_NS + max(0, -(-(since_ns + 5 * NS - FIRST_NS) // DAY_NS)) * DAY_NS
        for due_ns in range(first, until_ns - 2 * NS, DAY_NS):
            assert late[due_ns] < NS, "with the bridge up it is on time"
    for (_, down_ns), (up_ns, _) in zip(history.up, history.up[1:], strict=False):
        caught_up = [each for each in begun if down_ns < each.due_ns <= up_ns]
        assert len(caught_up) <= 1, "of what was missed, one runs"
