"""A disk on which an fsync takes its time, as on an SD card: strace holds each of them back."""

import asyncio
import time
from pathlib import Path
from typing import Final

from bench.fires import OURS_MQTT, accept_storm, storm_figures
from bench.report import Row, Table, Value, quantile
from bench.sizes import Size
from bench.stage import MqttComponent, ahead, mqtt_stage, schedule, schedule_many
from bench.syscalls import slow_fsyncs

FSYNC_MS: Final = 10


async def _figures(component: MqttComponent, count: int) -> dict[str, Value]:
    alone_ms = []
    for number in range(count):
        began = time.perf_counter()
        await schedule(component, f"r{number}", at=ahead(86_400))
        alone_ms.append((time.perf_counter() - began) * 1000)
    began = time.perf_counter()
    await schedule_many(component, (f"m{n}" for n in range(count * 10)), at=ahead(86_400))
    together_s = time.perf_counter() - began
    due = await accept_storm(component, count)
    await component.until_fired(count)
    await asyncio.sleep(0.1)  # what was fired twice would be heard now
    storm = storm_figures(component.fires, due, count)
    return {
        "one answer, p50 ms": quantile(alone_ms, 0.5),
        "answers/s, many at once": count * 10 / together_s,
        "fires due": storm["due"],
        "heard": storm["heard"],
        "twice": storm["twice"],
        "each ms": storm["each ms"],
    }


async def slow_disk(directory: Path, size: Size) -> Table:
    """Measure requests and fires where the disk is slow."""
    count = max(size.requests // 5, 10)
    async with mqtt_stage(directory / "slow", *slow_fsyncs(FSYNC_MS)) as stage:
        row = Row(OURS_MQTT, await _figures(stage.component, count))
    faults = []
    if row.values["heard"] != row.values["fires due"] or row.values["twice"]:
        faults.append(f"{row.values['heard']} of {row.values['fires due']} heard")
    return Table(
        f"Where an fsync takes {FSYNC_MS} ms longer, as on an SD card",
        [row],
        notes=["requests share commits, fires do not: each is on the disk before the next"],
        faults=faults,
    )
