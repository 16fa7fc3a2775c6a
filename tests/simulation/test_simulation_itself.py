"""The simulation is what its page says: the real parts, all operations, all properties."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from wakebridge.board.supervisor import Supervisor
from wakebridge.engine import EventEngine
from wakebridge.service.events import EventService
from wakebridge.service.routines import RoutineService
from wakebridge.service.waking import Waking
from wakebridge.store.schedules_sqlite import SchedulesSqlite

from . import properties
from .actions import Actions
from .fleet import run_device
from .history import OPERATIONS, PROFILES, draw
from .host import Bridge
from .world import World

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
PAGE = ROOT / "host" / "docs" / "explanation" / "simulation.md"
NAMES = {name: text for name, text in vars(properties).items() if name.isupper() and name[0] != "_"}


def test_the_parts_of_host_and_board_are_the_real_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[set[type], Any]] = []
    ends = Bridge.kill

    def look(bridge: Bridge) -> None:
        seen.append(({type(part) for part in bridge.parts}, world.board.firmware))
        ends(bridge)

    monkeypatch.setattr(Bridge, "kill", look)
    world = World(draw("storm-real-1", PROFILES["storm"]), tmp_path)
    world.run()
    services = {EventService, RoutineService, Waking, Supervisor}
    assert seen
    assert all(parts == {EventEngine, SchedulesSqlite, *services} for parts, _ in seen)
    firmwares = {inspect.getfile(type(each)) for _, each in seen if each is not None}
    assert firmwares == {str(ROOT / "firmware" / "wakeboard" / "loop.py")}


@pytest.mark.parametrize("name", NAMES)
def test_every_property_is_judged_and_explained(name: str) -> None:
    judges = [
        path.name
        for path in HERE.glob("*.py")
        if path.name != "properties.py" and re.search(rf"\b{name}\b", path.read_text("utf-8"))
    ]
    assert judges, f"nothing raises {name}"
    assert f"| {NAMES[name]} |" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("profile", PROFILES)
def test_every_kind_of_operation_can_be_drawn(profile: str) -> None:
    kinds = set(PROFILES[profile].every_s) - {"burst"}
    assert kinds <= set(OPERATIONS)
    assert all(callable(getattr(Actions, kind)) for kind in OPERATIONS)


def test_a_day_meets_every_kind_of_fault() -> None:
    """Those that one day cannot bring for sure are left to the others."""
    faults = run_device("day-faults-1").faults
    missing = {kind for kind, count in faults.items() if not count}
    assert len(faults) - len(missing) >= 30, sorted(missing)
