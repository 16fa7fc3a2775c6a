"""What the broker says about the bridge, and events that leave nothing behind: field case A16."""

import asyncio

import pytest

from brokers import MosquittoFactory, Relay
from fake_scheduler import FakeScheduler
from mqtt_clients import WAIT_S, Bridge, Observer, decoded, observe, running
from wakebridge.adapters.mqtt import MqttBus
from wakebridge.bus import BusMessage, BusUnavailable, Undeliverable
from wakebridge.mqttbus.config import MqttConfig

STATUS = "wakebridge/status"
OWNER = "wakebridge/owners/demo.skill"
EVENT = BusMessage(
    "demo.skill.tick", b'{"n":1}', {"scheduler": {"id": "a", "due": "x"}}, "demo.skill"
)


def said(client: Observer) -> list[tuple[bytes, bool]]:
    """Return what the status topic said: payload, and whether it was retained from before."""
    return [
        (bytes(message.payload), message.retain)
        for message in client.heard
        if message.topic.value == STATUS and isinstance(message.payload, bytes)
    ]


async def retained_status(port: int) -> list[tuple[bytes, bool]]:
    async with observe(port, STATUS) as client:
        await client.fence()
        return said(client)


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
async def test_a16_r1_a_clean_stop_says_offline_itself_and_leaves_no_will(
    mosquitto: MosquittoFactory, scheduler: FakeScheduler, protocol: str
) -> None:
    broker = mosquitto()
    config = MqttConfig(port=broker.port, protocol="5" if protocol == "5" else "3.1.1")
    async with observe(broker.port, STATUS) as client:
        async with running(MqttBus(config, scheduler), scheduler):
            await client.wait_for(1)
        await client.wait_for(2)
        await client.fence()
        assert said(client) == [(b"online", False), (b"offline", False)]
    assert await retained_status(broker.port) == [(b"offline", True)]
    assert scheduler.is_down.is_set()


async def test_a16_r2_a_cut_connection_says_offline_by_the_will_and_online_after_it(
    mosquitto: MosquittoFactory, scheduler: FakeScheduler
) -> None:
    broker = mosquitto()
    async with (
        Relay(broker.port) as relay,
        observe(broker.port, STATUS) as client,
        running(MqttBus(MqttConfig(port=relay.port), scheduler), scheduler),
    ):
        relay.cut()
        await client.wait_for(3)
        await client.fence()
        assert [payload for payload, _ in said(client)] == [b"online", b"offline", b"online"]
        assert await retained_status(broker.port) == [(b"online", True)]


async def test_a16_r2_a_connection_taken_over_before_the_broker_noticed_is_online(
    mosquitto: MosquittoFactory, scheduler: FakeScheduler
) -> None:
    """The broker still holds the old connection when the new one comes; its will is not last."""
    broker = mosquitto()
    async with Relay(broker.port) as silent, Relay(broker.port) as relay:
        config = MqttConfig(port=silent.port)
        bus = MqttBus(config, scheduler)
        async with running(bus, scheduler):
            silent.hush()
            again = FakeScheduler()
            async with running(MqttBus(MqttConfig(port=relay.port), again), again):
                status = await retained_status(broker.port)
                assert status == [(b"online", True)]
            silent.speak()


async def test_a16_r2_a_broker_killed_and_restarted_says_online_again(
    mosquitto: MosquittoFactory, scheduler: FakeScheduler
) -> None:
    broker = mosquitto(persistence=True)
    async with running(MqttBus(MqttConfig(port=broker.port), scheduler), scheduler):
        broker.kill()
        await asyncio.wait_for(scheduler.is_down.wait(), WAIT_S)
        broker.start()
        await asyncio.wait_for(scheduler.is_up.wait(), WAIT_S)
        assert await retained_status(broker.port) == [(b"online", True)]


async def test_a_foreign_offline_is_corrected_while_we_are_here(bridge: Bridge) -> None:
    async with observe(bridge.broker.port, STATUS) as client:
        await client.wait_for(1)
        await client.client.publish(STATUS, b"offline", qos=1, retain=True)
        await client.wait_for(3)
        assert said(client)[-1] == (b"online", False)
    assert await retained_status(bridge.broker.port) == [(b"online", True)]


