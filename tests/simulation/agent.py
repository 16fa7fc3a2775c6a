"""The agent behind the runner port: it works, talks, fails, hangs, dies, and answers twice."""

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final

from wakebridge.runner.port import (
    Completed,
    Failed,
    Interrupted,
    OnProgress,
    Outcome,
    RunRequest,
    Stopped,
)

_MANNERS: Final = (
    *("works",) * 10,
    *("talks",) * 3,
    *("fails", "fails", "hangs", "dies", "talks after the end"),
)

_FAULTS: Final = {
    "fails": "agent that fails",
    "hangs": "agent that hangs",
    "dies": "agent that dies",
    "talks after the end": "agent that answers again",
}

# A hanging agent is given up by its own keeper after so long.
_HANGS_S: Final = 3600.0


class SimAgent:
    """Implements `wakebridge.runner.port.Runner`. `began` and `ended` are told of every run."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._runs = 0
        self.began: Callable[[RunRequest], None] = lambda _request: None
        self.ended: Callable[[RunRequest, Outcome], None] = lambda _request, _outcome: None
        self.active: dict[str, asyncio.Future[Outcome]] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self.faults: dict[str, int] = dict.fromkeys(_FAULTS.values(), 0)

    @property
    def busy(self) -> bool:
        return bool(self.active)

    async def run(self, request: RunRequest, on_progress: OnProgress) -> Outcome:
        self._runs += 1
        draw = random.Random(f"{self._seed} run {self._runs}")
        manner = draw.choice(_MANNERS)
        if manner in _FAULTS:
            self.faults[_FAULTS[manner]] += 1
        self.began(request)
        stopped: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.active[request.run_id] = stopped
        try:
            outcome = await self._work(draw, manner, stopped, on_progress)
        finally:
            self.active.pop(request.run_id, None)
        if manner == "talks after the end":
            late = asyncio.ensure_future(self._talk_later(draw, on_progress))
            self._late.add(late)
            late.add_done_callback(self._late.discard)
        self.ended(request, outcome)
        return outcome

    async def _work(
        self,
        draw: random.Random,
        manner: str,
        stopped: asyncio.Future[Outcome],
        on_progress: OnProgress,
    ) -> Outcome:
        length_s = _HANGS_S if manner == "hangs" else draw.uniform(0.05, draw.choice((2, 60)))
        pieces = draw.randrange(1, 4) if manner.startswith("talks") else 0
        for piece in range(pieces):
            if await self._stopped_within(length_s / (pieces + 1), stopped):
                return stopped.result()
            await on_progress(f"piece {piece}")
        if await self._stopped_within(length_s, stopped):
            return stopped.result()
        match manner:
            case "fails":
                return Failed("it cannot be done")
            case "dies" | "hangs":
                return Interrupted("the agent is gone")
            case _:
                return Completed(f"done {self._runs}")

    async def _stopped_within(self, delay_s: float, stopped: asyncio.Future[Outcome]) -> bool:
        await asyncio.wait((stopped,), timeout=delay_s)
        return stopped.done()

    async def _talk_later(self, draw: random.Random, on_progress: OnProgress) -> None:
        await asyncio.sleep(draw.uniform(0, 5))
        await on_progress("one more thing")

    async def cancel(self, run_id: str) -> bool:
        draw = random.Random(f"{self._seed} cancel {self._runs} {len(self.active)}")
        await asyncio.sleep(draw.uniform(0, 8))
        confirmed = draw.random() < 0.8
        stopped = self.active.get(run_id)
        if stopped is not None and not stopped.done():
            stopped.set_result(Stopped(confirmed))
        return confirmed

    async def close(self) -> None:
        """Nothing to give back."""

    def host_gone(self) -> None:
        """The process that spoke to the agent has ended."""
        self.active.clear()
        self._late.clear()
