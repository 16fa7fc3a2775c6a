"""What a wake is and what it is not, with the running bridge (R40 to R45, R49)."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bridges import BridgeProcess, Line
from firmware_board import PtyBoard
from noting_agent import Notes
from scenes import create, now, restart, until
from wakebridge.simboard import DeskBoard
from wakewire import codes, framing

BUTTON, VOICE, RTC_TIMER, HOST = 2, 3, 4, 5


def order(lines: list[Line]) -> list[Any]:
    """Return the board's events by their source, and the steps of routines, as they came."""
    return [
        line["source"] if line["message"] == "board event" else line["status"]
        for line in lines
        if line["message"] in ("board event", "routine")
    ]


class WilfulBoard(PtyBoard):
    """A board whose clock can stand still, with buttons, and a line that can lose an answer."""

    stalled_ms: int | None = None
    losing: int | None = None
    lost = 0

    def __init__(self, link: Path) -> None:
        super().__init__(link)
        self.has_lost = asyncio.Event()

    def _now_ms(self) -> int:
        return super()._now_ms() if self.stalled_ms is None else self.stalled_ms

    def stall(self) -> None:
        self.stalled_ms = super()._now_ms()

    def go_on(self) -> None:
        """Go on counting from where the clock stood."""
        assert self.stalled_ms is not None
        self.skew_ms -= super()._now_ms() - self.stalled_ms
        self.stalled_ms = None

    def log(self, source: int) -> None:
        """Have the board log an event of that source and push it, as it does with each."""
        self.board.dispatcher.log.append(source, 1, 0, 0, 0)
        self.send(framing.encode(self.board.dispatcher.latest_event()))

    def lose_answer_to(self, op: int) -> None:
        """Do what the next request of that kind asks for, and have its answer lost."""
        self.losing = op

    def send(self, data: bytes) -> None:
        if data and self.losing is not None and self.board.asked[-1:] == [self.losing]:
            self.losing = None
            self.lost += 1
            self.has_lost.set()
            return
        super().send(data)


async def test_r40_r43_buttons_voices_and_the_hosts_clock_run_nothing_only_source_4_does(
    notes: Notes, tmp_path: Path
) -> None:
    board = WilfulBoard(tmp_path / "port")
    bridge = BridgeProcess(tmp_path / "bridge", port=str(board.link), agent=notes.runner)
    async with bridge:
        await bridge.said("countdown")
        await bridge.open_session("chat")
        board.stall()
        routine_id = await create(bridge, "x", delay_s=1)
        mark = bridge.mark()
        for source in (BUTTON, VOICE, HOST):
            board.log(source)
            await bridge.said("board event", after=mark, source=source)
        await asyncio.sleep(1.2)  # the due instant passes, and nothing may come of it
        for source in (BUTTON, VOICE, HOST):
            seen = bridge.mark()
            board.log(source)
            await bridge.said("board event", after=seen, source=source)
        assert (await bridge.routine(routine_id))["status"] == "scheduled"
        assert notes.all() == []
        assert order(bridge.lines[mark:]) == [BUTTON, VOICE, HOST, BUTTON, VOICE, HOST]
        board.go_on()
        await bridge.said("routine", after=mark, id=routine_id, status="completed")
        assert order(bridge.lines[mark:])[6:] == [RTC_TIMER, "queued", "running", "completed"]
        assert len(notes.all()) == 1
    board.vanish()


async def test_r40_r43_r49_an_overdue_routine_waits_for_the_wake_of_a_board_that_starts_anew(
    board: DeskBoard, bridge: BridgeProcess, notes: Notes
) -> None:
    """The start of a board is an event as well, of source 1: it makes nothing eligible."""
    routine_id = await create(bridge, "x", delay_s=2)
    mark = bridge.mark()
    await board.power_loss(off_s=2.2)
    await bridge.said("routine", after=mark, id=routine_id, status="completed")
    assert order(bridge.lines[mark:]) == [1, RTC_TIMER, "queued", "running", "completed"]
    assert len(notes.all()) == 1


