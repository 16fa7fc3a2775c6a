"""kill -9 between acceptance and fire loses nothing and repeats next to nothing (E50, E51, R48)."""

import asyncio
import os
import random
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bridges import BridgeProcess, Journal, Owner, ToolAnswer, asking
from wakebridge.board.client import Reading
from wakebridge.routine.change import Code
from wakebridge.simboard import DeskBoard

CRASHES = 20
STOPPED = {"completed", "interrupted", "failed", "cancelled"}


def in_s(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


class Book:
    """What was accepted in the course of a test: every occurrence that is owed to its owner."""

    def __init__(self, owner: Owner, chance: random.Random) -> None:
        self._owner = owner
        self._chance = chance
        self.owed: set[tuple[str, str]] = set()
        self.unanswered: set[str] = set()

    def _soon_s(self) -> float:
        return self._chance.uniform(0.3, 3.0)

    async def accept_each_form(self, number: int) -> None:
        """Have one schedule of each form accepted."""
        at = in_s(self._soon_s()).isoformat()
        local = in_s(self._soon_s() + 1)
        clock = {"time": f"{local:%H:%M:%S}", "zone": "UTC"}
        period_s = self._chance.choice((0.3, 0.7))
        for schedule_id, fields in (
            (f"at{number}", {"at": at}),
            (f"in{number}", {"in": {"seconds": self._soon_s()}}),
            (f"local{number}", {"local": clock, "count": 1}),
        ):
            self.owed.add((schedule_id, await self._owner.schedule(schedule_id, **fields)))
        every = f"every{number}"
        first = await self._owner.schedule(every, every={"seconds": period_s}, count=3)
        for n in range(3):
            due = datetime.fromisoformat(first) + timedelta(seconds=n * period_s)
            self.owed.add((every, due.isoformat(timespec="milliseconds")))

    async def ask_into_the_crash(self, number: int) -> None:
        """Ask at a moment at which the answer may never come: it is owed only if it came."""
        schedule_id = f"late{number}"
        try:
            answer = await self._owner.ask(
                "schedule",
                {"id": schedule_id, "event": f"demo.{schedule_id}", "at": in_s(1.5).isoformat()},
                timeout_s=5,
            )
        except TimeoutError:
            self.unanswered.add(schedule_id)
        else:
            self.owed.add((schedule_id, str(answer["next"])))


def same(instant: str) -> datetime:
    return datetime.fromisoformat(instant)


async def created(bridge: BridgeProcess, **arguments: object) -> str | None:
    """Create a routine as soon as the board is back; None when the answer was lost."""
    while True:
        try:
            answer: ToolAnswer = await bridge.tool("chat", action="create", **arguments)
        except aiohttp.ClientError:
            return None
        if not answer.is_error:
            return str(answer.result["id"])
        assert answer.error["code"] == Code.MCU_UNAVAILABLE, answer.error
        await asyncio.sleep(0.02)  # after each start the link takes a moment


async def test_20_crashes_lose_no_occurrence_and_repeat_at_most_one_each_e50_e51_r47_r48(
    bridge: BridgeProcess, owner: Owner, journal: Journal
) -> None:
    chance = random.Random(20)
    book = Book(owner, chance)
    crashes_s: list[float] = []
    routines: list[str] = []
    asking: list[asyncio.Task[None]] = []
    for number in range(CRASHES):
        await book.accept_each_form(number)
        routine_id = await created(bridge, task="work 0.1", delay_s=1)
        assert routine_id is not None
        routines.append(routine_id)
        await asyncio.sleep(chance.uniform(0.0, 1.5))
        asking.append(asyncio.create_task(book.ask_into_the_crash(number)))
        await asyncio.sleep(chance.uniform(0.0, 0.01))
        await bridge.kill()
        crashes_s.append(time.monotonic())
        await bridge.start()
    await asyncio.gather(*asking)
    owed = {(schedule_id, same(due)) for schedule_id, due in book.owed}
    await owner.until(lambda: owed <= {(f.id, same(f.due)) for f in owner.fired})
    check_fires(owner, owed, book.unanswered, crashes_s)
    await check_routines(bridge, journal, routines)


def check_fires(
    owner: Owner,
    owed: set[tuple[str, datetime]],
    unanswered: set[str],
    crashes_s: list[float],
) -> None:
    seen: set[tuple[str, str]] = set()
    repeats: Counter[int] = Counter()
    for fired in owner.fired:
        assert same(fired.fired) >= same(fired.due)
        assert (fired.id, same(fired.due)) in owed or fired.id in unanswered, fired
        if fired.key in seen:
            repeats[sum(crash_s < fired.heard_s for crash_s in crashes_s)] += 1
        seen.add(fired.key)
    assert owner.missed == []
    assert 0 not in repeats  # before the first crash
    assert max(repeats.values(), default=0) <= 1
    print(f"{len(seen)} occurrences, {repeats.total()} repeated, {len(unanswered)} unanswered")


async def check_routines(bridge: BridgeProcess, journal: Journal, routines: list[str]) -> None:
    async with asyncio.timeout(20):
        while True:
            listed = {each["id"]: each for each in (await bridge.tool(action="list")).result}
            if all(listed[each]["status"] in STOPPED for each in routines):
                break
            await asyncio.sleep(0.1)
    started, ended = Counter(journal.runs()), Counter(journal.runs("end"))
    assert max(started.values()) == 1
    for each in routines:
        match listed[each]["status"]:
            case "completed":
                assert started[each] == ended[each] == 1
            case "interrupted":
                assert "the bridge stopped" in listed[each]["latest_error"]
            case other:
                pytest.fail(f"{each} is {other}: {listed[each]}")
    print(Counter(listed[each]["status"] for each in routines))


async def test_a_crash_in_the_middle_of_a_burst_repeats_at_most_one_and_loses_none_e51(
    bridge: BridgeProcess, owner: Owner
) -> None:
    ids = [f"e{n}" for n in range(100)]
    due = in_s(1.5).isoformat()
    await asyncio.gather(*(owner.schedule(each, at=due) for each in ids))
    for heard in (5, 35, 65):
        await owner.until_fired(heard)
        await bridge.kill()
        assert len(owner.fired) < len(ids)
        await bridge.start()
    await owner.until(lambda: {f.id for f in owner.fired} == set(ids))
    await owner.ask("list", {})  # whatever else would come has come by now
    counted = Counter(f.key for f in owner.fired)
    assert max(counted.values()) <= 2
    assert counted.total() - len(ids) <= 3
    assert owner.missed == []


@pytest.mark.parametrize("how", ["kill", "stop"])
async def test_r48_a_run_that_is_with_the_agent_at_the_end_is_interrupted_and_never_repeated(
    how: str, bridge: BridgeProcess, journal: Journal, tmp_path: Path
) -> None:
    """So is one that waits for the session; work that is still in the queue survives."""
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    ids = []
    for task in (f"wait {fifo}", "second", "third"):
        routine_id = await created(bridge, task=task, delay_s=1)
        assert routine_id is not None
        ids.append(routine_id)
    async with asyncio.timeout(10):
        while True:
            shown = (await bridge.tool(action="list")).result
            if shown[0]["partial_result"] and shown[2]["status"] == "queued":  # the others, too
                break
            await asyncio.sleep(0.02)
    assert [each["status"] for each in shown] == ["running", "running", "queued"]
    assert shown[1]["waiting"]
    await getattr(bridge, how)()
    await bridge.start()
    await bridge.said("routine", id=ids[2], status="completed")
    after = (await bridge.tool(action="list")).result
    assert [each["status"] for each in after] == ["interrupted", "interrupted", "completed"]
    assert after[0]["partial_result"] == "half of it"
    assert after[0]["latest_run"]["outcome"] == "interrupted"
    why = {"kill": "the bridge stopped", "stop": "the bridge was shut down"}[how]
    assert why in after[0]["latest_error"]
    await bridge.kill()
    await bridge.start()
    await bridge.said("countdown")
    assert journal.runs() == [ids[0], ids[2]]
    assert journal.runs("end") == [ids[2]]


async def test_a_clean_stop_in_the_middle_of_a_burst_neither_loses_nor_repeats_e51_a16_r1(
    bridge: BridgeProcess, owner: Owner
) -> None:
    count = 100
    due = in_s(1.5).isoformat()
    await asyncio.gather(*(owner.schedule(f"e{n}", at=due) for n in range(count)))
    await owner.until(lambda: len(owner.fired) >= 5)
    assert await bridge.stop() == 0
    await owner.until(lambda: owner.statuses[-1] == "offline")
    assert len(owner.fired) < count
    await bridge.start()
    await owner.until(lambda: len(owner.fired) >= count)
    await owner.ask("list", {})  # whatever else would come has come by now
    assert Counter(f.id for f in owner.fired) == {f"e{n}": 1 for n in range(count)}
    assert owner.missed == []


async def test_a_clean_stop_leaves_the_countdown_armed_so_that_a_host_that_is_off_is_woken(
    board: DeskBoard, bridge: BridgeProcess, owner: Owner
) -> None:
    due = await owner.schedule("a", **{"in": {"seconds": 3}})
    armed = await bridge.said("countdown", state="armed", error="")
    pulses = board.wake_pulses()
    assert await bridge.stop() == 0
    async with asking(board.port) as client:
        timer = await client.timer_get()
    assert isinstance(timer, Reading)
    assert f"{timer.value.token:#010x}" == armed["token"]
    pulse = await pulses.pulse(10)
    assert pulse.wall_ns / 1e9 == pytest.approx(same(due).timestamp(), abs=1)
    await bridge.start()
    await owner.until(lambda: len(owner.fired) == 1)
    assert owner.fired[0].key == ("a", due)


async def test_requests_on_their_way_at_a_clean_stop_are_answered_and_durable_e50(
    bridge: BridgeProcess, owner: Owner
) -> None:
    answers: dict[str, dict[str, Any]] = {}

    async def ask(schedule_id: str) -> None:
        body = {"id": schedule_id, "event": "demo.x", "at": in_s(3600).isoformat()}
        answers[schedule_id] = await owner.ask("schedule", body)

    asking = [asyncio.create_task(ask(f"r{n}")) for n in range(200)]
    await owner.until(lambda: len(answers) >= 20)
    began_s = time.monotonic()
    assert await bridge.stop() == 0
    assert time.monotonic() - began_s < 1.5
    await bridge.start()
    await asyncio.gather(*asking)
    kept = {each["record"]["id"] for each in (await owner.ask("list", {}))["schedules"]}
    for schedule_id, answer in answers.items():
        if answer["ok"]:
            assert schedule_id in kept
        else:
            assert "stopping" in answer["reason"]
            assert schedule_id not in kept


async def test_a_clean_stop_does_not_wait_for_clients_that_do_not_end(
    bridge: BridgeProcess, owner: Owner
) -> None:
    """One that keeps its connection, and one in the middle of a request."""
    connections = []
    for words in (b"", b"POST /api/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{"):
        reader, writer = await asyncio.open_connection("127.0.0.1", bridge.http_port)
        writer.write(words)
        await writer.drain()
        connections.append((reader, writer))
    await bridge.health()
    began_s = time.monotonic()
    assert await bridge.stop() == 0
    assert time.monotonic() - began_s < 4
    assert owner.statuses[-1] == "offline"
    for _, writer in connections:
        writer.close()
