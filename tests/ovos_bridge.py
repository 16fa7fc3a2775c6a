"""The bridge's scheduled events on an OVOS bus, in the test's own process."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

from wakebridge.adapters.ovos import OvosAdapter, OvosConfig
from wakebridge.clock import DeadlineTimer, SystemClock
from wakebridge.engine import EventEngine
from wakebridge.service.events import EventService
from wakebridge.store.schedules_sqlite import SchedulesSqlite


@contextlib.asynccontextmanager
async def bridge(port: int, store_path: Path) -> AsyncIterator[EventService]:
    """Run service, store and adapter until the block ends."""
    clock = SystemClock()
    timer = DeadlineTimer()
    store = SchedulesSqlite(store_path)
    service = EventService(EventEngine(("admin.skill",)), store, clock, timer, lambda: None)
    adapter = OvosAdapter(OvosConfig(port=port), service, clock)
    service.attach(adapter)
    service.start()
    tasks = [asyncio.ensure_future(service.run()), asyncio.ensure_future(adapter.run())]
    try:
        yield service
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        timer.close()
        store.close()


async def _serve(port: int, store_path: Path) -> None:
    async with bridge(port, store_path):
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(_serve(int(os.environ["PORT"]), Path(os.environ["STORE"])))
