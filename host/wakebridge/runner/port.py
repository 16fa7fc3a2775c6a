"""The port: one run in, one outcome out, and a way to stop it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import msgspec

from wakebridge.routine.change import StartRun
from wakebridge.routine.occurrence import Completed, Failed, Interrupted, Outcome, Stopped
from wakebridge.routine.state import RunKind
from wakebridge.schedule.instants import format_instant

__all__ = [
    "Completed",
    "Failed",
    "Interrupted",
    "OnProgress",
    "Outcome",
    "RunRequest",
    "Runner",
    "Stopped",
    "request_of",
    "undisturbed",
]

T = TypeVar("T")

OnProgress = Callable[[str], Awaitable[None]]
"""Takes one piece of a partial result. Awaited before the next is read, so that an agent that
talks faster than the disk can follow is slowed down and not buffered."""


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent is asked to do, as JSON on every way to it. `due` is RFC 3339.

    `session_id` is the conversation revision that the task is a new input of.
    """

    run_id: str
    kind: RunKind
    session_id: str
    task: str
    routine_id: str | None = None
    due: str | None = None


def request_of(start: StartRun) -> RunRequest:
    """Return the request that carries out this effect."""
    return RunRequest(
        run_id=start.run_id,
        kind=start.kind,
        session_id=start.session_id,
        task=start.task,
        routine_id=start.routine_id,
        due=None if start.due_ns is None else format_instant(start.due_ns),
    )


async def undisturbed(work: Awaitable[T]) -> T:
    """Await to its end also when the awaiting task is cancelled: a commit is never cut in two."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise


class Runner(Protocol):
    """A way to an agent.

    `run` returns the one outcome of a run and never raises for what agents, programs or networks
    do: `Failed` when the task was not done, `Interrupted` when it may have been done in part,
    `Stopped` after `cancel`. It never gives a run to an agent twice. When its own task is
    cancelled, because the bridge shuts down, it stops the agent's work as far as it can.

    `cancel` asks an active run to stop, waits for a limited time and returns whether the agent
    confirmed that nothing of it works any more. Either way `run` returns soon after. A run that is
    not active counts as stopped.
    """

    async def run(self, request: RunRequest, on_progress: OnProgress) -> Outcome:
        """Have an agent do the task; return how it ended."""
        ...

    async def cancel(self, run_id: str) -> bool:
        """Stop an active run; return whether that is confirmed."""
        ...

    async def close(self) -> None:
        """Give connections back. Runs that are active are stopped first."""
        ...
