"""The crash table: the real daemon killed on either side of every commit (R32, R41, R47, R48)."""

import contextlib
import signal
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import dying_bridge
from bridges import BridgeProcess
from crash_rows import ROWS, Kill, Row, page
from noting_agent import Notes
from scenes import create, now, restart, submit, transcript, until, until_noted
from wakebridge.simboard import DeskBoard
from wakebridge.store.routines_json import RoutinesJson

PAGE = Path(__file__).parents[2] / "host" / "docs" / "reference" / "crash-table.md"
VICTIM = "victim"
"""What the task of the routine in question has in it."""


class Stage:
    """One bridge that will die, and what the scenes need to lead it there."""

    def __init__(self, bridge: BridgeProcess, notes: Notes) -> None:
        self.bridge = bridge
        self.notes = notes
        self.ended: int | None = None

    async def ask(self, method: str, path: str, body: object = None, **headers: str) -> None:
        """Make a request that may be the last one."""
        with contextlib.suppress(aiohttp.ClientError):
            await self.bridge.http(method, path, body, **headers)

    async def tool(self, **given: object) -> None:
        body = {"input": given, "session_id": "chat"}
        await self.ask("POST", "/api/tools/schedule", body)

    async def create(self, task: str, **when: object) -> None:
        await self.tool(action="create", task=task, **(when or {"run_at": now()}))

    async def wait_for(self, **shown: object) -> str:
        """Return the victim's id once it is shown like this."""
        listed = (await self.bridge.tool(action="list")).result
        routine_id = next(each["id"] for each in listed if VICTIM in each["task"])
        await until(self.bridge, routine_id, **shown)
        return str(routine_id)

    async def begin_to_wait(self) -> str:
        """Have the victim's agent at work until its gate is opened, with a partial result."""
        await self.create(f"wait {self.notes.gate(VICTIM)}")
        return await self.wait_for(partial_result="half of it")


async def run(stage: Stage) -> None:
    await stage.create(VICTIM)


async def run_behind(stage: Stage) -> None:
    await submit(stage.bridge, "background", f"wait {stage.notes.gate('other')}")
    await until_noted(stage.notes, 1, "start")
    await stage.create(VICTIM)


async def run_after(stage: Stage) -> None:
    await run_behind(stage)
    await stage.wait_for(waiting=True)
    stage.notes.open(str(stage.notes.directory / "other"))


async def run_and_stay(stage: Stage) -> None:
    await stage.create(f"wait {stage.notes.gate(VICTIM)}")


async def repeat(stage: Stage) -> None:
    await stage.create(VICTIM, run_at=now(), interval_s=600)


async def fail(stage: Stage) -> None:
    await stage.create(f"fail {VICTIM}")


async def create_only(stage: Stage) -> None:
    await stage.create(VICTIM, delay_s=600)


async def cancel_scheduled(stage: Stage) -> None:
    routine_id = await create(stage.bridge, VICTIM, delay_s=600)
    await stage.tool(action="cancel", id=routine_id)


async def cancel_queued(stage: Stage) -> None:
    """The first waits for other work and is claimed, so the second stays in the queue."""
    await submit(stage.bridge, "background", f"wait {stage.notes.gate('other')}")
    await until_noted(stage.notes, 1, "start")
    await until(stage.bridge, await create(stage.bridge, "first"), waiting=True)
    routine_id = await create(stage.bridge, VICTIM)
    await until(stage.bridge, routine_id, status="queued")
    await stage.tool(action="cancel", id=routine_id)


async def cancel_running(stage: Stage) -> None:
    routine_id = await stage.begin_to_wait()
    await stage.tool(action="cancel", id=routine_id)


async def interrupt_running(stage: Stage) -> None:
    await stage.begin_to_wait()
    await stage.ask("POST", "/api/sessions/chat/busy", {"lease_s": 600, "interrupts": True})


async def stop(stage: Stage) -> None:
    await stage.begin_to_wait()
    stage.ended = await stage.bridge.stop()


async def start_again(stage: Stage) -> None:
    dying, stage.bridge.environment = stage.bridge.environment, {}
    await stage.bridge.kill()
    await restart(stage.bridge)
    await stage.begin_to_wait()
    await stage.bridge.kill()
    stage.bridge.environment = dying
    stage.ended = (await stage.bridge.run_to_end()).code


async def update(stage: Stage) -> None:
    routine_id = await create(stage.bridge, f"fail {VICTIM}")
    await until(stage.bridge, routine_id, status="failed")
    await stage.tool(action="update", id=routine_id, task=f"{VICTIM} once more", delay_s=600)


