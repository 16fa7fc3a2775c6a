"""Whether a bridge is well: how soon it answers, and what it takes of memory and processor."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bridges import BridgeProcess, Owner

_PAUSE_S = 0.05


def rss_bytes(pid: int) -> int:
    """Return what a process has in memory now."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def cpu_s(pid: int) -> float:
    """Return the processor time a process has used."""
    return time.clock_gettime(~pid << 3 | 2)  # the kernel's clock id of another process


async def end(tasks: Sequence[asyncio.Task[None]]) -> list[BaseException | None]:
    """End tasks that never end by themselves, and return what each raised.

    Before Python 3.12 `asyncio.wait_for`, which the MQTT library uses, loses a cancellation that
    comes together with its result: so each is cancelled until it is gone.
    """
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=0.2)
    return await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class Signs:
    """The slowest answers while it was looked, in seconds."""

    http_s: list[float] = field(default_factory=list)
    mqtt_s: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"HTTP {1000 * max(self.http_s):.0f} ms of {len(self.http_s)}, "
            f"MQTT {1000 * max(self.mqtt_s):.0f} ms of {len(self.mqtt_s)}"
        )


@contextlib.asynccontextmanager
async def watched(bridge: BridgeProcess, owner: Owner) -> AsyncIterator[Signs]:
    """Ask again and again for as long as the block runs, over HTTP and over MQTT."""
    signs = Signs()

    async def over_http() -> None:
        while True:
            began_s = time.monotonic()
            assert (await bridge.http("GET", "/api/health")).status == 200
            signs.http_s.append(time.monotonic() - began_s)
            await asyncio.sleep(_PAUSE_S)

    async def over_mqtt() -> None:
        while True:
            began_s = time.monotonic()
            await owner.ask("list", {})
            signs.mqtt_s.append(time.monotonic() - began_s)
            await asyncio.sleep(_PAUSE_S)

    asking = [asyncio.create_task(over_http()), asyncio.create_task(over_mqtt())]
    try:
        yield signs
    finally:
        for result in await end(asking):
            if not isinstance(result, asyncio.CancelledError):
                raise result if isinstance(result, BaseException) else AssertionError(result)
