"""Floods are bounded: what is too much is told `busy`, and other owners are served within a second.

Over MQTT, HTTP and the OVOS bus, against the running bridge; its memory is looked at afterwards.
"""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import aiomqtt
import pytest

from bridges import BridgeProcess, Owner
from brokers import Mosquitto, MosquittoFactory
from doors.vital_signs import end, rss_bytes, watched
from ovos_envs import STABLE
from ovos_processes import Listener, OvosBus

MIB = 1 << 20
SERVED_S = 1.0
GROWTH_BYTES = 64 * MIB
FLOOD_S = 3.0


@pytest.fixture
def broker(mosquitto: MosquittoFactory) -> Mosquitto:
    return mosquitto()


@pytest.fixture
async def owner(broker: Mosquitto) -> AsyncIterator[Owner]:
    async with Owner(broker.port, "alice") as connected:
        yield connected


@pytest.fixture
async def bridge(broker: Mosquitto, owner: Owner, tmp_path: Path) -> AsyncIterator[BridgeProcess]:
    daemon = BridgeProcess(
        tmp_path / "bridge", port=str(tmp_path / "no-board"), mqtt_port=broker.port
    )
    async with daemon:
        await owner.until(lambda: owner.state.get("status") == "online")
        yield daemon


def descriptors_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def bear(
    bridge: BridgeProcess, owner: Owner, *floods: "asyncio.Task[None]", http: bool = True
) -> None:
    """Let floods run for a while, and look at how everybody else is served."""
    before = rss_bytes(bridge.pid)
    async with watched(bridge, owner) as signs:
        await asyncio.sleep(FLOOD_S)
        due = await owner.schedule("while", **{"in": {"seconds": 0.5}})
        await owner.until(lambda: bool(owner.fires_of("while")), 5)
    await end(floods)
    grown = rss_bytes(bridge.pid) - before
    print(f"{signs}, {grown / MIB:+.1f} MiB")
    fired = owner.fires_of("while")[0]
    assert fired.due == due
    assert max(signs.mqtt_s) < SERVED_S
    if http:
        assert max(signs.http_s) < SERVED_S
    assert grown < GROWTH_BYTES


async def test_an_owner_who_floods_mqtt_is_told_busy_and_the_others_are_served(
    bridge: BridgeProcess, broker: Mosquitto, owner: Owner
) -> None:
    answers = {"ok": 0, "busy": 0}

    async def mallory() -> None:
        async with aiomqtt.Client("127.0.0.1", broker.port) as client:
            client.pending_calls_threshold = 1_000_000
            own = "wakebridge/owners/mallory"
            await client.subscribe(f"{own}/answer/#", qos=0)
            counting = asyncio.create_task(count(client))
            try:
                for number in range(1_000_000):
                    body = {
                        "data": {
                            "id": f"m{number % 500}",
                            "event": "mallory.x",
                            "in": {"seconds": 3600},
                            "data": {"x": "x" * 2000},
                        },
                        "context": {"skill_id": "mallory"},
                    }
                    await client.publish(f"{own}/request/schedule", json.dumps(body), qos=0)
                    if number % 20 == 0:
                        await asyncio.sleep(0.02)  # a thousand a second
            finally:
                counting.cancel()

    async def count(client: aiomqtt.Client) -> None:
        async for message in client.messages:
            assert isinstance(message.payload, bytes)
            answers["busy" if b"busy" in message.payload else "ok"] += 1

    await bear(bridge, owner, asyncio.create_task(mallory()))
    print(answers)
    assert answers["ok"] > 100


async def test_a_flood_of_http_requests_leaves_the_owners_alone(
    bridge: BridgeProcess, owner: Owner
) -> None:
    body = {
        "data": {"id": "h", "event": "mallory.x", "in": {"seconds": 3600}},
        "context": {"skill_id": "mallory"},
    }

    async def mallory(session: aiohttp.ClientSession) -> None:
        url = f"http://127.0.0.1:{bridge.http_port}/api/scheduler/schedule"
        while True:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with session.post(url, json=body) as response:
                    await response.read()

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        floods = [asyncio.create_task(mallory(session)) for _ in range(60)]
        await bear(bridge, owner, *floods, http=False)


async def test_a_thousand_clients_who_never_finish_a_request_shut_nobody_out(
    bridge: BridgeProcess, owner: Owner
) -> None:
    """Slow loris: heads that do not end, bodies that do not come, and silence."""
    begun = (b"GET /api/health HTTP/1.1\r\nHost: x\r\nX-", b"", b"P")
    whole_head = b"POST /api/sessions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"

    async def mallory(number: int) -> None:
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", bridge.http_port)
                try:
                    writer.write(whole_head if number % 4 == 3 else begun[number % 4])
                    await reader.read()
                finally:
                    writer.close()
            await asyncio.sleep(0.5)

    floods = [asyncio.create_task(mallory(number)) for number in range(600)]
    await bear(bridge, owner, *floods)
    assert descriptors_of(bridge.pid) < 400


async def test_a_client_who_never_reads_its_answer_is_shown_out_in_time(
    bridge: BridgeProcess, owner: Owner
) -> None:
    """Pipelined requests whose answers nobody takes fill buffers of a bounded size only."""
    ask = b"GET /api/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"

    async def mallory() -> None:
        with socket.socket() as line:
            line.setblocking(False)
            await asyncio.get_running_loop().sock_connect(line, ("127.0.0.1", bridge.http_port))
            while True:
                with contextlib.suppress(OSError):
                    line.send(ask * 100)
                await asyncio.sleep(0.05)

    await bear(bridge, owner, *(asyncio.create_task(mallory()) for _ in range(20)))


async def test_a_flood_on_the_ovos_bus_leaves_the_owners_alone(
    broker: Mosquitto, owner: Owner, tmp_path: Path
) -> None:
    bus = OvosBus(STABLE, tmp_path / "ovos")
    bus.start()
    daemon = BridgeProcess(
        tmp_path / "bridge",
        port=str(tmp_path / "no-board"),
        mqtt_port=broker.port,
        ovos={"enabled": True, "port": bus.port},
    )

    async def mallory(listener: Listener) -> None:
        for number in range(1_000_000):
            body = {"id": f"m{number % 500}", "event": "mallory.x", "in": {"seconds": 3600}}
            await listener.say("ovos.scheduler.schedule", body, {"skill_id": "mallory"})
            listener.heard.clear()
            if number % 20 == 0:
                await asyncio.sleep(0.002)

    try:
        async with daemon, Listener(bus.url) as listener:
            await owner.until(lambda: owner.state.get("status") == "online")
            await bear(daemon, owner, asyncio.create_task(mallory(listener)))
    finally:
        bus.kill()
