"""The agent at the other end of the runner port; it outlives hosts."""

import asyncio

from wakebridge.runner.port import Completed, OnProgress, Outcome, RunRequest, Stopped

from .kernel import Agenda


class SimAgent:
    """Does what it is asked."""

    def __init__(self, agenda: Agenda, seed: str) -> None:
        self._agenda = agenda
        self._seed = seed
        self.active: dict[str, asyncio.Future[Outcome]] = {}

    @property
    def busy(self) -> bool:
        return bool(self.active)

    async def run(self, request: RunRequest, on_progress: OnProgress) -> Outcome:
        del request, on_progress
        return Completed("done")

    async def cancel(self, run_id: str) -> bool:
        future = self.active.get(run_id)
        if future is not None and not future.done():
            future.set_result(Stopped(True))
        return True

    async def close(self) -> None:
        """Nothing to give back."""

    def host_gone(self) -> None:
        self.active.clear()
