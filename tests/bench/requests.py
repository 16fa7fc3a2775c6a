"""What a request costs: time to the durable answer, at several store sizes, and disk writes."""

import asyncio
import itertools
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from bench import apscheduler_peer
from bench.fires import OURS_MQTT, OURS_OVOS, REFERENCE, STOCK, accept_storm
from bench.ovos_stage import OvosComponent, ovos_stage
from bench.report import Row, Table, Target, Value, figure, median_of, quantile, spread
from bench.sizes import Size
from bench.stage import (
    Component,
    ahead,
    mqtt_stage,
    schedule,
    schedule_many,
)
from bench.syscalls import Trace, Writes, traced
from ovos_envs import PRERELEASE, STABLE

ANSWER_P50_MS: Final = 2.0
CROWD_RATIO: Final = 1.3
FSYNCS: Final = 1.0
BYTES: Final = 20_000.0
BEFORE_FOLDING: Final = 200
"""So many acceptances fit in the store's log before it is folded into the database the first time.
That takes three fsyncs for each 1000 pages, some 300 acceptances."""
STALL_MS: Final = 40.0
"""A delayed acknowledgement holds a packet back for so long, or for twice that."""
STALLED_PERCENT: Final = 1.0
"""Where it does, it does so to most of them; a busy machine does to one in some hundreds."""

WARM_UP: Final = 50
"""The bridge commits on a thread until the disk has shown to be fast."""


async def _asked_ms(component: Component, count: int, name: str = "r") -> list[float]:
    """Have so many events accepted, one after the other; how long each took."""
    taken_ms = []
    for number in range(count):
        began = time.perf_counter()
        await schedule(component, f"{name}{number}", at=ahead(86_400), data={"n": number})
        taken_ms.append((time.perf_counter() - began) * 1000)
    return taken_ms


def _answer_figures(taken_ms: list[float]) -> dict[str, Value]:
    stalls = sum(each >= STALL_MS for each in taken_ms)
    return {**spread(taken_ms), "stalled %": 100 * stalls / len(taken_ms)}


# -- time ------------------------------------------------------------------------------------------


async def _mqtt(directory: Path, size: Size) -> dict[str, Value]:
    async with mqtt_stage(directory) as stage:
        await _asked_ms(stage.component, min(WARM_UP, size.requests), "w")
        return _answer_figures(await _asked_ms(stage.component, size.requests))


async def _ovos(directory: Path, count: int, *, ours: bool) -> dict[str, Value]:
    vintage = STABLE if ours else PRERELEASE
    async with ovos_stage(directory, vintage, OvosComponent(), ours=ours) as stage:
        return _answer_figures(await _asked_ms(stage.component, count))


async def answers(directory: Path, size: Size) -> Table:
    """Measure the time from a request to its durable answer, one request at a time."""
    numbers, peer_numbers = range(size.rounds), range(size.rounds_peer)
    mqtt = [await _mqtt(directory / f"mqtt-{n}", size) for n in numbers]
    ovos = [await _ovos(directory / f"ovos-{n}", size.requests, ours=True) for n in numbers]
    rows = [Row(OURS_MQTT, median_of(mqtt)), Row(OURS_OVOS, median_of(ovos))]
    if size.peers:
        rows.append(Row(STOCK, {"p50": "no answer", "p99": "not durable"}))
        place, count = directory / "pre", size.requests_peer
        pre = [await _ovos(place / str(n), count, ours=False) for n in peer_numbers]
        rows.append(Row(REFERENCE, median_of(pre)))
    for store, name in apscheduler_peer.stores(size):
        place = directory / store
        told = [
            await apscheduler_peer.measure(place, store, "requests", size.requests)
            for _ in peer_numbers
        ]
        rows.append(Row(name, median_of([_answer_figures(each["ms"]) for each in told])))
    return Table(
        "Request to durable answer, ms, one at a time",
        rows,
        compared="p50",
        targets=[
            Target("p50 over MQTT", figure(rows[0], "p50"), ANSWER_P50_MS, "ms"),
            Target("stalls over MQTT", figure(rows[0], "stalled %"), STALLED_PERCENT, "%"),
        ],
        notes=[
            "APScheduler: a call of add_job in its own process, without any transport",
            "the OVOS bus itself delays what a client that is not ours sends by up to 40 ms",
        ],
    )


# -- store size ------------------------------------------------------------------------------------


