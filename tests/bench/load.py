"""Under load: a minute of requests, thousands due in one second; and at rest."""

import asyncio
import contextlib
import functools
import sqlite3
import time
from pathlib import Path
from typing import Final

import aiohttp

from bench.fires import OURS_MQTT, REFERENCE, STOCK, accept_storm, storm_figures
from bench.ovos_stage import LegacyComponent, OvosComponent, ovos_stage
from bench.report import OURS, Row, Table, Value, figure, median_of, quantile
from bench.sizes import Size
from bench.stage import (
    IN_FLIGHT,
    OWNER,
    WAIT_S,
    MqttComponent,
    ahead,
    broker,
    cpu_s,
    mqtt_stage,
    read_answer,
    schedule,
)
from brokers import free_port
from ovos_envs import PRERELEASE, STABLE
from plain_bridge import PlainBridge
from wakebridge.simboard import DeskBoard

_SETTLE_S: Final = 8.0
"""After a start the countdown is read back at 5 s, to learn how fast the board's clock runs."""


# -- requests --------------------------------------------------------------------------------------


class _Pace:
    """Sends requests at an even rate, however late answers are, with a bound on their number."""

    def __init__(self, component: MqttComponent, rate: int) -> None:
        self._component = component
        self._rate = rate
        self._free = asyncio.Semaphore(IN_FLIGHT)
        self._due = ahead(864_000)
        self.taken_ms: list[float] = []
        """From when a request was to be sent, so that a stall counts for all it held up."""
        self.refused: list[object] = []

    async def run(self, count: int) -> float:
        """Send so many; return how long it took until all were answered."""
        began = time.perf_counter()
        async with asyncio.timeout(count / self._rate + WAIT_S):
            for number in range(count):
                at = began + number / self._rate
                if (wait_s := at - time.perf_counter()) > 0:
                    await asyncio.sleep(wait_s)
                await self._free.acquire()
                body = {"id": f"r{number}", "event": f"{OWNER}.tick", "at": self._due}
                answered = self._component.send("schedule", body)
                answered.add_done_callback(functools.partial(self._take, at))
            for _ in range(IN_FLIGHT):
                await self._free.acquire()
        return time.perf_counter() - began

    def _take(self, at: float, answered: "asyncio.Future[bytes]") -> None:
        self.taken_ms.append((time.perf_counter() - at) * 1000)
        self._free.release()
        answer = read_answer(answered.result())
        if not answer["ok"]:
            self.refused.append(answer)


def _stored(bridge: PlainBridge) -> int:
    with contextlib.closing(sqlite3.connect(bridge.state_dir / "schedules.db")) as db:
        return int(db.execute("SELECT count(*) FROM schedules").fetchone()[0])


async def load(directory: Path, size: Size) -> Table:
    """Measure a steady stream of requests; what was accepted is counted after a `kill -9`."""
    count = round(size.load_rate * size.load_s)
    async with mqtt_stage(directory / "load") as stage:
        pace = _Pace(stage.component, size.load_rate)
        cpu_before_s = cpu_s(stage.bridge.pid)
        took_s = await pace.run(count)
        cpu = 100 * (cpu_s(stage.bridge.pid) - cpu_before_s) / took_s
        stage.bridge.kill()
        stored = _stored(stage.bridge)
    row = Row(
        OURS_MQTT,
        {
            "asked": count,
            "per s": count / took_s,
            "p50 ms": quantile(pace.taken_ms, 0.5),
            "p99 ms": quantile(pace.taken_ms, 0.99),
            "max ms": max(pace.taken_ms),
            "refused": len(pace.refused),
            "stored": stored,
            "CPU %": cpu,
        },
    )
    faults = []
    if stored != count or pace.refused:
        faults.append(f"{count} asked, {stored} stored, {len(pace.refused)} refused")
    return Table(f"{size.load_rate} requests a second over MQTT", [row], faults=faults)


