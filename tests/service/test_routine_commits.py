"""Commits of routines: a disk that refuses, and askers that are gone before the answer."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

from virtual_bridge import LEASE, VirtualBoard, VirtualBridge
from virtual_time import NS, VirtualClock, VirtualLoop, run_virtual
from wakebridge.clock import SystemClock
from wakebridge.routine.change import EntryType
from wakebridge.routine.state import RoutineState, RunOutcome, Status
from wakebridge.service.routine_ports import Countdown
from wakebridge.service.routines import RoutineService
from wakebridge.store.routines_json import RoutinesJson
from wakebridge.store.transcripts import Transcripts

START_NS = 1_800_000_000 * NS


def world(loop: VirtualLoop, directory: Path) -> VirtualBridge:
    return VirtualBridge(loop, VirtualClock(loop, START_NS), VirtualBoard(loop), directory)


def test_r41_what_is_queued_on_a_disk_that_then_fills_up_starts_when_there_is_room(
    tmp_path: Path,
) -> None:
    """Nobody else asks for anything meanwhile, and the countdown does not read expired any more."""

    async def live(loop: VirtualLoop) -> None:
        bridge = world(loop, tmp_path)
        await bridge.start()
        other = await bridge.create(START_NS + 3600 * NS)
        due = await bridge.create(START_NS + 10 * NS)
        saved: list[Status] = []

        def watch(state: RoutineState) -> None:
            status = next(each.status for each in state.routines if each.id == due)
            if status is Status.QUEUED and not saved:
                saved.append(status)
                loop.call_soon(fill)

        def fill() -> None:
            bridge.store.full = True

        after_saving(bridge, watch)
        await asyncio.sleep(60)
        assert bridge.routine(due).status is Status.QUEUED
        assert bridge.agent.begun == []
        bridge.store.full = False
        await asyncio.sleep(6)
        assert bridge.routine(due).status is Status.COMPLETED
        assert [begun.request.routine_id for begun in bridge.agent.begun] == [due]
        assert bridge.routine(other).status is Status.SCHEDULED
        await bridge.stop()

    run_virtual(live)


def after_saving(bridge: VirtualBridge, watch: Callable[[RoutineState], None]) -> None:
    """Have every state that was saved looked at."""
    save = bridge.store.save

    def save_and_tell(state: RoutineState) -> None:
        save(state)
        watch(state)

    bridge.store.save = save_and_tell  # type: ignore[method-assign] # a test looks on


def test_r23_what_an_agent_says_while_the_disk_is_full_is_kept_until_there_is_room(
    tmp_path: Path,
) -> None:
    """Its pieces and its end wait in their order; nothing is lost and nothing is there twice."""

    async def live(loop: VirtualLoop) -> None:
        bridge = world(loop, tmp_path)
        await bridge.start()
        routine_id = await bridge.create(START_NS + 10 * NS)

        def fill_when_active(state: RoutineState) -> None:
            if any(run.started_ns is not None and run.partial is None for run in state.runs):
                bridge.store.full = True

        after_saving(bridge, fill_when_active)
        await asyncio.sleep(60)
        assert bridge.routine(routine_id).status is Status.RUNNING
        assert bridge.agent.ended == []  # it is not read on before the piece is durable
        bridge.store.full = False
        await asyncio.sleep(6)
        shown = bridge.routine(routine_id)
        assert (shown.status, shown.run_count) == (Status.COMPLETED, 1)
        kept = Transcripts(tmp_path).read("chat").entries
        assert [each.type for each in kept] == [
            EntryType.INPUT,
            EntryType.PROGRESS,
            EntryType.RESULT,
        ]
        await bridge.stop()

    run_virtual(live)


def test_r6_a_step_of_the_clock_is_followed_when_the_disk_has_room_again(tmp_path: Path) -> None:
    """A delay is elapsed time: it ends when so many seconds have passed, not an hour early."""

    async def live(loop: VirtualLoop) -> None:
        bridge = world(loop, tmp_path)
        await bridge.start()
        routine_id = await bridge.create_in(600)
        await asyncio.sleep(60)
        bridge.store.full = True
        for _ in range(2):
            bridge.clock.step(1800 * NS)
            await bridge.routines.clock_changed()
        await asyncio.sleep(10)
        bridge.store.full = False
        await asyncio.sleep(520)
        assert bridge.agent.begun == []
        await asyncio.sleep(20)
        assert [each.request.routine_id for each in bridge.agent.begun] == [routine_id]
        await bridge.stop()

    run_virtual(live)


def test_r48_a_stop_does_not_wait_for_room_on_the_disk(tmp_path: Path) -> None:
    """What could not be saved is found at the next start as what it is: interrupted."""

    async def live(loop: VirtualLoop) -> None:
        bridge = world(loop, tmp_path)
        await bridge.start()
        routine_id = await bridge.create(START_NS + 10 * NS)
        await asyncio.sleep(11)
        assert bridge.routine(routine_id).status is Status.RUNNING
        bridge.store.full = True
        await asyncio.sleep(10)
        assert len(bridge.agent.ended) == 1
        before_s = loop.time()
        await bridge.stop()
        assert loop.time() - before_s < 2
        await bridge.start()
        shown = bridge.routine(routine_id)
        assert shown.status is Status.INTERRUPTED
        assert shown.latest is not None
        assert (shown.latest.outcome, shown.latest.partial) == (RunOutcome.INTERRUPTED, "begun")
        assert len(bridge.agent.begun) == 1
        await bridge.stop()

    run_virtual(live)


class SlowStore(RoutinesJson):
    """A store whose disk takes as long as the test wants."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.began = threading.Event()
        self.go_on = threading.Event()

    def save(self, state: RoutineState) -> None:
        self.began.set()
        assert self.go_on.wait(20)
        super().save(state)


class NoCountdown:
    """The countdown of a bridge without a board."""

    def plan_changed(self) -> None:
        pass


async def test_r30_an_asker_that_is_gone_before_the_commit_leaves_memory_and_disk_as_one(
    tmp_path: Path,
) -> None:
    """The commit comes to its end; the next one begins from it, and after it."""
    store = SlowStore(tmp_path)
    service = RoutineService(
        store,
        Transcripts(tmp_path),
        SystemClock(),
        lambda: cast(Countdown, NoCountdown()),
        None,
        lease=LEASE,
        draw_id=lambda: "r-1",
    )
    await service.start()
    first = asyncio.create_task(service.open_session("first"))
    await asyncio.to_thread(store.began.wait, 20)
    first.cancel()
    second = asyncio.create_task(service.open_session("second"))
    await asyncio.sleep(0)
    store.go_on.set()
    await asyncio.wait((first, second))
    assert first.cancelled()
    assert [each.root for each in service.state.lineages] == ["first", "second"]
    assert RoutinesJson(tmp_path).load() == service.state
    await service.close()
