"""The link to the board on the desk: the real firmware under a real MicroPython."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from supervised import S, Supervised
from wakebridge.board.client import Reading
from wakebridge.board.event_log import EventLog
from wakebridge.simboard import DeskBoard
from wakebridge.wake.reconciler import CountdownState
from wakewire import codes

Supervise = Callable[[str | Path], Supervised]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[DeskBoard]:
    async with DeskBoard(tmp_path / "desk") as board:
        yield board


def _more_hints(than: int, told: Supervised) -> bool:
    return len(told.hints) > than


async def test_a_countdown_fires_pulses_the_wake_line_and_is_found_in_the_log(
    desk: DeskBoard, supervise: Supervise
) -> None:
    """R40: the wake has source 4 and the token that was armed."""
    supervised = supervise(desk.port)
    client = await supervised.up()
    due_ns = supervised.clock.now().wall_ns + S
    await supervised.bring_to(due_ns)
    await supervised.until(
        lambda told: any(hint.source == codes.SOURCE_RTC_TIMER for hint in told.hints)
    )
    late_ns = supervised.clock.now().wall_ns - due_ns
    assert -50_000_000 <= late_ns <= 500_000_000
    assert len(desk.wake_history) >= 1
    log = await client.events_get(bytes(8), 0)
    assert isinstance(log, EventLog)
    assert [event.source for event in log.events] == [codes.SOURCE_BOOT, codes.SOURCE_RTC_TIMER]
    assert log.boot_id == supervised.ups[0][1].boot_id


async def test_power_loss_is_made_good_within_five_seconds_of_the_return(
    desk: DeskBoard, supervise: Supervise
) -> None:
    """A10 r2, R49: another boot id, no countdown, armed again for what remains."""
    supervised = supervise(desk.port)
    await supervised.up()
    due_ns = supervised.clock.now().wall_ns + 600 * S
    await supervised.bring_to(due_ns)
    await desk.power_loss(0.5)
    returned_s = time.monotonic()
    await supervised.up(2)
    before = await supervised.bring_to(due_ns)
    assert before.state is CountdownState.IDLE
    remaining_ms = (due_ns - supervised.clock.now().wall_ns) / 1e6
    assert await supervised.remaining_ms() == pytest.approx(remaining_ms, abs=1000)
    assert time.monotonic() - returned_s < 5
    assert supervised.ups[0][1].boot_id != supervised.ups[1][1].boot_id


async def test_power_loss_behind_a_port_that_stays_is_noticed_as_fast(
    desk: DeskBoard, supervise: Supervise
) -> None:
    supervised = supervise(desk.port)
    await supervised.up()
    due_ns = supervised.clock.now().wall_ns + 600 * S
    await supervised.bring_to(due_ns)
    await desk.power_loss(0.5, keep_port=True)
    await supervised.up(2, within_s=5)
    await supervised.bring_to(due_ns)
    assert await supervised.remaining_ms() > 590_000
    assert supervised.supervisor.open_attempts == 1


async def test_unplugging_leaves_the_countdown_alone(desk: DeskBoard, supervise: Supervise) -> None:
    supervised = supervise(desk.port)
    await supervised.up()
    due_ns = supervised.clock.now().wall_ns + 600 * S
    await supervised.bring_to(due_ns)
    await desk.unplug()
    await supervised.until(lambda told: len(told.downs) == 1)
    await desk.replug()
    client = await supervised.up(2, within_s=5)
    before = await supervised.bring_to(due_ns)
    assert before.state is CountdownState.ARMED
    assert not before.approximate
    counters = client.counters()
    assert (counters.requests, counters.crc_errors) == (2, 0)  # hello and timer_get: no SET


async def test_a_bare_prompt_is_restarted_and_its_countdown_set_right(
    desk: DeskBoard, supervise: Supervise
) -> None:
    """The checkpoint brings the countdown back approximately; reconciling makes it exact."""
    supervised = supervise(desk.port)
    await supervised.up()
    due_ns = supervised.clock.now().wall_ns + 600 * S
    await supervised.bring_to(due_ns)
    await desk.stop_at_prompt()
    assert desk.at_prompt
    await supervised.up(2, within_s=5)
    assert not desk.at_prompt
    before = await supervised.bring_to(due_ns)
    assert before.approximate
    assert await supervised.remaining_ms() > 590_000


async def test_the_rate_of_a_wrong_clock_is_learned_from_ordinary_answers(
    tmp_path: Path, supervise: Supervise
) -> None:
    """Issue 5: 2 % fast, scaled down to seconds."""
    async with DeskBoard(tmp_path / "fast", ppm=20_000) as desk:
        supervised = supervise(desk.port)
        client = await supervised.up()
        estimate = supervised.supervisor.rate.estimate()
        async with asyncio.timeout(30):
            # Two seconds on an idle machine; longer where answers come with more jitter.
            while not estimate.confirmed or estimate.bound_ppm >= 5_000:
                await asyncio.sleep(0.5)
                assert isinstance(await client.ping(), Reading)
                estimate = supervised.supervisor.rate.estimate()
        assert abs(estimate.ppm - 20_000) <= estimate.bound_ppm


@pytest.mark.parametrize("ppm", [20_000, -20_000])
async def test_a_wrong_clock_wakes_within_a_second_and_fires_nothing_early(
    tmp_path: Path, supervise: Supervise, ppm: int
) -> None:
    """Issue 5, scaled down to six seconds: at most three more wakes, the last one in time."""
    async with DeskBoard(tmp_path / "wrong", ppm=ppm) as desk:
        supervised = supervise(desk.port)
        await supervised.up()
        due_ns = supervised.clock.now().wall_ns + 6 * S
        woken_ns: list[int] = []
        while not woken_ns or woken_ns[-1] < due_ns:
            await supervised.bring_to(due_ns)
            hints = len(supervised.hints)
            with contextlib.suppress(TimeoutError):
                await supervised.until(partial(_more_hints, hints), 0.5)
                woken_ns.append(supervised.clock.now().wall_ns)
        assert 0 <= woken_ns[-1] - due_ns <= S
        assert len(woken_ns) <= 4
