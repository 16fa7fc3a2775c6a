"""Every measurement by name, in the order in which they are run."""

import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from bench import fires, floors, kills, load, requests, slow_disk, start, virtual_day
from bench.apscheduler_peer import APSCHEDULER
from bench.report import Table
from bench.sizes import Size
from ovos_envs import PRERELEASE, STABLE

Measurement = Callable[[Path, Size], Coroutine[Any, Any, Table]]

MEASUREMENTS: Final[dict[str, Measurement]] = {
    "floors": floors.floors,
    "answers": requests.answers,
    "store-size": requests.store_size,
    "writes": requests.writes,
    "lateness": fires.lateness,
    "storm": fires.storm,
    "crash": kills.crash,
    "slow-disk": slow_disk.slow_disk,
    "start": start.start,
    "load": load.load,
    "rush": load.rush,
    "idle": load.idle,
    "virtual-day": virtual_day.virtual_day,
}


def scratch() -> Path:
    """Return a directory on the disk that the tree is on."""
    place = Path(__file__).parent.parent.parent / ".cache"
    place.mkdir(exist_ok=True)
    return place


def peer_versions() -> dict[str, str]:
    """Return the versions of the peers, as they are pinned."""
    pins = {each: each.pins.read_text(encoding="utf-8") for each in (STABLE, PRERELEASE)}
    found = {
        f"ovos-bus-client {each}": _pin(text, "ovos-bus-client") for each, text in pins.items()
    }
    jobs = _pin(APSCHEDULER.pins.read_text(encoding="utf-8"), "apscheduler")
    return {**found, "APScheduler": jobs}


def _pin(text: str, name: str) -> str:
    found = re.search(rf"^{name}==(\S+)", text, re.MULTILINE)
    assert found is not None, name
    return found[1]
