"""Floods are bounded, and other owners are unharmed."""

import asyncio
import statistics
import time

import pytest

from fake_scheduler import FakeScheduler
from mqtt_clients import WAIT_S, Bridge, answer_data, decoded, observe, request_properties
from wakebridge.adapters.mqtt import MqttBus, requests
from wakebridge.bus import BusMessage
from wakebridge.mqttbus.config import MqttConfig
from wakebridge.mqttbus.connection import Received

ALICE = "wakebridge/owners/alice"
MALLORY = "wakebridge/owners/mallory"


def body(owner: str) -> bytes:
    return b'{"data":{"id":"a"},"context":{"skill_id":"%s","request_id":"7"}}' % owner.encode()


async def test_an_owner_beyond_its_bound_is_told_busy_and_others_are_served(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "OWNER_IN_PROGRESS_MAX", 4)
    bridge.scheduler.gate.clear()
    async with observe(bridge.broker.port, f"{ALICE}/answer/+", f"{MALLORY}/answer/+") as client:
        for _ in range(10):
            await client.client.publish(f"{MALLORY}/request/list", body("mallory"), 1)
        busy = await client.wait_for(6)
        assert {answer_data(m)["error"] for m in busy} == {"internal"}
        assert {answer_data(m)["reason"] for m in busy} == {"busy, try again"}
        # A 3.1.1 client tells its answers apart by the context that comes back.
        assert {str(decoded(m)["context"]) for m in busy} == {
            "{'skill_id': 'mallory', 'request_id': '7'}"
        }
        await client.client.publish(f"{ALICE}/request/list", body("alice"), 1)
        await client.fence()
        assert [asked.identity for asked in bridge.scheduler.asked] == ["mallory"] * 4 + ["alice"]
        bridge.scheduler.gate.set()
        answers = await client.wait_for(11)
    assert [answer_data(m)["ok"] for m in answers[6:]] == [True] * 5


@pytest.mark.parametrize("bound", ["IN_PROGRESS_MAX", "BYTES_IN_PROGRESS_MAX"])
async def test_all_owners_together_are_bounded_in_number_and_bytes(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(requests, bound, 3 if bound == "IN_PROGRESS_MAX" else 3 * len(body("o1")))
    bridge.scheduler.gate.clear()
    async with observe(bridge.broker.port, "wakebridge/owners/+/answer/+") as client:
        for number in range(5):
            owner = f"o{number}"
            await client.client.publish(f"wakebridge/owners/{owner}/request/list", body(owner), 1)
        busy = await client.wait_for(2)
        assert {answer_data(m)["reason"] for m in busy} == {"busy, try again"}
        bridge.scheduler.gate.set()
        await client.wait_for(5)
        await client.client.publish(f"{ALICE}/request/list", body("alice"), 1)
        assert answer_data((await client.wait_for(6))[5])["ok"] is True


async def test_busy_answers_are_bounded_too_and_what_is_dropped_is_counted(
    scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(requests, "OWNER_IN_PROGRESS_MAX", 1)
    monkeypatch.setattr(requests, "REFUSALS_MAX", 2)
    bus = MqttBus(MqttConfig(), scheduler)
    for _ in range(12):
        bus._desk.receive(Received(f"{MALLORY}/request/list", body("mallory"), retained=False))
    assert bus.requests_dropped == 9
    assert len(caplog.records) == 4, "the log is not flooded"
    await bus._desk.drain(0.0)


async def test_everything_published_in_a_burst_is_answered_once(bridge: Bridge) -> None:
    async with observe(bridge.broker.port, f"{ALICE}/answer/#") as client:
        client.client.pending_calls_threshold = 1000

        async def ask(number: int) -> None:
            properties = request_properties(f"{ALICE}/answer/me", b"%d" % number)
            await client.client.publish(
                f"{ALICE}/request/list", body("alice"), 1, properties=properties
            )

        await asyncio.gather(*(ask(number) for number in range(200)))
        await client.wait_for(200)
        await client.fence()
        numbers = [int(getattr(m.properties, "CorrelationData", b"-1")) for m in client.heard]
    assert sorted(numbers) == list(range(200))


async def test_no_request_and_no_event_waits_for_a_delayed_acknowledgement(bridge: Bridge) -> None:
    """With Nagle's algorithm on either side a request takes 44 or 88 ms, on this machine too."""
    took_s = []
    async with observe(bridge.broker.port, f"{ALICE}/answer/+", f"{ALICE}/event/+") as client:
        for number in range(1, 31):
            started_s = time.perf_counter()
            await client.client.publish(f"{ALICE}/request/list", body("alice"), 1)
            await client.wait_for(2 * number - 1)
            await bridge.bus.emit(BusMessage("alice.tick", b"{}", {}, "alice"))
            await client.wait_for(2 * number)
            took_s.append(time.perf_counter() - started_s)
    assert statistics.median(took_s) < 0.03


async def test_many_events_at_once_are_confirmed_without_a_pile_of_pending_calls(
    bridge: Bridge, caplog: pytest.LogCaptureFixture
) -> None:
    async with observe(bridge.broker.port, "wakebridge/owners/+/event/+") as client:
        emits = (bridge.bus.emit(BusMessage(f"o{n}.tick", b"{}", {}, f"o{n}")) for n in range(1000))
        await asyncio.wait_for(asyncio.gather(*emits), WAIT_S)
        heard = await client.wait_for(1000)
    assert len({message.topic.value for message in heard}) == 1000
    assert caplog.records == []
