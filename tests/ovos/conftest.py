"""A real message bus of each vintage, shared by the tests of a run."""

from collections.abc import Iterator

import pytest

from ovos_envs import VINTAGES, Vintage
from ovos_processes import OvosBus


@pytest.fixture(scope="session", params=VINTAGES, ids=str)
def vintage(request: pytest.FixtureRequest) -> Vintage:
    chosen: Vintage = request.param
    return chosen


@pytest.fixture(scope="session")
def bus(vintage: Vintage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OvosBus]:
    """A bus that other tests use too: each test takes owners of its own."""
    running = OvosBus(vintage, tmp_path_factory.mktemp("ovos"))
    running.start()
    yield running
    running.kill()


@pytest.fixture
def own_bus(vintage: Vintage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OvosBus]:
    """A bus for one test, to be stopped and killed."""
    running = OvosBus(vintage, tmp_path_factory.mktemp("ovos"))
    running.start()
    yield running
    running.kill()