async def _fill(component: Component, count: int) -> None:
    ids = (f"stored{number}" for number in itertools.count())
    await schedule_many(component, itertools.islice(ids, count), at=ahead(864_000))


async def _pair(directory: Path, size: Size) -> tuple[list[float], list[float]]:
    """Ask two bridges in turn, one with few schedules, one with many: noise hits both alike."""
    async with AsyncExitStack() as stack:
        few, crowd = [
            await stack.enter_async_context(mqtt_stage(directory / name))
            for name in ("few", "crowd")
        ]
        await _fill(few.component, size.few)
        await _fill(crowd.component, size.crowd)
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(size.requests):
            for stage, taken in zip((few, crowd), times, strict=True):
                # The same id: the sizes stay what they are.
                taken.extend(await _asked_ms(stage.component, 1))
        return times


async def _reference_at(directory: Path, stored: int, count: int) -> float:
    async with ovos_stage(directory, PRERELEASE, OvosComponent(), ours=False) as stage:
        for number in range(stored):
            await schedule(stage.component, f"stored{number}", at=ahead(864_000))
        return quantile(await _asked_ms(stage.component, count), 0.5)


async def store_size(directory: Path, size: Size) -> Table:
    """Measure what a request costs with few and with many schedules stored."""
    rounds: list[dict[str, Value]] = []
    for number in range(size.rounds):
        few, crowd = await _pair(directory / f"round-{number}", size)
        few_ms, crowd_ms = quantile(few, 0.5), quantile(crowd, 0.5)
        rounds.append({"p50, few": few_ms, "p50, many": crowd_ms, "many/few": crowd_ms / few_ms})
    ours = Row(f"{OURS_MQTT}, {size.few} and {size.crowd}", median_of(rounds))
    rows = [ours]
    if size.peers:
        # Its acceptance of many takes longer than anybody waits: each one rewrites all of them.
        many = size.few * 8
        at_few = await _reference_at(directory / "pre-few", size.few, size.requests_peer)
        at_many = await _reference_at(directory / "pre-many", many, size.requests_peer)
        pre = {"p50, few": at_few, "p50, many": at_many, "many/few": at_many / at_few}
        rows.append(Row(f"{REFERENCE}, {size.few} and {many}", pre))
    return Table(
        "Request to durable answer with few and with many schedules stored, ms",
        rows,
        targets=[Target("many/few", figure(ours, "many/few"), CROWD_RATIO)],
    )


# -- writes ----------------------------------------------------------------------------------------


def _each(writes: Writes, count: int) -> dict[str, Value]:
    return {
        "fsyncs": writes.fsyncs / count,
        "bytes": writes.bytes / count,
        "write calls": writes.calls / count,
    }


async def _requests(trace: Trace, count: int, at_once: int) -> Writes:
    component = trace.stage.component
    with trace.counting() as counted:
        for number in range(0, count, at_once):
            asked = [
                schedule(component, f"r{n}", at=ahead(86_400), data={"n": n})
                for n in range(number, number + at_once)
            ]
            await asyncio.gather(*asked)
    return counted


async def _fires(trace: Trace, count: int) -> Writes:
    component = trace.stage.component
    await accept_storm(component, count)
    with trace.counting() as counted:
        await component.until_fired(count)
        await asyncio.sleep(0.2)  # the last commit comes after its event
    return counted


async def writes(directory: Path, size: Size) -> Table:
    """Count what is written to the disk for an acceptance and for a fire, with strace."""
    count = size.requests
    many = count // 10 * 10
    async with traced(directory / "writes") as trace:
        alone = await _requests(trace, min(count, BEFORE_FOLDING), at_once=1)
        folding = await _requests(trace, count, at_once=1)
        shared = await _requests(trace, many, at_once=10)
        fires = await _fires(trace, count)
    rows = [
        Row("acceptance, one at a time", _each(alone, min(count, BEFORE_FOLDING))),
        Row("the same, with the folding of the log", _each(folding, count)),
        Row("acceptance, ten at once", _each(shared, many)),
        Row("fire, with the folding of the log", _each(fires, count)),
    ]
    return Table(
        "Disk writes for each, all that the bridge writes to its state directory",
        rows,
        notes=["a record with much data writes that much more"],
        targets=[
            Target("fsyncs of an acceptance", figure(rows[0], "fsyncs"), FSYNCS),
            Target("bytes of an acceptance", figure(rows[0], "bytes"), BYTES),
        ],
    )
