"""The shipped broker configuration keeps owners apart (E61, E63); connections are closed doors."""

import asyncio
import gc
import subprocess
from collections.abc import Callable
from pathlib import Path

import aiomqtt
import pytest

from brokers import Certificates, Mosquitto, MosquittoFactory, free_port, write_passwords
from fake_scheduler import FakeScheduler
from mqtt_clients import (
    WAIT_S,
    answer_data,
    attempting,
    eventually,
    observe,
    request_properties,
    running,
)
from wakebridge.adapters.mqtt import MqttBus, Tool
from wakebridge.bus import BusMessage, Undeliverable
from wakebridge.mqttbus.config import MqttConfig

PACKAGING = Path(__file__).parents[2] / "host/packaging/mosquitto"
USERS = {"wakebridge": "bridge secret", "alice": "alice secret", "mallory": "mallory secret"}


def body(owner: str) -> bytes:
    return b'{"data":{"id":"a"},"context":{"skill_id":"%s"}}' % owner.encode()


@pytest.fixture
def shipped(mosquitto: MosquittoFactory, tmp_path: Path) -> Mosquitto:
    """Start a broker with the configuration that we ship, moved to another port and directory."""
    return run_shipped(mosquitto, tmp_path, lambda acl: acl)


def run_shipped(
    mosquitto: MosquittoFactory, tmp_path: Path, edited: Callable[[str], str]
) -> Mosquitto:
    """Start it with access rules that a person has edited."""
    port = free_port()
    etc = tmp_path / "etc"
    etc.mkdir()
    acl = etc / "wakebridge.acl"
    acl.write_text(edited((PACKAGING / "wakebridge.acl").read_text()))
    acl.chmod(0o600)
    write_passwords(etc / "wakebridge.passwd", USERS)
    text = (PACKAGING / "wakebridge.conf").read_text()
    text = text.replace("/etc/mosquitto/", f"{etc}/").replace("listener 1883", f"listener {port}")
    return mosquitto.run(f"user {_user()}\nlog_dest stderr\n{text}", port)


def _user() -> str:
    return subprocess.run(("id", "-un"), capture_output=True, text=True, check=True).stdout.strip()


def bridge_on(
    broker: Mosquitto, tmp_path: Path, scheduler: FakeScheduler, tool: Tool | None = None
) -> MqttBus:
    secret = tmp_path / "password"
    secret.write_text(USERS["wakebridge"])
    config = MqttConfig(port=broker.port, username="wakebridge", password_file=str(secret))
    return MqttBus(config, scheduler, tool)


async def test_e63_one_owner_can_neither_ask_for_nor_read_nor_hear_another(
    shipped: Mosquitto, tmp_path: Path, scheduler: FakeScheduler
) -> None:
    async with (
        running(bridge_on(shipped, tmp_path, scheduler), scheduler) as bus,
        observe(
            shipped.port,
            *("wakebridge/owners/alice/answer/#", "wakebridge/owners/alice/event/+"),
            *("wakebridge/owners/alice/missed", "wakebridge/status"),
            username="alice",
            password=USERS["alice"],
        ) as alice,
        observe(
            shipped.port,
            *("#", "wakebridge/#", "wakebridge/owners/+/#", "wakebridge/owners/alice/#"),
            *("wakebridge/owners/alice/event/tick", "wakebridge/owners/alice/answer/schedule"),
            username="mallory",
            password=USERS["mallory"],
        ) as mallory,
    ):
        # Alice asks, is answered, and hears her events.
        await alice.client.publish("wakebridge/owners/alice/request/schedule", body("alice"), 1)
        await bus.emit(BusMessage("alice.tick", b"{}", {}, "alice"))
        await bus.emit(BusMessage("ovos.scheduler.missed", b"{}", {}, "alice"))
        # Mallory asks in Alice's name on Alice's topic, then in Alice's name on its own.
        await mallory.client.publish("wakebridge/owners/alice/request/cancel", body("alice"), 1)
        await mallory.client.publish("wakebridge/owners/mallory/request/get", body("alice"), 1)
        # Mallory has the answer sent to Alice, and forges one, an event and the status.
        await mallory.client.publish(
            "wakebridge/owners/mallory/request/list",
            body("mallory"),
            1,
            properties=request_properties("wakebridge/owners/alice/answer/schedule"),
        )
        for forged in ("owners/alice/answer/x", "owners/alice/event/tick", "status", "ready"):
            await mallory.client.publish(f"wakebridge/{forged}", b"forged", 1, retain=True)
        await mallory.until(
            lambda: {m.topic.value.rsplit("/", 1)[1] for m in mallory.heard} >= {"get", "list"}
        )
        await alice.until(lambda: len(alice.heard) >= 4)

    asked = [(request.verb, request.identity) for request in scheduler.asked]
    assert sorted(asked) == [("get", "mallory"), ("schedule", "alice")]
    answers = {m.topic.value: answer_data(m) for m in mallory.heard if "/owners/" in m.topic.value}
    assert set(answers) == {f"wakebridge/owners/mallory/answer/{verb}" for verb in ("get", "list")}
    assert [data["error"] for _, data in sorted(answers.items())] == [
        "skill_id_mismatch",
        "invalid_record",
    ]
    assert sorted(m.topic.value for m in alice.heard) == [
        "wakebridge/owners/alice/answer/schedule",
        "wakebridge/owners/alice/event/tick",
        "wakebridge/owners/alice/missed",
        "wakebridge/status",
    ]
    assert not any(m.payload == b"forged" for m in (*alice.heard, *mallory.heard))


