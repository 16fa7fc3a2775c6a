"""How late events are heard: one by one with the host awake, and thousands at once."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from bench import apscheduler_peer
from bench.ovos_stage import LegacyComponent, OvosComponent, ovos_stage
from bench.report import OURS, Row, Table, Target, Value, figure, median_of, spread
from bench.sizes import Size
from bench.stage import (
    Component,
    Fire,
    MqttComponent,
    ahead,
    instant_ns,
    mqtt_stage,
    schedule,
    schedule_many,
)
from ovos_envs import PRERELEASE, STABLE

LATENESS_P99_MS: Final = 5.0
STORM_LAST_S: Final = 3.0

LEAD_FACTOR: Final = 2.0
"""So many times as long as acceptance should take, a storm lies ahead when it begins."""

OURS_MQTT: Final = f"{OURS}, MQTT"
OURS_OVOS: Final = f"{OURS}, OVOS bus"
STOCK: Final = "stock OVOS scheduler"
REFERENCE: Final = "OVOS pre-release"

Measure = Callable[[Component], Awaitable[dict[str, Value]]]


@asynccontextmanager
async def mqtt_component(directory: Path) -> AsyncIterator[MqttComponent]:
    async with mqtt_stage(directory) as stage:
        yield stage.component


_ON_OVOS: Final = (
    (OURS_OVOS, STABLE, True),
    (STOCK, STABLE, False),
    (REFERENCE, PRERELEASE, False),
)
"""Who is measured on the OVOS bus: of which vintage the bus is, and whether it is us."""


async def each_system(directory: Path, size: Size, ours: Measure, peers: Measure) -> list[Row]:
    """Measure us and both OVOS schedulers, each over the bus that it lives on."""
    rows = []
    on_mqtt = []
    for number in range(size.rounds):
        async with mqtt_component(directory / f"mqtt-{number}") as component:
            on_mqtt.append(await ours(component))
    rows.append(Row(OURS_MQTT, median_of(on_mqtt)))
    for name, vintage, mine in _ON_OVOS[: None if size.peers else 1]:
        figures = []
        for number in range(size.rounds if mine else size.rounds_peer):
            place = directory / f"{vintage}-{mine}-{number}"
            ears = LegacyComponent() if name == STOCK else OvosComponent()
            async with ovos_stage(place, vintage, ears, ours=mine) as stage:
                figures.append(await (ours if mine else peers)(stage.component))
        rows.append(Row(name, median_of(figures)))
    return rows


# -- one by one ------------------------------------------------------------------------------------


async def _lateness(component: Component, count: int, spacing_s: float) -> dict[str, Value]:
    """Hear so many events, evenly apart."""
    lead_s = 1.0 + 0.002 * count
    dues = [ahead(lead_s + number * spacing_s) for number in range(count)]
    for number, due in enumerate(dues):
        await schedule(component, f"l{number}", at=due)
    await component.until_fired(count)
    assert instant_ns(dues[0]) < component.fires[0].heard_ns, "asked too late to tell"
    return spread([fire.late_ms for fire in component.fires])


async def lateness(directory: Path, size: Size) -> Table:
    """Measure fire lateness."""
    rows = await each_system(
        directory,
        size,
        lambda component: _lateness(component, size.fires, size.spacing_s),
        # They look twice a second, so their events must not all fall on the same look.
        lambda component: _lateness(component, size.fires_peer, 0.137),
    )
    for store, name in apscheduler_peer.stores(size):
        rounds = []
        for number in range(size.rounds_peer):
            told = await apscheduler_peer.measure(
                directory / f"{store}-{number}", store, "lateness", size.fires, size.spacing_s
            )
            rounds.append(spread(told["ms"]))
        rows.append(Row(name, median_of(rounds)))
    return Table(
        "Fire lateness with the host awake, ms from due to heard",
        rows,
        compared="p99",
        targets=[Target("p99 over MQTT", figure(rows[0], "p99"), LATENESS_P99_MS, "ms")],
        notes=["APScheduler calls a function in its own process; all others reach another one"],
    )


# -- at once ---------------------------------------------------------------------------------------


async def accept_storm(component: Component, count: int) -> str:
    """Have so many schedules accepted for one instant; return it.

    Some are accepted for another instant first, to see how long that takes on this machine.
    """
    trial = max(count // 20, 5)
    began = time.perf_counter()
    await schedule_many(component, (f"s{n}" for n in range(trial)), at=ahead(864_000))
    each_s = (time.perf_counter() - began) / trial
    due = ahead(1.0 + LEAD_FACTOR * each_s * count)
    await schedule_many(component, (f"s{n}" for n in range(count)), at=due)
    assert instant_ns(due) > instant_ns(ahead(0)), "the machine became too slow for this lead"
    return due


async def _storm(component: Component, count: int) -> dict[str, Value]:
    """Hear so many events that are due at once; s from due to the last, and ms for each."""
    await asyncio.to_thread(os.sync)  # what others have written must not come in between
    due = await accept_storm(component, count)
    await component.until_fired(count)
    await asyncio.sleep(0.1)  # what was fired twice would be heard now
    return storm_figures(component.fires, due, count)


def storm_figures(fires: list[Fire], due: str, count: int) -> dict[str, Value]:
    last_s = (fires[-1].heard_ns - instant_ns(due)) / 1e9
    return {
        "due": count,
        "heard": len({fire.id for fire in fires}),
        "twice": len(fires) - len({fire.id for fire in fires}),
        "last s": last_s,
        "each ms": last_s * 1000 / count,
    }


async def storm(directory: Path, size: Size) -> Table:
    """Measure many schedules that are due in one instant."""
    rows = await each_system(
        directory,
        size,
        lambda component: _storm(component, size.storm),
        lambda component: _storm(component, size.storm_peer),
    )
    for store, name in apscheduler_peer.stores(size):
        rounds: list[dict[str, Value]] = []
        for number in range(size.rounds_peer):
            place = directory / f"{store}-{number}"
            told = await apscheduler_peer.measure(place, store, "storm", size.storm, LEAD_FACTOR)
            assert told["in_time"], "the machine became too slow for this lead"
            each_ms = told["last_s"] * 1000 / size.storm
            figures = {"due": size.storm, "heard": told["ran"], "twice": 0}
            rounds.append({**figures, "last s": told["last_s"], "each ms": each_ms})
        rows.append(Row(name, median_of(rounds)))
    return Table(
        "Due in the same instant, one commit for each fire",
        rows,
        compared="each ms",
        targets=[Target("the last heard over MQTT", figure(rows[0], "last s"), STORM_LAST_S, "s")],
        notes=[
            "the pre-release writes its whole file twice per fire: its cost grows with the number",
            "the stock scheduler keeps nothing on disk",
        ],
        faults=[
            f"{row.system}: {figure(row, 'heard'):g} of {figure(row, 'due'):g} heard,"
            f" {figure(row, 'twice'):g} twice"
            for row in rows[:2]
            if figure(row, "heard") != figure(row, "due") or figure(row, "twice")
        ],
    )