async def test_r42_a_countdown_that_ran_out_is_recovered_though_its_event_is_lost(
    board: DeskBoard, bridge: BridgeProcess, notes: Notes
) -> None:
    """Down while it runs out, and the board is reset meanwhile: the log begins anew.

    What is left is that the countdown is ours and reads expired. It is one wake, and only one.
    """
    routine_id = await create(bridge, "x", delay_s=1)
    pulses = board.wake_pulses()
    await bridge.kill()
    await pulses.pulse(10)
    await board.soft_reset()
    mark = bridge.mark()
    await restart(bridge)
    await until(bridge, routine_id, status="completed")
    events = bridge.all_said("board event", after=mark)
    assert [event["source"] for event in events][:1] == [1]
    for _ in range(2):
        await bridge.kill()
        await board.soft_reset()
        await restart(bridge)
        assert (await bridge.tool(action="list")).timer_error == ""
    shown = await bridge.routine(routine_id)
    assert (shown["status"], shown["run_count"]) == ("completed", 1)
    assert len(notes.all()) == 1


async def test_r41_r47_a_wake_that_is_delivered_again_and_again_runs_nothing_again(
    board: DeskBoard, bridge: BridgeProcess, notes: Notes
) -> None:
    """Every link that comes up reads the log again; the cursor says what has been dealt with."""
    first = await create(bridge, "x", run_at=now(), interval_s=600)
    await until(bridge, first, status="scheduled", run_count=1, latest_result="done: x")
    for _ in range(3):
        mark = bridge.mark()
        await board.unplug()
        await bridge.said("board down", after=mark)
        await board.replug()
        await bridge.said("board up", after=mark)
        assert (await bridge.tool(action="list")).timer_error == ""
    await bridge.kill()
    await restart(bridge)
    assert (await bridge.tool(action="list")).timer_error == ""
    shown = await bridge.routine(first)
    assert (shown["status"], shown["run_count"]) == ("scheduled", 1)
    assert len(notes.all()) == 1
    assert len(bridge.all_said("board event", source=RTC_TIMER)) == 1


async def test_r44_a_lost_answer_to_the_setting_does_not_restart_the_countdown(
    notes: Notes, tmp_path: Path
) -> None:
    """It is set again half a second later, and the board leaves the one that runs alone."""
    board = WilfulBoard(tmp_path / "port")
    bridge = BridgeProcess(tmp_path / "bridge", port=str(board.link), agent=notes.runner)
    async with bridge:
        await bridge.said("countdown")
        await bridge.open_session("chat")
        board.lose_answer_to(codes.OP_TIMER_SET)
        created = await bridge.tool("chat", action="create", task="x", delay_s=600)
        assert created.timer_error == ""
        assert board.lost == 1
        assert board.board.asked.count(codes.OP_TIMER_SET) == 2
        # One that had been restarted would end later, by the time until the repetition.
        left_s = (await bridge.timer())["remaining_s"]
        assert left_s == pytest.approx(left_until_s(created.result["next_run"]), abs=0.2)
        await bridge.kill()
        await restart(bridge)
        assert board.board.asked.count(codes.OP_TIMER_SET) == 2
    board.vanish()


async def test_r44_an_answer_that_is_lost_for_good_is_found_out_by_reading(
    notes: Notes, tmp_path: Path
) -> None:
    """The bridge is killed before the answer: the next life reads the countdown and agrees."""
    board = WilfulBoard(tmp_path / "port")
    bridge = BridgeProcess(tmp_path / "bridge", port=str(board.link), agent=notes.runner)
    async with bridge:
        await bridge.said("countdown")
        await bridge.open_session("chat")
        board.lose_answer_to(codes.OP_TIMER_SET)
        creating = asyncio.create_task(bridge.tool("chat", action="create", task="x", delay_s=600))
        async with asyncio.timeout(10):
            await board.has_lost.wait()
        await bridge.kill()
        with pytest.raises(aiohttp.ClientError):
            await creating
        mark = bridge.mark()
        await restart(bridge)
        await bridge.said("countdown", after=mark, state="armed", error="")
        assert board.board.asked.count(codes.OP_TIMER_SET) == 1
        [routine] = (await bridge.tool(action="list")).result
        left_s = (await bridge.timer())["remaining_s"]
        assert left_s == pytest.approx(left_until_s(routine["next_run"]), abs=0.2)
    board.vanish()


def left_until_s(instant: str) -> float:
    return (datetime.fromisoformat(instant) - datetime.now(UTC)).total_seconds()
