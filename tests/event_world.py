"""Scheduled events in virtual time: the real service and store, and a bus that records."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from virtual_time import NS, VirtualClock, VirtualLoop, VirtualTimer
from wakebridge.bus import BusMessage, BusUnavailable
from wakebridge.engine import EventEngine
from wakebridge.schedule.instants import format_instant, parse_instant
from wakebridge.service.events import EventService
from wakebridge.store.schedules_sqlite import SchedulesSqlite

START = "2026-03-01T10:00:00+00:00"


class RecordingBus:
    """Keeps what was emitted; can be down."""

    name = "mqtt"

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.down = False
        self.seen: list[tuple[str, BusMessage]] = []

    async def emit(self, message: BusMessage) -> None:
        if self.down:
            raise BusUnavailable("not connected")
        self.seen.append((format_instant(self.clock.now().wall_ns), message))

    def types(self) -> list[str]:
        return [message.type for _, message in self.seen]

    def fires(self) -> list[tuple[str, str]]:
        """Return (second of firing, due) of every fired event."""
        found = []
        for at, message in self.seen:
            if "scheduler" in message.context:
                scheduler: Any = message.context["scheduler"]
                found.append((at[:19], str(scheduler["due"])[:19]))
        return found

    def data(self, type_: str) -> list[dict[str, Any]]:
        return [json.loads(message.data) for _, message in self.seen if message.type == type_]


class World:
    """One bridge on one disk, to be started, stopped and killed at will."""

    def __init__(self, loop: VirtualLoop, tmp_path: Path, start: str = START) -> None:
        self.clock = VirtualClock(loop, parse_instant(start))
        self.path = tmp_path / "schedules.db"
        self.bus = RecordingBus(self.clock)
        self.administrators: tuple[str, ...] = ("admin",)

    @contextlib.asynccontextmanager
    async def bridge(self, *, bus_up: bool = True) -> AsyncIterator[EventService]:
        store = SchedulesSqlite(self.path)
        timer = VirtualTimer(self.clock)
        engine = EventEngine(self.administrators)
        service = EventService(engine, store, self.clock, timer, lambda: None)
        service.attach(self.bus)
        service.start()
        task = asyncio.create_task(service.run())
        if bus_up:
            service.bus_up("mqtt")
        try:
            yield service
        finally:
            await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            timer.close()
            store.close()

    async def until(self, instant: str) -> None:
        delay_ns = parse_instant(instant) - self.clock.now().wall_ns
        await asyncio.sleep(delay_ns / NS)

    async def off_until(self, instant: str) -> None:
        await self.until(instant)


Scenario = Callable[[World], Awaitable[None]]


async def ask(
    service: EventService, verb: str, body: object, owner: str = "demo", **more: Any
) -> dict[str, Any]:
    context = {"skill_id": owner, "source": "sat-7", **more}
    answer: dict[str, Any] = await service.request(verb, body, context, "mqtt", None)
    return answer


def event(schedule_id: str = "a", **fields: Any) -> dict[str, object]:
    return {"id": schedule_id, "event": "demo.tick", **fields}
