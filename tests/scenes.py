"""Short words for what tests of routines do with a running bridge again and again."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from bridges import WAIT_S, BridgeProcess
from noting_agent import Notes


class _AnyText:
    """Equal to every text, and to nothing else."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str)

    def __hash__(self) -> int:
        return 0


ANY_TEXT = _AnyText()


def now() -> str:
    """Return this instant as RFC 3339: a routine for it is due as soon as the board can wake."""
    return datetime.now(UTC).isoformat()


async def create(bridge: BridgeProcess, task: str, session: str = "chat", **when: Any) -> str:
    """Create a routine, due at once if nothing else is said; return its id."""
    asked = when or {"run_at": now()}
    answer = await bridge.tool(session, action="create", task=task, **asked)
    assert answer.timer_error == "", answer
    return str(answer.result["id"])


async def until(bridge: BridgeProcess, routine_id: str, **shown: Any) -> Any:
    """Return the routine once `list` shows it with these values."""
    async with asyncio.timeout(WAIT_S):
        while True:
            routine = await bridge.routine(routine_id)
            if all(routine[name] == value for name, value in shown.items()):
                return routine
            await asyncio.sleep(0.01)  # a partial result announces itself to nobody


async def submit(bridge: BridgeProcess, kind: str, task: str, **more: Any) -> str:
    """Queue work in the session `chat`; return its run id."""
    body = {"kind": kind, "task": task, **more}
    answer = await bridge.http("POST", "/api/sessions/chat/runs", body)
    assert answer.status == 200, answer
    return str(answer.body["run_id"])


async def transcript(bridge: BridgeProcess, session: str = "chat") -> list[Any]:
    """Return a session's transcript."""
    answer = await bridge.http("GET", f"/api/sessions/{session}/transcript")
    assert answer.status == 200, answer
    entries: list[Any] = answer.body
    return entries


async def post(bridge: BridgeProcess, path: str, **body: Any) -> Any:
    """Make a request that is taken; return its answer."""
    answer = await bridge.http("POST", path, body)
    assert answer.status == 200, answer
    return answer.body


async def restart(bridge: BridgeProcess) -> None:
    """Start a bridge that has ended; return when it knows its board's countdown."""
    await bridge.start()
    await bridge.said("countdown")


async def until_noted(notes: Notes, count: int, what: str = "end") -> None:
    """Return once so many agents have begun, or come to their end."""
    async with asyncio.timeout(WAIT_S):
        while len(notes.tasks(what)) < count:  # noqa: ASYNC110 - agents write to a file
            await asyncio.sleep(0.01)