async def test_a16_r3_a_fired_event_is_never_retained(
    mosquitto: MosquittoFactory, scheduler: FakeScheduler
) -> None:
    broker = mosquitto(persistence=True)
    bus = MqttBus(MqttConfig(port=broker.port), scheduler)
    async with running(bus, scheduler):
        async with observe(broker.port, f"{OWNER}/event/+") as early:
            await bus.emit(EVENT)
            (heard,) = await early.wait_for(1)
            assert not heard.retain
            assert heard.topic.value == f"{OWNER}/event/tick"
            assert heard.qos == 1
            assert decoded(heard) == {
                "type": "demo.skill.tick",
                "data": {"n": 1},
                "context": {"scheduler": {"id": "a", "due": "x"}},
            }
        async with observe(broker.port, f"{OWNER}/event/+") as late:
            await late.fence()
            assert late.heard == []
        scheduler.is_up.clear()
        broker.stop()
        broker.start()
        await asyncio.wait_for(scheduler.is_up.wait(), WAIT_S)
        async with observe(broker.port, f"{OWNER}/event/+") as again:
            await again.fence()
            assert again.heard == []


async def test_e41_e53_missed_goes_to_its_owner_and_ready_to_everybody(bridge: Bridge) -> None:
    async with observe(bridge.broker.port, "wakebridge/#") as client:
        await client.wait_for(1)  # the retained status
        await bridge.bus.emit(BusMessage("ovos.scheduler.ready", b"{}", {}, None))
        await bridge.bus.emit(BusMessage("ovos.scheduler.missed", b"{}", {}, "demo.skill"))
        _, ready, missed = await client.wait_for(3)
    assert (ready.topic.value, ready.retain) == ("wakebridge/ready", False)
    assert (missed.topic.value, missed.retain) == (f"{OWNER}/missed", False)


async def test_what_cannot_have_a_topic_is_undeliverable_and_does_not_wait(bridge: Bridge) -> None:
    """E35: tried again for ever it would hold up the others."""
    with pytest.raises(Undeliverable):
        await bridge.bus.emit(BusMessage("demo.skill." + "x" * 65_536, b"{}", {}, "demo.skill"))
    with pytest.raises(Undeliverable):
        await bridge.bus.emit(BusMessage("somebodys.type", b"{}", {}, None))
    await bridge.bus.emit(EVENT)


async def test_state_is_retained_published_once_and_again_after_a_broker_without_memory(
    mosquitto: MosquittoFactory, scheduler: FakeScheduler
) -> None:
    broker = mosquitto()
    bus = MqttBus(MqttConfig(port=broker.port), scheduler)
    await bus.publish_state("timer", {"state": "idle"})
    async with running(bus, scheduler):
        async with observe(broker.port, "wakebridge/timer", "wakebridge/board") as client:
            await client.wait_for(1)
            await bus.publish_state("board", {"state": "up"})
            await bus.publish_state("board", {"state": "up"})
            await bus.publish_state("timer", {"state": "armed"})
            heard = await client.wait_for(3)
            assert [decoded(message)["state"] for message in heard] == ["idle", "up", "armed"]
        scheduler.is_up.clear()
        broker.kill()
        broker.start()
        await asyncio.wait_for(scheduler.is_up.wait(), WAIT_S)
        async with observe(broker.port, "wakebridge/timer", "wakebridge/board") as client:
            heard = await client.wait_for(2)
            assert {decoded(message)["state"] for message in heard} == {"up", "armed"}
            assert all(message.retain for message in heard)


async def test_state_that_changes_while_a_connection_comes_up_is_not_overtaken_by_the_old_one(
    mosquitto: MosquittoFactory, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = mosquitto()
    bus = MqttBus(MqttConfig(port=broker.port), scheduler)
    await bus.publish_state("board", {"state": "up"})
    await bus.publish_state("timer", {"state": "unknown"})
    publish = bus.connection.publish

    async def publish_late(topic: str, payload: bytes, *, retain: bool = False) -> None:
        if topic == "wakebridge/board":
            await bus.publish_state("timer", {"state": "armed"})
        await publish(topic, payload, retain=retain)

    monkeypatch.setattr(bus.connection, "publish", publish_late)
    async with (
        running(bus, scheduler),
        observe(broker.port, "wakebridge/timer") as client,
    ):
        (retained,) = await client.wait_for(1)
        assert decoded(retained)["state"] == "armed"


async def test_emit_is_refused_at_once_while_the_broker_is_gone(bridge: Bridge) -> None:
    bridge.broker.kill()
    await asyncio.wait_for(bridge.scheduler.is_down.wait(), WAIT_S)
    async with asyncio.timeout(0.5):
        with pytest.raises(BusUnavailable):
            await bridge.bus.emit(EVENT)