async def rush(directory: Path, size: Size) -> Table:
    """Measure twice as many due in one second as a storm has."""
    async with mqtt_stage(directory / "rush") as stage:
        due = await accept_storm(stage.component, size.rush)
        await stage.component.until_fired(size.rush)
        await asyncio.sleep(0.1)  # what was fired twice would be heard now
        row = Row(OURS_MQTT, storm_figures(stage.component.fires, due, size.rush))
    faults = []
    if figure(row, "heard") != size.rush or figure(row, "twice"):
        faults.append(f"{figure(row, 'heard'):g} of {size.rush} heard")
    return Table(f"{size.rush} due in the same second", [row], faults=faults)


# -- at rest ---------------------------------------------------------------------------------------


def _wakeups(pid: int) -> int:
    """Return how often the threads of a process have gone to sleep by themselves."""
    total = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        for line in status.read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches:"):
                total += int(line.split()[1])
    return total


def _written(pid: int) -> int:
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("write_bytes:"):
            return int(line.split()[1])
    raise AssertionError("no write_bytes")


async def _frames(http_port: int) -> int:
    """Return how many frames the bridge and its board have exchanged."""
    url = f"http://127.0.0.1:{http_port}/api/health"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        link = (await response.json())["board"]["link"]
    return int(link["requests"]) + int(link["frames"])


async def _at_rest(pid: int, seconds: float) -> dict[str, Value]:
    cpu, wakeups, written = cpu_s(pid), _wakeups(pid), _written(pid)
    await asyncio.sleep(seconds)
    return {
        "CPU ms/min": 60_000 * (cpu_s(pid) - cpu) / seconds,
        "wake-ups/min": 60 * (_wakeups(pid) - wakeups) / seconds,
        "bytes written/min": 60 * (_written(pid) - written) / seconds,
    }


async def _our_rest(directory: Path, size: Size) -> dict[str, Value]:
    """Watch a bridge with a board, a broker and 100 schedules that are far away."""
    component = MqttComponent()
    http_port = free_port()
    async with DeskBoard(directory / "board") as board:
        with broker(directory / "broker") as running:
            bridge = PlainBridge(
                directory / "bridge",
                {
                    "mqtt": {"port": running.port},
                    "http": {"port": http_port},
                    "board": {"port": str(board.port)},
                },
            )
            bridge.start()
            try:
                await component.connect(running.port)
                await asyncio.wait_for(component.online.wait(), WAIT_S)
                for number in range(size.few):
                    await schedule(component, f"s{number}", at=ahead(86_400 + number))
                await asyncio.sleep(min(_SETTLE_S, size.idle_s))
                frames = await _frames(http_port)
                used = await _at_rest(bridge.pid, size.idle_s)
                frames = await _frames(http_port) - frames
                return {**used, "frames/min": 60 * frames / size.idle_s}
            finally:
                component.close()
                bridge.stop()


async def idle(directory: Path, size: Size) -> Table:
    """Measure what a bridge does that has nothing to do, and what the OVOS schedulers do."""
    rounds = [await _our_rest(directory / f"ours-{n}", size) for n in range(size.rounds_peer)]
    rows = [Row(f"{OURS}, MQTT and a board", median_of(rounds))]
    peers = (
        (STOCK, STABLE, LegacyComponent()),
        (REFERENCE, PRERELEASE, OvosComponent()),
    )
    for name, vintage, ears in peers if size.peers else ():
        async with ovos_stage(directory / str(vintage), vintage, ears, ours=False) as stage:
            for number in range(size.few):
                await schedule(stage.component, f"s{number}", at=ahead(86_400 + number))
            await asyncio.sleep(min(_SETTLE_S, size.idle_s))
            rows.append(Row(name, await _at_rest(stage.scheduler.pid, size.idle_s)))
    return Table(
        f"At rest, {size.few} schedules that are far away",
        rows,
        compared="wake-ups/min",
        notes=["a wake-up is a time a thread went to sleep by itself (voluntary_ctxt_switches)"],
    )
