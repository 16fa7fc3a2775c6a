"""What is larger than the broker takes harms nobody but itself (E20, E35)."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import aiomqtt
import pytest

from brokers import Mosquitto, MosquittoFactory
from fake_scheduler import FakeScheduler
from mqtt_clients import WAIT_S, answer_data, observe, running
from wakebridge.adapters.mqtt import MqttBus
from wakebridge.bus import BusMessage, BusUnavailable, Undeliverable
from wakebridge.mqttbus import connection
from wakebridge.mqttbus.config import MqttConfig

# Mosquitto refuses with a PUBACK, or it says what it takes and hangs up on more, or just hangs up.
REFUSES = ("message_size_limit 100000", "5")
ANNOUNCES = ("max_packet_size 100000", "5")
HANGS_UP = ("max_packet_size 100000", "3.1.1")
WAYS = (REFUSES, ANNOUNCES, HANGS_UP)

BODY = b'{"data":{"id":"a"},"context":{"skill_id":"demo"}}'


def event(size: int) -> BusMessage:
    return BusMessage("demo.large", json.dumps({"x": "y" * size}).encode(), {}, "demo")


def bus_on(broker: Mosquitto, scheduler: FakeScheduler, protocol: Any) -> MqttBus:
    return MqttBus(MqttConfig(port=broker.port, protocol=protocol), scheduler)


async def emitted(bus: MqttBus, message: BusMessage) -> None:
    """Have a message out, as the service does: again whenever the bus is back."""
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                await bus.emit(message)
                return
            except BusUnavailable:
                await bus.connection.wait_up()


@pytest.mark.parametrize(("limit", "protocol"), WAYS)
async def test_an_event_that_is_too_large_holds_up_nobody_e35(
    mosquitto: MosquittoFactory, scheduler: FakeScheduler, limit: str, protocol: str
) -> None:
    broker = mosquitto(more=limit)
    async with (
        running(bus_on(broker, scheduler, protocol), scheduler) as bus,
        observe(broker.port, "wakebridge/owners/demo/event/+") as demo,
    ):
        with pytest.raises(Undeliverable):
            await emitted(bus, event(150_000))
        # What is known of it is known from now on, also of others of that size.
        with pytest.raises(Undeliverable):
            await bus.emit(event(160_000))
        await emitted(bus, event(90_000))
        (heard,) = await demo.wait_for(1)
    assert isinstance(heard.payload, bytes)
    assert len(heard.payload) > 90_000


class Listing(FakeScheduler):
    """Answers `list` with more than the broker takes."""

    def _carry_out(self, verb: str, body: Mapping[str, object], owner: str) -> dict[str, object]:
        if verb == "list":
            return {"ok": True, "schedules": ["y" * 150_000]}
        return super()._carry_out(verb, body, owner)


@pytest.mark.parametrize(("limit", "protocol"), WAYS)
async def test_an_answer_that_is_too_large_is_a_refusal_and_harms_no_other_e20_e35(
    mosquitto: MosquittoFactory, limit: str, protocol: str
) -> None:
    broker, scheduler = mosquitto(more=limit), Listing()
    async with (
        running(bus_on(broker, scheduler, protocol), scheduler),
        observe(broker.port, "wakebridge/owners/+/answer/+") as client,
    ):
        await client.client.publish("wakebridge/owners/demo/request/list", BODY, 1)
        await client.client.publish("wakebridge/owners/demo/request/get", BODY, 1)
        await client.until(lambda: {m.topic.value[-4:] for m in client.heard} == {"list", "/get"})
        answers = {m.topic.value[-4:]: answer_data(m) for m in client.heard}
    assert answers["/get"]["ok"] is True
    assert (answers["list"]["ok"], answers["list"]["error"]) == (False, "internal")
    assert "the answer cannot be sent" in str(answers["list"]["reason"])


async def test_a_large_message_is_not_blamed_for_connections_that_end_by_chance(
    mosquitto: MosquittoFactory, scheduler: FakeScheduler
) -> None:
    broker = mosquitto()
    async with running(bus_on(broker, scheduler, "5"), scheduler) as bus:
        for _ in range(connection.HANG_UPS_MAX + 1):
            bus.connection.reconnect("by chance")
            await emitted(bus, event(150_000))
        async with observe(broker.port, "wakebridge/owners/demo/event/+") as demo:
            await emitted(bus, event(150_000))
            heard: list[aiomqtt.Message] = await demo.wait_for(1)
    assert heard
