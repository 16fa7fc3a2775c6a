"""Fixtures of the client tests: a real broker with the real event side of the bridge on it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers import Mosquitto, MosquittoFactory, mosquitto
from event_bridge import event_bridge
from wakebridge.mqttbus.config import MqttConfig

__all__ = ["mosquitto"]


@pytest.fixture
async def broker(mosquitto: MosquittoFactory, tmp_path: Path) -> AsyncIterator[Mosquitto]:
    """Run a broker and the bridge; yield the broker."""
    running = mosquitto()
    async with event_bridge(MqttConfig(port=running.port), tmp_path):
        yield running
