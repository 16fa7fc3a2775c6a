"""What this machine takes for what nobody can do without: an fsync, a timer, a way to the broker.

On a machine that others use, or on another kind of disk, these explain the figures below them.
"""

import asyncio
import os
import time
from pathlib import Path
from typing import Final

from bench.report import Row, Table, Value, median_of, spread
from bench.sizes import Size
from bench.stage import broker
from bench.wire_client import WireClient

_PAGES: Final = 8192
"""Bytes of two pages, which is what an acceptance writes at least."""


def _fsync_ms(path: Path, count: int) -> dict[str, Value]:
    """Overwrite two pages of a file and wait for the disk, again and again."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, bytes(_PAGES * count))
        os.fsync(descriptor)
        taken_ms = []
        for number in range(count):
            os.pwrite(descriptor, os.urandom(_PAGES), number * _PAGES)
            began = time.perf_counter()
            os.fdatasync(descriptor)
            taken_ms.append((time.perf_counter() - began) * 1000)
        return spread(taken_ms)
    finally:
        os.close(descriptor)


async def _timer_ms(count: int) -> dict[str, Value]:
    """Sleep until instants that are 5 ms apart; how late each ends."""
    late_ms = []
    for _ in range(count):
        at = time.perf_counter() + 0.005
        await asyncio.sleep(0.005)
        late_ms.append((time.perf_counter() - at) * 1000)
    return spread(late_ms)


async def _broker_ms(directory: Path, count: int) -> dict[str, Value]:
    """Publish to oneself with QoS 1."""
    loop = asyncio.get_running_loop()
    heard: asyncio.Future[None] = loop.create_future()
    with broker(directory) as running:
        client = await WireClient.connect(running.port, "floor", lambda *_: heard.set_result(None))
        await client.subscribe("floor")
        taken_ms = []
        for _ in range(count):
            heard = loop.create_future()
            began = time.perf_counter()
            client.publish(b"floor", b"{}", b"", b"")
            await heard
            taken_ms.append((time.perf_counter() - began) * 1000)
        client.close()
    return spread(taken_ms)


async def floors(directory: Path, size: Size) -> Table:
    """Measure the machine."""
    rounds: dict[str, list[dict[str, Value]]] = {}
    count = size.requests
    for number in range(size.rounds):
        disk = await asyncio.to_thread(_fsync_ms, directory / "fsync", count)
        rounds.setdefault("fdatasync of 8 kB", []).append(disk)
        rounds.setdefault("asyncio timer, lateness", []).append(await _timer_ms(count))
        there_and_back = await _broker_ms(directory / f"broker-{number}", count)
        rounds.setdefault("mosquitto, QoS 1, to oneself", []).append(there_and_back)
    rows = [Row(name, median_of(figures)) for name, figures in rounds.items()]
    return Table("Floors of this machine, ms", rows)
