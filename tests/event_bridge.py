"""The bridge's whole event side in one process: MQTT adapter, service, engine and store.

No board and no daemon: nothing here needs to wake a host.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from wakebridge.adapters.mqtt import MqttBus
from wakebridge.clock import DeadlineTimer, SystemClock
from wakebridge.engine import EventEngine
from wakebridge.mqttbus.config import MqttConfig
from wakebridge.service.events import EventService
from wakebridge.store.schedules_sqlite import SchedulesSqlite


@contextlib.asynccontextmanager
async def event_bridge(config: MqttConfig, state_dir: Path) -> AsyncIterator[MqttBus]:
    """Run it on a broker; yield once it serves requests; stop it in order."""
    with contextlib.ExitStack() as stack:
        store = SchedulesSqlite(state_dir / "schedules.db")
        stack.callback(store.close)
        timer = DeadlineTimer()
        stack.callback(timer.close)
        service = EventService(EventEngine(()), store, SystemClock(), timer, lambda: None)
        service.start()
        bus = MqttBus(config, service)
        service.attach(bus)
        serving = asyncio.create_task(bus.run())
        deciding = asyncio.create_task(service.run())
        try:
            async with asyncio.timeout(10.0):
                await bus.connection.wait_up()
            yield bus
        finally:
            for task in (serving, deciding):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
