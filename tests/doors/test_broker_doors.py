"""The whole bridge behind the broker's doors: TLS with certificates, or a user and a password.

What it knows that is secret appears in no log, no process list and no environment.
"""

import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiomqtt
import pytest

from bridges import BridgeProcess
from brokers import Certificates, Mosquitto, MosquittoFactory
from mqtt_clients import request_properties

MQTT_SECRET = "the password of the broker"
HTTP_SECRET = "the-token-of-the-interface"
PASSWORDS = {"wakebridge": MQTT_SECRET, "alice": "alice secret"}
REQUEST = (
    b'{"data":{"id":"a","event":"alice.tick","in":{"seconds":0.5}},"context":{"skill_id":"alice"}}'
)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    made = Certificates.make(tmp_path_factory.mktemp("authority") / "certificates")
    made.issue("broker", host="127.0.0.1")
    made.issue("wakebridge")
    made.issue("alice")
    return made


async def heard_her_event(client: aiomqtt.Client) -> None:
    """Schedule an event as alice, and wait until it is fired."""
    own = "wakebridge/owners/alice"
    await client.subscribe(f"{own}/answer/#", qos=1)
    await client.subscribe(f"{own}/event/+", qos=1)
    await client.subscribe("wakebridge/status", qos=1)
    topics = aiter(client.messages)
    while (await anext(topics)).payload != b"online":
        pass
    properties = request_properties(f"{own}/answer/schedule")
    await client.publish(f"{own}/request/schedule", REQUEST, qos=1, properties=properties)
    while (await anext(topics)).topic.value != f"{own}/event/tick":
        pass


async def test_over_tls_with_client_certificates_events_are_asked_for_and_fired(
    mosquitto: MosquittoFactory, certificates: Certificates, tmp_path: Path
) -> None:
    broker = mosquitto(certificates=certificates)
    section = {
        "port": broker.port,
        "tls": True,
        "tls_ca_file": str(certificates.ca),
        "tls_cert_file": str(certificates.certificate("wakebridge")),
        "tls_key_file": str(certificates.key("wakebridge")),
    }
    hers = ssl.create_default_context(cafile=str(certificates.ca))
    hers.load_cert_chain(certificates.certificate("alice"), certificates.key("alice"))
    async with (
        BridgeProcess(tmp_path / "bridge", port=str(tmp_path / "no-board"), mqtt=section),
        aiomqtt.Client(
            "127.0.0.1", broker.port, tls_context=hers, protocol=aiomqtt.ProtocolVersion.V5
        ) as alice,
    ):
        await heard_her_event(alice)


@pytest.fixture
def guarded(mosquitto: MosquittoFactory) -> Mosquitto:
    return mosquitto(passwords=PASSWORDS)


@pytest.fixture
async def bridge(guarded: Mosquitto, tmp_path: Path) -> AsyncIterator[BridgeProcess]:
    """A bridge with two secrets, which says everything it can say."""
    for name, secret in (("password", MQTT_SECRET), ("token", HTTP_SECRET)):
        (tmp_path / name).write_text(secret + "\n")
        (tmp_path / name).chmod(0o600)
    section = {
        "port": guarded.port,
        "username": "wakebridge",
        "password_file": str(tmp_path / "password"),
    }
    argv = ["/bin/sh", "-c", 'sleep 0.3; echo \'{"type": "result", "text": "x"}\'']
    daemon = BridgeProcess(
        tmp_path / "bridge",
        port=str(tmp_path / "no-board"),
        mqtt=section,
        log_level="debug",
        agent={"runner": "command", "command": {"argv": argv}},
    )
    daemon.config["http"]["token_file"] = str(tmp_path / "token")
    async with daemon:
        yield daemon


async def test_with_user_and_password_events_are_asked_for_and_fired(
    guarded: Mosquitto, bridge: BridgeProcess
) -> None:
    async with aiomqtt.Client(
        "127.0.0.1",
        guarded.port,
        username="alice",
        password=PASSWORDS["alice"],
        protocol=aiomqtt.ProtocolVersion.V5,
    ) as alice:
        await heard_her_event(alice)


def family(pid: int) -> list[int]:
    """Return a process and all that it has started."""
    children: list[str] = []
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in family(int(child)))]


def shown_of(pid: int) -> str:
    """Return what the process list shows of a process; nothing when it has ended meanwhile."""
    with contextlib.suppress(OSError):
        names = ("cmdline", "environ", "comm")
        return "".join(Path(f"/proc/{pid}/{name}").read_text(errors="replace") for name in names)
    return ""


async def test_no_secret_is_in_a_log_a_process_list_or_an_environment(
    bridge: BridgeProcess,
) -> None:
    token = {"Authorization": f"Bearer {HTTP_SECRET}"}
    for headers in (token, {"Authorization": f"Bearer {HTTP_SECRET}x"}, {}):
        await bridge.http("GET", "/api/health", **headers)
    await bridge.http("POST", "/api/sessions", {"session_id": "s"}, **token)
    body = {"kind": "interactive", "task": "x"}
    assert (await bridge.http("POST", "/api/sessions/s/runs", body, **token)).status == 200
    shown = ""
    processes: set[int] = set()
    while not bridge.all_said("run ended"):
        for pid in family(bridge.pid):
            processes.add(pid)
            shown += shown_of(pid)
        await bridge.http("GET", "/api/health", **token)
    assert len(processes) > 2  # the daemon, the keeper, the program
    shown += str(bridge.lines) + str(await bridge.http("GET", "/api/health", **token))
    assert "wakebridge" in shown
    assert MQTT_SECRET not in shown
    assert HTTP_SECRET not in shown
    state = b"".join(p.read_bytes() for p in bridge.directory.rglob("*") if p.is_file())
    assert MQTT_SECRET.encode() not in state
    assert HTTP_SECRET.encode() not in state