async def test_an_agent_hears_only_its_own_runs_and_reports_only_on_them(
    shipped: Mosquitto, tmp_path: Path, scheduler: FakeScheduler
) -> None:
    bridge = bridge_on(shipped, tmp_path, scheduler)
    reports: list[str] = []
    async with (
        running(bridge, scheduler),
        observe(
            shipped.port,
            "wakebridge/agents/#",
            username="mallory",
            password=USERS["mallory"],
        ) as mallory,
    ):
        await bridge.connection.subscribe(
            "wakebridge/agents/+/runs/+/reports", lambda received: reports.append(received.topic)
        )
        for topic in ("alice/runs/1", "alice/runs/1/control", "mallory/runs/2"):
            await bridge.connection.publish(f"wakebridge/agents/{topic}", topic.encode())
        await mallory.wait_for(1)
        assert [message.payload for message in mallory.heard] == [b"mallory/runs/2"]
        for agent in ("alice", "mallory"):
            await mallory.client.publish(f"wakebridge/agents/{agent}/runs/2/reports", b"{}", qos=1)
        await eventually(lambda: reports != [])
        assert reports == ["wakebridge/agents/mallory/runs/2/reports"]


async def test_the_tool_of_agents_is_for_those_that_the_rules_name(
    mosquitto: MosquittoFactory, tmp_path: Path, scheduler: FakeScheduler
) -> None:
    """Whoever may call it sees and cancels everybody's routines, so no owner may by itself."""

    def with_alice_as_an_agent(acl: str) -> str:
        for line in ("user agent-1", "topic write wakebridge/owners/agent-1/request/tool"):
            assert f"#   {line}\n" in acl
            acl = acl.replace(f"#   {line}", line.replace("agent-1", "alice"))
        return acl

    called: list[str | None] = []

    async def tool(payload: object, identity: str | None) -> dict[str, object]:
        called.append(identity)
        return {"is_error": False}

    broker = run_shipped(mosquitto, tmp_path, with_alice_as_an_agent)
    bridge = bridge_on(broker, tmp_path, scheduler, tool)
    async with running(bridge, scheduler):
        for user in ("mallory", "alice"):
            answers = f"wakebridge/owners/{user}/answer/#"
            async with observe(broker.port, answers, username=user, password=USERS[user]) as client:
                await client.client.publish(f"wakebridge/owners/{user}/request/tool", b"{}", 1)
                # Every other request is the owner's own.
                await client.client.publish(f"wakebridge/owners/{user}/request/list", body(user), 1)
                await client.until(lambda: any("list" in m.topic.value for m in client.heard))
        await eventually(lambda: called != [])
    assert called == ["alice"]


@pytest.mark.parametrize("password", [None, "wrong"])
async def test_nobody_connects_without_the_password(
    shipped: Mosquitto, password: str | None
) -> None:
    with pytest.raises(aiomqtt.MqttError):
        async with observe(shipped.port, username="alice", password=password):
            pass


