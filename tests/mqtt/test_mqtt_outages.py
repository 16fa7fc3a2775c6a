"""Connections that break, fall silent or never come to be."""

import asyncio
import itertools
from pathlib import Path

import pytest

from brokers import MosquittoFactory, Relay, free_port
from fake_scheduler import FakeScheduler
from mqtt_clients import (
    WAIT_S,
    Bridge,
    answer_data,
    attempting,
    eventually,
    observe,
    running,
)
from wakebridge.adapters.mqtt import MqttBus
from wakebridge.bus import BusMessage, BusUnavailable
from wakebridge.mqttbus import connection, library
from wakebridge.mqttbus.config import MqttConfig

OWNER = "wakebridge/owners/demo.skill"
ASK = b'{"data":{"id":"a"},"context":{"skill_id":"demo.skill"}}'
EVENT = BusMessage("demo.skill.tick", b"{}", {}, "demo.skill")


async def test_an_emit_in_flight_ends_with_the_connection_not_with_its_time_limit(
    mosquitto: MosquittoFactory, scheduler: FakeScheduler
) -> None:
    broker = mosquitto()
    async with Relay(broker.port) as relay:
        bus = MqttBus(MqttConfig(port=relay.port), scheduler)
        async with running(bus, scheduler):
            relay.hush()
            emitting = asyncio.create_task(bus.emit(EVENT))
            await asyncio.sleep(0)
            relay.cut()
            async with asyncio.timeout(connection.ACK_TIMEOUT_S / 2):
                with pytest.raises(BusUnavailable):
                    await emitting
            relay.speak()
            await asyncio.wait_for(scheduler.is_down.wait(), WAIT_S)
            await asyncio.wait_for(scheduler.is_up.wait(), WAIT_S)
            await bus.emit(EVENT)


