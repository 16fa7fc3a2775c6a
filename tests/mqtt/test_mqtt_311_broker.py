"""On the embedded broker of the demo, which speaks MQTT 3.1.1 only."""

import contextlib
from collections.abc import AsyncIterator

import aiomqtt
import pytest
from amqtt.broker import Broker

from brokers import free_port
from fake_scheduler import FakeScheduler
from mqtt_clients import answer_data, attempting, decoded, eventually, observe, running
from wakebridge.adapters.mqtt import MqttBus
from wakebridge.bus import BusMessage
from wakebridge.mqttbus import library
from wakebridge.mqttbus.config import MqttConfig

OWNER = "wakebridge/owners/demo.skill"


@contextlib.asynccontextmanager
async def embedded_broker() -> AsyncIterator[int]:
    port = free_port()
    broker = Broker(
        {
            "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
            "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {}},
        }
    )
    await broker.start()
    try:
        yield port
    finally:
        await broker.shutdown()


async def test_the_whole_path_over_mqtt_311(scheduler: FakeScheduler) -> None:
    async with embedded_broker() as port:
        v311 = aiomqtt.ProtocolVersion.V311
        config = MqttConfig(port=port, protocol="3.1.1")
        async with observe(port, "wakebridge/#", protocol=v311) as client:

            def topics() -> list[str]:
                return [message.topic.value for message in client.heard]

            async with running(MqttBus(config, scheduler), scheduler) as bus:
                await client.client.publish(
                    f"{OWNER}/request/schedule",
                    b'{"data":{"id":"a"},"context":{"skill_id":"demo.skill","request_id":"1"}}',
                    qos=1,
                )
                await client.until(lambda: f"{OWNER}/answer/schedule" in topics())
                await bus.emit(BusMessage("demo.skill.tick", b"{}", {}, "demo.skill"))
                await client.until(lambda: f"{OWNER}/event/tick" in topics())

            await client.until(lambda: topics().count("wakebridge/status") >= 2)
    answer = next(m for m in client.heard if m.topic.value.endswith("answer/schedule"))
    assert answer_data(answer)["ok"] is True
    assert decoded(answer)["context"] == {"skill_id": "demo.skill", "request_id": "1"}
    statuses = [m.payload for m in client.heard if m.topic.value == "wakebridge/status"]
    assert statuses == [b"online", b"offline"]


async def test_asked_for_mqtt_5_it_is_trouble_that_names_the_protocol(
    scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "CONNECT_TIMEOUT_S", 0.2)
    async with embedded_broker() as port:
        bus = MqttBus(MqttConfig(port=port), scheduler)
        async with attempting(bus):
            await eventually(lambda: "needs protocol 3.1.1" in bus.connection.trouble)
