"""One broker, one OVOS bus, and one bridge on both of them, for all tests of this directory."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from brokers import Mosquitto, MosquittoFactory
from conformance.ears import Ear, MqttEar, OvosEar, mqtt_ear, ovos_ear
from ovos_envs import STABLE
from ovos_processes import OvosBus
from plain_bridge import PlainBridge

ADMINISTRATOR: Final = "admin.conf"

DEVICE_ZONE: Final = "Pacific/Kiritimati"
"""Fourteen hours ahead of UTC: an answer that depends on it is far off (E7d)."""

_owners = itertools.count(1)


@dataclass
class World:
    """The running parts. A test that ends the bridge starts it again."""

    broker: Mosquitto
    ovos: OvosBus
    bridge: PlainBridge

    @contextlib.asynccontextmanager
    async def ears(self) -> AsyncIterator[dict[str, Ear]]:
        """Be on both transports."""
        async with AsyncExitStack() as stack:
            on_mqtt = await stack.enter_async_context(mqtt_ear(self.broker.port))
            on_ovos = await stack.enter_async_context(ovos_ear(self.ovos.url))
            yield {"mqtt": on_mqtt, "ovos": on_ovos}

    async def start(self, *ears: Ear) -> None:
        """Start the bridge; return when every one of them has heard that it is ready."""
        marks = [ear.mark() for ear in ears]
        self.bridge.start()
        for ear, mark in zip(ears, marks, strict=True):
            await ear.ready(after=mark)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Run everything; nothing that only a defect can cause may have been logged at the end."""
    directory = tmp_path_factory.mktemp("conformance")
    brokers = MosquittoFactory(directory)
    broker = brokers(more="max_queued_messages 10000")
    ovos = OvosBus(STABLE, directory / "ovos")
    ovos.start()
    sections = {
        "mqtt": {"port": broker.port},
        "ovos": {"enabled": True, "port": ovos.port},
        # The clock of the machine may be vouched for; the tests say when it is (E71).
        "events": {"administrators": [ADMINISTRATOR], "trust_kernel_sync": False},
    }
    bridge = PlainBridge(directory / "bridge", sections, {"TZ": DEVICE_ZONE})
    running = World(broker, ovos, bridge)
    try:
        asyncio.run(_begin(running))
        yield running
    finally:
        bridge.kill()
        ovos.kill()
        brokers.stop()
    assert bridge.faults() == [], bridge.log.read_text()


async def _begin(world: World) -> None:
    async with world.ears() as ears:
        await world.start(*ears.values())


@pytest.fixture(params=["mqtt", "ovos"])
async def ear(world: World, request: pytest.FixtureRequest, owner: str) -> AsyncIterator[Ear]:
    """A component on each of the transports; what `owner` still has is cancelled at the end."""
    made = mqtt_ear(world.broker.port) if request.param == "mqtt" else ovos_ear(world.ovos.url)
    async with made as component:
        await component.fence()
        yield component
        for schedule_id in await component.listed(owner):
            await component.ask("cancel", {"id": schedule_id}, owner)


@pytest.fixture
async def ovos(world: World) -> AsyncIterator[OvosEar]:
    """A component on the OVOS bus."""
    async with ovos_ear(world.ovos.url) as component:
        yield component


@pytest.fixture
async def mqtt(world: World) -> AsyncIterator[MqttEar]:
    """A component on the broker."""
    async with mqtt_ear(world.broker.port) as component:
        yield component


@pytest.fixture
def owner() -> str:
    """A skill id that no other test has."""
    return f"skill{next(_owners)}.conf"


@pytest.fixture
def state_file(world: World) -> Path:
    """Where the schedules are kept."""
    return world.bridge.state_dir / "schedules.db"
