"""The bridge on an OVOS bus: its events in the test's own process, or all of it in another."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Self

from wakebridge.adapters.ovos import OvosAdapter, OvosConfig
from wakebridge.clock import DeadlineTimer, SystemClock
from wakebridge.engine import EventEngine
from wakebridge.service.events import EventService
from wakebridge.store.schedules_sqlite import SchedulesSqlite


@contextlib.asynccontextmanager
async def bridge(
    port: int, store_path: Path, replay_delay_s: float = 0.0
) -> AsyncIterator[EventService]:
    """Run service, store and adapter on the bus; `skills.loaded` opens the replay."""
    clock = SystemClock()
    timer = DeadlineTimer()
    store = SchedulesSqlite(store_path)
    engine = EventEngine(("admin.skill",))
    service = EventService(engine, store, clock, timer, lambda: None, replay_delay_s)
    adapter = OvosAdapter(OvosConfig(port=port, replay_after="skills.loaded"), service, clock)
    service.attach(adapter)
    service.start()
    tasks = [asyncio.ensure_future(service.run()), asyncio.ensure_future(adapter.run())]
    try:
        async with asyncio.timeout(10):
            await adapter._connection.wait_up()
        yield service
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        timer.close()
        store.close()


class BridgeProcess:
    """The whole bridge as a process, without a board; the block ends it as `kill -9` does."""

    def __init__(self, port: int, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self._config = directory / "wakebridge.toml"
        self._config.write_text(
            f"""
            config_dir = "{directory}/agent"
            state_dir = "{directory}/state"
            board.glob = "{directory}/no-board"
            [ovos]
            enabled = true
            port = {port}
            """
        )

    def __enter__(self) -> Self:
        command = (sys.executable, "-m", "wakebridge", "serve", "--config", str(self._config))
        self._process = subprocess.Popen(command)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