async def test_a_silent_broker_is_given_up_and_connected_to_anew(
    mosquitto: MosquittoFactory, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a suspend the host's end of a connection can outlive the broker's."""
    monkeypatch.setattr(connection, "ACK_TIMEOUT_S", 0.2)
    broker = mosquitto()
    async with Relay(broker.port) as relay:
        bus = MqttBus(MqttConfig(port=relay.port), scheduler)
        async with running(bus, scheduler):
            relay.hush()
            with pytest.raises(BusUnavailable, match="confirm"):
                await bus.emit(EVENT)
            await asyncio.wait_for(scheduler.is_down.wait(), WAIT_S)
            relay.speak()
            await asyncio.wait_for(scheduler.is_up.wait(), WAIT_S)
            await bus.emit(EVENT)


async def test_an_answer_outlives_a_lost_connection(
    mosquitto: MosquittoFactory, scheduler: FakeScheduler
) -> None:
    """E20: exactly one answer, also when the link broke while the request was carried out."""
    broker = mosquitto()
    async with (
        Relay(broker.port) as relay,
        observe(broker.port, f"{OWNER}/answer/+") as client,
        running(MqttBus(MqttConfig(port=relay.port), scheduler), scheduler),
    ):
        scheduler.gate.clear()
        await client.client.publish(f"{OWNER}/request/schedule", ASK, 1)
        await asyncio.wait_for(scheduler.is_asked.wait(), WAIT_S)
        relay.cut()
        await asyncio.wait_for(scheduler.is_down.wait(), WAIT_S)
        scheduler.gate.set()
        (answer,) = await client.wait_for(1)
        await client.fence()
        assert len(client.heard) == 1
        assert answer_data(answer)["ok"] is True


async def test_a_request_sent_while_the_bridge_is_away_is_answered_when_it_returns(
    mosquitto: MosquittoFactory, scheduler: FakeScheduler
) -> None:
    """The broker has confirmed it to its sender: a restart of the bridge must not lose it."""
    broker = mosquitto()
    config = MqttConfig(port=broker.port)
    async with observe(broker.port, f"{OWNER}/answer/+") as client:
        async with running(MqttBus(config, scheduler), scheduler):
            pass
        await client.client.publish(f"{OWNER}/request/schedule", ASK, 1)
        assert scheduler.asked == []
        async with running(MqttBus(config, scheduler), scheduler):
            (answer,) = await client.wait_for(1)
            assert answer_data(answer)["ok"] is True


async def test_a_stop_finishes_what_is_in_progress_before_it_says_offline(
    mosquitto: MosquittoFactory, scheduler: FakeScheduler
) -> None:
    broker = mosquitto()
    async with observe(broker.port, f"{OWNER}/answer/+", "wakebridge/status") as client:
        async with running(MqttBus(MqttConfig(port=broker.port), scheduler), scheduler):
            scheduler.gate.clear()
            await client.client.publish(f"{OWNER}/request/schedule", ASK, 1)
            await client.fence()
            asyncio.get_running_loop().call_later(0.1, scheduler.gate.set)
        await client.wait_for(3)
        topics = [message.topic.value for message in client.heard]
    assert topics == ["wakebridge/status", f"{OWNER}/answer/schedule", "wakebridge/status"]


async def test_the_broker_may_start_after_the_bridge(
    mosquitto: MosquittoFactory, scheduler: FakeScheduler
) -> None:
    broker = mosquitto()
    broker.stop()
    bus = MqttBus(MqttConfig(port=broker.port), scheduler)
    async with attempting(bus):
        await eventually(lambda: bus.connection.trouble != "")
        broker.start()
        await asyncio.wait_for(scheduler.is_up.wait(), WAIT_S)
        assert bus.connection.trouble == ""


def test_attempts_back_off_from_a_tenth_of_a_second_to_five() -> None:
    waits_s = list(itertools.islice(connection.backoff(), 8))
    assert waits_s == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


async def test_an_outage_is_one_line_in_the_log_however_many_attempts_it_takes(
    scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection, "BACKOFF_MIN_S", 0.001)
    monkeypatch.setattr(connection, "BACKOFF_MAX_S", 0.001)
    caplog.set_level("DEBUG", connection.__name__)
    async with attempting(MqttBus(MqttConfig(port=free_port()), scheduler)):
        await eventually(lambda: len(caplog.records) >= 5)
    levels = [record.levelname for record in caplog.records]
    assert levels[:5] == ["WARNING", "DEBUG", "DEBUG", "DEBUG", "DEBUG"]


async def test_a_broker_that_accepts_and_says_nothing_is_left_again_each_time(
    scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "CONNECT_TIMEOUT_S", 0.05)
    monkeypatch.setattr(library, "_DISCONNECT_TIMEOUT_S", 0.05)
    closed = 0

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal closed
        while await reader.read(4096):
            pass
        writer.close()
        closed += 1

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    config = MqttConfig(port=server.sockets[0].getsockname()[1])
    async with server, attempting(MqttBus(config, scheduler)):
        await eventually(lambda: closed >= 3)


async def test_stopping_while_connecting_leaves_no_connection_behind(
    mosquitto: MosquittoFactory, scheduler: FakeScheduler
) -> None:
    broker = mosquitto()
    for steps in range(8):
        async with attempting(MqttBus(MqttConfig(port=broker.port), scheduler)):
            for _ in range(steps):
                await asyncio.sleep(0)

    def count(words: str) -> int:
        return sum(words in line for line in broker.log)

    await eventually(lambda: count("as wakebridge (") == count("Client wakebridge disconnected"))
    async with observe(broker.port, "wakebridge/status") as client:
        await client.fence()
        assert [message.payload for message in client.heard] in ([], [b"offline"])


async def test_an_unreadable_password_file_is_trouble_not_a_crash(
    scheduler: FakeScheduler, tmp_path: Path
) -> None:
    config = MqttConfig(username="x", password_file=str(tmp_path / "absent"))
    bus = MqttBus(config, scheduler)
    async with attempting(bus):
        await eventually(lambda: "absent" in bus.connection.trouble)


async def test_a_host_that_wakes_up_has_the_connection_made_anew(bridge: Bridge) -> None:
    bridge.scheduler.is_up.clear()
    bridge.bus.connection.reconnect("resumed")
    await asyncio.wait_for(bridge.scheduler.is_up.wait(), WAIT_S)
    await bridge.bus.emit(EVENT)


async def test_a_callback_that_fails_takes_nothing_else_down(
    bridge: Bridge, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(received: connection.Received) -> None:
        raise ZeroDivisionError(received.topic)

    await bridge.bus.connection.subscribe("elsewhere/+", fail)
    async with observe(bridge.broker.port, f"{OWNER}/answer/+") as client:
        await client.client.publish("elsewhere/x", b"", 1)
        await client.client.publish(f"{OWNER}/request/schedule", ASK, 1)
        await client.wait_for(1)
    assert "elsewhere/x" in caplog.text
    assert bridge.bus.connection.is_up
