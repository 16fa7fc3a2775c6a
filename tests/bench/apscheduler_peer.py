"""APScheduler 3, run in an environment of its own that is made once."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.sizes import Size
from bench.stage import WAIT_S
from ovos_envs import Vintage

_PEERS: Final = Path(__file__).parent / "peers"
_JOBS: Final = _PEERS / "apscheduler_jobs.py"

_STORES: Final = {"default": "APScheduler 3, SQLite", "wal": "APScheduler 3, SQLite WAL"}


def stores(size: Size) -> list[tuple[str, str]]:
    """Return its ways to use SQLite, and what we call them; none when no peers are measured."""
    return list(_STORES.items()) if size.peers else []


class _Environment(Vintage):
    """Made as those of OVOS are, of other pins."""

    @property
    def pins(self) -> Path:
        return _PEERS / f"requirements-{self.name}.txt"

    @property
    def directory(self) -> Path:
        """Where the environment is."""
        return super().directory.with_name(super().directory.name.replace("ovos-", "peer-"))


APSCHEDULER: Final = _Environment("apscheduler")


@dataclass
class Jobs:
    """One running measurement."""

    process: asyncio.subprocess.Process

    async def line(self) -> dict[str, Any]:
        """Return the next result."""
        assert self.process.stdout is not None
        async with asyncio.timeout(5 * WAIT_S):
            text = await self.process.stdout.readline()
        told: dict[str, Any] = json.loads(text)
        return told

    async def kill(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def running(directory: Path, store: str, *arguments: object) -> AsyncIterator[Jobs]:
    """Run a measurement on the database of a directory."""
    await asyncio.to_thread(directory.mkdir, parents=True, exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        str(await asyncio.to_thread(APSCHEDULER.python)),
        str(_JOBS),
        str(directory / "jobs.db"),
        store,
        *map(str, arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=2**24,
    )
    jobs = Jobs(process)
    try:
        yield jobs
    finally:
        await jobs.kill()


async def measure(directory: Path, store: str, *arguments: object) -> dict[str, Any]:
    """Run a measurement on a new database and return its result."""
    shutil.rmtree(directory, ignore_errors=True)
    async with running(directory, store, *arguments) as jobs:
        return await jobs.line()
