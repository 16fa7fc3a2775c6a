"""Fixtures of the MQTT tests: a real broker and the adapter on it."""

from collections.abc import AsyncIterator

import pytest

from brokers import MosquittoFactory, mosquitto
from fake_scheduler import FakeScheduler
from mqtt_clients import Bridge, running
from wakebridge.adapters.mqtt import MqttBus
from wakebridge.adapters.mqtt.requests import Tool
from wakebridge.mqttbus.config import MqttConfig

__all__ = ["mosquitto"]


@pytest.fixture
def scheduler() -> FakeScheduler:
    return FakeScheduler()


@pytest.fixture
def tool() -> Tool | None:
    return None


@pytest.fixture
async def bridge(
    mosquitto: MosquittoFactory, scheduler: FakeScheduler, tool: Tool | None
) -> AsyncIterator[Bridge]:
    """Run the adapter on a broker of its own."""
    broker = mosquitto()
    bus = MqttBus(MqttConfig(port=broker.port), scheduler, tool)
    async with running(bus, scheduler):
        yield Bridge(broker, scheduler, bus)
