"""The world in which events are scheduled and fired in virtual time."""

from collections.abc import Callable
from pathlib import Path

import pytest

from event_world import START, Scenario, World
from virtual_time import VirtualLoop, run_virtual


@pytest.fixture
def world(tmp_path: Path) -> Callable[[Scenario], World]:
    def run(scenario: Scenario, start: str = START) -> World:
        async def main(loop: VirtualLoop) -> World:
            made = World(loop, tmp_path, start)
            await scenario(made)
            return made

        return run_virtual(main)

    return run