async def test_a_wrong_password_is_trouble_told_without_the_password(
    shipped: Mosquitto, tmp_path: Path, scheduler: FakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    bus = bridge_on(shipped, tmp_path, scheduler)
    (tmp_path / "password").write_text("not the bridge secret")
    async with attempting(bus):
        await eventually(lambda: "authori" in bus.connection.trouble.lower())
        assert "secret" not in caplog.text
        assert "secret" not in repr(vars(bus.connection))
        # Once the file is right the bridge comes up: it is read at every attempt.
        (tmp_path / "password").write_text(USERS["wakebridge"])
        await asyncio.wait_for(scheduler.is_up.wait(), WAIT_S)


async def test_what_the_broker_refuses_is_not_taken_for_accepted(
    mosquitto: MosquittoFactory, scheduler: FakeScheduler
) -> None:
    """E51: a fire counts as emitted after the PUBACK, and a PUBACK can say no."""
    broker = mosquitto(acl="topic readwrite wakebridge/status\ntopic readwrite wakebridge/ready\n")
    async with running(MqttBus(MqttConfig(port=broker.port), scheduler), scheduler) as bus:
        with pytest.raises(Undeliverable, match="Not authorized"):
            await bus.emit(BusMessage("alice.tick", b"{}", {}, "alice"))
        await bus.publish_state("timer", {"state": "idle"})
        await bus.emit(BusMessage("ovos.scheduler.ready", b"{}", {}, None))


async def test_a_bridge_that_may_not_say_its_status_is_trouble_not_a_crash(
    mosquitto: MosquittoFactory, scheduler: FakeScheduler
) -> None:
    broker = mosquitto(acl="topic read #\n")
    bus = MqttBus(MqttConfig(port=broker.port), scheduler)
    async with attempting(bus):
        await eventually(lambda: "wakebridge/status: Not authorized" in bus.connection.trouble)
    assert not scheduler.is_up.is_set()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    made = Certificates.make(tmp_path_factory.mktemp("tls") / "ca")
    made.issue("broker", host="127.0.0.1")
    made.issue("elsewhere", host="127.0.0.2")
    made.issue("wakebridge")
    return made


async def test_tls_with_a_client_certificate(
    mosquitto: MosquittoFactory, certificates: Certificates, scheduler: FakeScheduler
) -> None:
    acl = (PACKAGING / "wakebridge.acl").read_text()
    broker = mosquitto(certificates=certificates, acl=acl)
    config = MqttConfig(
        port=broker.port,
        tls=True,
        tls_ca_file=str(certificates.ca),
        tls_cert_file=str(certificates.certificate("wakebridge")),
        tls_key_file=str(certificates.key("wakebridge")),
    )
    async with running(MqttBus(config, scheduler), scheduler) as bus:
        await bus.emit(BusMessage("alice.tick", b"{}", {}, "alice"))
        # The broker knows the bridge by its certificate, or the rules would keep its status back.
        assert any("u'wakebridge'" in line for line in broker.log)


async def test_tls_without_a_client_certificate_is_refused_by_the_broker(
    mosquitto: MosquittoFactory, certificates: Certificates, scheduler: FakeScheduler
) -> None:
    broker = mosquitto(certificates=certificates)
    config = MqttConfig(port=broker.port, tls=True, tls_ca_file=str(certificates.ca))
    bus = MqttBus(config, scheduler)
    async with attempting(bus):
        await eventually(lambda: "CERTIFICATE_REQUIRED" in bus.connection.trouble)
    assert not scheduler.is_up.is_set()


# The library leaves a socket whose handshake failed to the garbage collector, which says so.
@pytest.mark.filterwarnings("ignore:unclosed <ssl:ResourceWarning")
async def test_tls_refuses_a_broker_of_another_authority_and_one_with_another_name(
    mosquitto: MosquittoFactory,
    certificates: Certificates,
    scheduler: FakeScheduler,
    tmp_path: Path,
) -> None:
    broker = mosquitto(certificates=certificates)
    stranger = Certificates.make(tmp_path / "stranger")
    bus = MqttBus(MqttConfig(port=broker.port, tls=True, tls_ca_file=str(stranger.ca)), scheduler)
    async with attempting(bus):
        await eventually(lambda: "certificate verify failed" in bus.connection.trouble)
    bus = MqttBus(
        MqttConfig(host="localhost", port=broker.port, tls=True, tls_ca_file=str(certificates.ca)),
        scheduler,
    )
    async with attempting(bus):
        await eventually(lambda: "certificate verify failed" in bus.connection.trouble)
    assert not scheduler.is_up.is_set()
    gc.collect()