SCENES: dict[str, Callable[[Stage], Awaitable[None]]] = {
    "create": create_only,
    "run": run,
    "run behind other work": run_behind,
    "run after other work": run_after,
    "run and stay": run_and_stay,
    "repeat": repeat,
    "fail": fail,
    "cancel what is scheduled": cancel_scheduled,
    "cancel what is queued": cancel_queued,
    "cancel what runs": cancel_running,
    "interrupt what runs": interrupt_running,
    "stop": stop,
    "start again": start_again,
    "update": update,
}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("row", ROWS, ids=[row.arrow for row in ROWS])
async def test_r32_r48_killed_at_a_commit(
    row: Row, when: str, board: DeskBoard, notes: Notes, tmp_path: Path
) -> None:
    """Each arrow of R32: what follows is what R41, R42, R47 and R48 prescribe."""
    kill = row.before if when == "before" else row.after
    bridge = BridgeProcess(tmp_path / "bridge", port=board.port, agent=notes.runner)
    bridge.program = [dying_bridge.__file__]
    bridge.environment = {
        "DIE_WHEN": when,
        "DIE_FROM": row.stood,
        "DIE_TO": row.stands,
        "DIE_TASK": VICTIM,
    }
    stage = Stage(bridge, notes)
    async with bridge:
        await bridge.said("countdown")
        await bridge.open_session("chat")
        await SCENES[row.scene](stage)
        ended = stage.ended if stage.ended is not None else await bridge.died()
        assert ended == -signal.SIGKILL
        on_disk = RoutinesJson(bridge.config_dir).show()
        assert dying_bridge.standing(on_disk, VICTIM) == kill.disk
        bridge.environment = {}
        await restart(bridge)
        await check(bridge, notes, row, kill)
        if kill.after == "interrupted" and when == "after":
            # What the first start has decided, the next one leaves as it is, and writes nothing.
            await bridge.kill()
            before = bridge.state_file.read_bytes()
            await restart(bridge)
            await check(bridge, notes, row, kill)
            assert bridge.state_file.read_bytes() == before


async def check(bridge: BridgeProcess, notes: Notes, row: Row, kill: Kill) -> None:
    """See the prescribed state, in `list`, in the transcript and at the agents."""
    listed = (await bridge.tool(action="list")).result
    victims = [each for each in listed if VICTIM in each["task"]]
    if kill.after == "absent":
        assert victims == []
        return
    [victim] = victims
    shown = await until(bridge, victim["id"], status=kill.after)
    begun = [r for r in notes.all() if r["routine_id"] == victim["id"]]
    assert len(begun) == kill.begun
    assert len({(r["routine_id"], r["due"]) for r in begun}) == len(begun)
    lines = [each for each in await transcript(bridge) if each.get("routine_id") == victim["id"]]
    last = [each["type"] for each in lines if each["type"] not in ("input", "progress")]
    if shown["latest_run"] is not None:
        assert len(last) == len({each["run_id"] for each in lines})
    check_details(row, kill, shown)
    armed = (await bridge.tool(action="list")).timer_error == ""
    assert armed
    timer = await bridge.timer()
    assert (timer["state"] == "armed") == (kill.after == "scheduled"), timer


def check_details(row: Row, kill: Kill, shown: Any) -> None:
    assert (shown["next_run"] is not None) == (kill.after == "scheduled")
    if "with a partial result" in kill.disk and kill.after in ("interrupted", "cancelled"):
        assert shown["partial_result"] == "half of it"
    if kill.after == "interrupted" and "interrupted" not in kill.disk:
        assert shown["latest_error"] == "the bridge stopped"
        assert shown["latest_run"]["outcome"] == "interrupted"
    if kill.after == "cancelled" and "cancellation" in kill.disk:
        known = "confirmed" if "confirmed" in kill.disk else "not_confirmed"
        assert shown["cancellation"] == known
    if row.scene == "repeat" and kill.after == "scheduled":
        first, following = (datetime.fromisoformat(shown[key]) for key in ("first_run", "next_run"))
        assert (following - first).total_seconds() % 600 == 0


def test_the_page_of_the_reference_is_generated_from_the_rows() -> None:
    """When it is not: `python tests/fixtures/crash_rows.py > crash-table.md`."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_r32_every_arrow_of_the_lifecycle_has_a_row() -> None:
    arrows = {row.arrow.split(" (")[0].split(",")[0] for row in ROWS}
    assert arrows >= {
        "scheduled -> queued",
        "queued -> running",
        "running -> completed",
        "running -> scheduled",
        "running -> failed",
        "scheduled -> cancelled",
        "queued -> cancelled",
        "running -> cancelled",
        "running -> interrupted",
    }
