"""`kill -9` in the middle of a storm: what is lost, and what comes twice."""

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Final

from bench import apscheduler_peer
from bench.fires import LEAD_FACTOR, OURS_MQTT, REFERENCE, STOCK, accept_storm
from bench.ovos_stage import LegacyComponent, OvosComponent, ovos_stage
from bench.report import Row, Table, Value, figure
from bench.sizes import Size
from bench.stage import WAIT_S, instant_ns, mqtt_stage
from ovos_envs import PRERELEASE, STABLE, Vintage

QUIET_S: Final = 3.0
"""Nothing heard for so long: nothing more will come. The slowest of them looks twice a second."""


def _figures(names: list[str], due: int, crashes: int) -> dict[str, Value]:
    times = Counter(names)
    repeated = sum(times.values()) - len(times)
    return {
        "due": due,
        "crashes": crashes,
        "lost %": 100 * (due - len(times)) / due,
        "lost": due - len(times),
        "repeated": repeated,
    }


async def storm_with_crashes(directory: Path, count: int, crashes: int) -> dict[str, Value]:
    """Kill the bridge so many times while so many events that are due at once are heard."""
    async with mqtt_stage(directory) as stage:
        component, bridge = stage.component, stage.bridge
        await accept_storm(component, count)
        for number in range(1, crashes + 1):
            await component.until_fired(count * number // (crashes + 1))
            bridge.kill()
            bridge.start()
        await component.until_fired(count)
        async with asyncio.timeout(WAIT_S):
            # The last fire has been heard, and its commit comes after it.
            while (await component.ask("list", {}))["schedules"]:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.1)
        heard = [fire.id for fire in component.fires]
        return _figures(heard, count, crashes)


async def _until_quiet(component: OvosComponent) -> None:
    heard = -1
    while heard != len(component.fires):
        heard = len(component.fires)
        await asyncio.sleep(QUIET_S)


async def _ovos(directory: Path, vintage: Vintage, count: int) -> dict[str, Value]:
    ears = LegacyComponent() if vintage is STABLE else OvosComponent()
    async with ovos_stage(directory, vintage, ears, ours=False) as stage:
        due = await accept_storm(stage.component, count)
        if vintage is STABLE:
            # Its fires come all at once, so it is killed before them. The bus hangs up on whoever
            # has a message on its way to one that dies.
            await asyncio.sleep(0.3)
        else:
            await stage.component.until_fired(count // 2)
        stage.scheduler.kill()
        stage.component.up.clear()
        stage.scheduler.start()
        async with asyncio.timeout(WAIT_S):
            await stage.component.up.wait()
        await asyncio.sleep(max(0.0, (instant_ns(due) - time.time_ns()) / 1e9))
        await _until_quiet(stage.component)
        return _figures([fire.id for fire in stage.component.fires], count, 1)


async def _apscheduler(directory: Path, store: str, count: int) -> dict[str, Value]:
    journal = directory.with_suffix(".journal")
    arguments = ("crash", count, LEAD_FACTOR, journal)
    async with apscheduler_peer.running(directory, store, *arguments) as jobs:
        assert (await jobs.line())["in_time"], "the machine became too slow for this lead"
        async with asyncio.timeout(WAIT_S):
            while _lines(journal) < count // 2:  # noqa: ASYNC110 - a file tells nobody
                await asyncio.sleep(0.005)
        await jobs.kill()
    async with apscheduler_peer.running(directory, store, "crash", 0, 0, journal) as jobs:
        await jobs.line()
    return _figures(_names(journal), count, 1)


def _names(journal: Path) -> list[str]:
    return journal.read_text(encoding="utf-8").split()


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


async def crash(directory: Path, size: Size) -> Table:
    """Measure what a crash in the middle of a storm costs."""
    rows = [
        Row(OURS_MQTT, await storm_with_crashes(directory / "once", size.storm, 1)),
        Row(f"{OURS_MQTT}, often", await storm_with_crashes(directory / "often", size.storm, 5)),
    ]
    for name, vintage in ((STOCK, STABLE), (REFERENCE, PRERELEASE)) if size.peers else ():
        rows.append(Row(name, await _ovos(directory / str(vintage), vintage, size.storm_peer)))
    for store, name in apscheduler_peer.stores(size):
        rows.append(Row(name, await _apscheduler(directory / store, store, size.storm)))
    return Table(
        "kill -9 in the middle of many that are due at once",
        rows,
        notes=["the stock scheduler is killed before they are due; it keeps nothing"],
        faults=[
            f"{row.system}: {figure(row, 'lost'):g} lost, {figure(row, 'repeated'):g} repeated"
            for row in rows[:2]
            if figure(row, "lost") or figure(row, "repeated") > figure(row, "crashes")
        ],
    )
