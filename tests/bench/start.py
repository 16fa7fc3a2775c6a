"""What a large store costs: at a start, in memory, and when nothing is due."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from bench.report import Row, Table, Target, Value, figure, median_of
from bench.sizes import Size
from bench.stage import WAIT_S, MqttComponent, broker
from plain_bridge import PlainBridge
from wakebridge.engine import EventEngine, Request
from wakebridge.schedule.book import Change
from wakebridge.schedule.instants import Now
from wakebridge.schedule.misfire import Schedule
from wakebridge.store.schedules_sqlite import SchedulesSqlite

READY_S: Final = 1.0
BYTES_EACH: Final = 1_000.0
TICK_RATIO: Final = 1.3
"""The same, within what a measurement of some microseconds can tell."""

_CHUNK: Final = 1_000
_TICKS: Final = 1_000
_REPEATS: Final = 20


def schedules(count: int, now: Now) -> list[Schedule]:
    """Return a mixture as components make it: half of them daily, some periods, some one-shots."""
    engine = EventEngine()
    made = []
    for number in range(count):
        owner = f"skill-{number % 50}.author"
        timing: dict[str, object]
        match number % 4:
            case 0:
                timing = {"every": {"seconds": 3600 * (1 + number % 24)}}
            case 1:
                timing = {"in": {"seconds": 86_400 + number}}
            case _:
                clock = f"{number % 24:02d}:{number % 60:02d}"
                timing = {"local": {"time": clock, "zone": "Europe/Lisbon"}}
        data = {"utterance": f"reminder number {number}", "lang": "pt-PT"}
        body = {"id": f"reminder-{number}", "event": f"{owner}.remind", "data": data, **timing}
        context = {"skill_id": owner, "source": owner, "session": {"session_id": "default"}}
        encoded = msgspec.json.encode(context)
        decision = engine.decide(Request("schedule", body, context, encoded, "mqtt"), now)
        assert decision.change is not None, decision
        assert decision.change.schedule is not None
        made.append(decision.change.schedule)
    return made


def wall_now() -> Now:
    return Now(time.time_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME))


async def fill(path: Path, count: int, now: Now) -> None:
    """Make a store of so many schedules that were accepted at `now`."""
    store = SchedulesSqlite(path)
    made = schedules(count, now)
    for at in range(0, count, _CHUNK):
        await store.commit([Change(s.key, s) for s in made[at : at + _CHUNK]], now.wall_ns)
    store.close()


def _loaded(path: Path, now: Now) -> dict[str, Value]:
    """Load a store in a process of its own, since memory is told per process."""
    said = subprocess.run(
        (sys.executable, "-m", "bench.start", str(path), str(now.wall_ns), str(now.boot_ns)),
        check=True,
        capture_output=True,
        timeout=WAIT_S,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    figures: dict[str, Value] = msgspec.json.decode(said.stdout)
    return figures


def load(path: Path, now: Now) -> dict[str, Value]:
    """Load the store at an instant at which nothing is due, and look for what is due.

    Times in s and us, memory in bytes.
    """
    before = _resident_bytes()
    began, cpu_began = time.perf_counter(), time.process_time()
    store = SchedulesSqlite(path)
    loaded = store.load(now.wall_ns)
    engine = EventEngine()
    ready = engine.load(loaded.schedules, loaded.newest_past_ns, now)
    loaded_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    del loaded
    each = (_resident_bytes() - before) / max(ready.schedules, 1)
    return {
        "schedules": ready.schedules,
        "load s": loaded_s,
        "of that CPU s": cpu_s,
        "bytes each": each,
        "tick us": _tick_us(engine, now),
    }


def _tick_us(engine: EventEngine, now: Now) -> float:
    """Return what one turn of the service asks of the engine when nothing is due."""
    assert engine.due(now) == []
    took = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        for _ in range(_TICKS):
            engine.clock_step_ns(now)
            engine.observe(now)
            engine.due(now)
            engine.deadlines()
            engine.earliest_ns(now)
        took.append(time.perf_counter() - began)
    return min(took) * 1e6 / _TICKS  # the least disturbed by others


def _resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def _give(store: Path, state_dir: Path) -> None:
    state_dir.mkdir(parents=True, mode=0o700)
    (state_dir / "schedules.db").write_bytes(store.read_bytes())
    (state_dir / "schedules.db").chmod(0o600)


async def _online_s(directory: Path, store: Path) -> float:
    """Return how long a bridge with that store takes from its start to its first promise."""
    component = MqttComponent()
    with broker(directory / "broker") as running:
        bridge = PlainBridge(directory / "bridge", {"mqtt": {"port": running.port}})
        await asyncio.to_thread(_give, store, bridge.state_dir)
        await component.connect(running.port)
        try:
            began = time.perf_counter()
            bridge.start()
            async with asyncio.timeout(WAIT_S):
                await component.online.wait()
            return time.perf_counter() - began
        finally:
            component.close()
            bridge.stop()


async def start(directory: Path, size: Size) -> Table:
    """Measure a start with few and with many schedules in the store."""
    rows = []
    for count in (min(100, size.stored), size.stored):
        store = directory / f"{count}.db"
        now = wall_now()
        await fill(store, count, now)
        rounds = []
        for number in range(size.rounds):
            figures = _loaded(store, now)
            online_s = await _online_s(directory / f"{count}-{number}", store)
            rounds.append({**figures, "start to online s": online_s})
        rows.append(Row(f"{count} schedules", median_of(rounds)))
    few, many = rows
    ticks = figure(many, "tick us") / figure(few, "tick us")
    return Table(
        "A start, memory, and a tick with nothing due",
        rows,
        targets=[
            Target(f"{size.stored} loaded", figure(many, "load s"), READY_S, "s"),
            Target("memory of a schedule", figure(many, "bytes each"), BYTES_EACH, "bytes"),
            Target("tick at many / tick at few", ticks, TICK_RATIO),
        ],
        notes=["start to online: the interpreter, all imports and the broker included"],
    )


if __name__ == "__main__":
    figures = load(Path(sys.argv[1]), Now(int(sys.argv[2]), int(sys.argv[3])))
    sys.stdout.buffer.write(msgspec.json.encode(figures))
