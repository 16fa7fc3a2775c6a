"""The AsyncAPI document is valid, and what really goes over a broker is what it says."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from jsonschema import Draft7Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7

from brokers import MosquittoFactory
from event_bridge import event_bridge
from mqtt_clients import observe
from wakebridge.adapters.mqtt.envelope import NESTING_MAX, REQUEST_BYTES_MAX, TOOL_TYPE, TOOL_VERB
from wakebridge.adapters.mqtt.requests import IN_PROGRESS_MAX, OWNER_IN_PROGRESS_MAX, REFUSALS_MAX
from wakebridge.bus import REQUEST_TYPES
from wakebridge.daemon import _board_state, _timer_state
from wakebridge.mqttbus.config import KEEPALIVE_S, SESSION_EXPIRY_S, MqttConfig
from wakebridge.mqttbus.topics import Topics, matches
from wakebridge.routine.state import RunKind
from wakebridge.runner import messages as agent
from wakebridge.runner.mqtt import MqttRunner, MqttRunnerConfig
from wakebridge.runner.port import RunRequest
from wakebridge.service.waking import Armed

ROOT = Path(__file__).parents[2]
DOCUMENT: dict[str, Any] = yaml.safe_load(
    (ROOT / "host/docs/reference/asyncapi.yaml").read_text(encoding="utf-8")
)
CHANNELS: dict[str, Any] = DOCUMENT["channels"]
MESSAGES: dict[str, Any] = DOCUMENT["components"]["messages"]
OWNER = "wakebridge/owners/demo.skill"

_REGISTRY: "Registry[Any]" = Registry().with_resource(
    "urn:document", Resource.from_contents(DOCUMENT, default_specification=DRAFT7)
)


def fits(message: str, payload: object) -> bool:
    """Tell whether a payload is what the document says a message has."""
    pointer = f"urn:document#/components/messages/{message}/payload"
    return Draft7Validator({"$ref": pointer}, registry=_REGISTRY).is_valid(payload)


def filter_of(channel: str) -> str:
    """Return the topic filter for a channel's address, with the default base."""
    levels = CHANNELS[channel]["address"].replace("{base}", "wakebridge").split("/")
    return "/".join("+" if level.startswith("{") else level for level in levels)


def asyncapi_validator() -> Draft7Validator:
    path = ROOT / "tests/node_modules/@asyncapi/specs/schemas/3.0.0.json"
    return Draft7Validator(json.loads(path.read_text(encoding="utf-8")))


def test_the_document_is_valid_asyncapi_3() -> None:
    errors = [
        f"{'/'.join(map(str, error.absolute_path))}: {error.message}"
        for error in asyncapi_validator().iter_errors(DOCUMENT)
    ]
    assert errors == []


@pytest.mark.parametrize(
    "wrong",
    [
        {**DOCUMENT, "chanels": {}},
        {**DOCUMENT, "asyncapi": "2.6.0"},
        {**DOCUMENT, "operations": {"x": {"action": "shout", "channel": {"$ref": "#/channels/a"}}}},
    ],
)
def test_the_validator_bites(wrong: dict[str, Any]) -> None:
    assert not asyncapi_validator().is_valid(wrong)


def test_every_reference_leads_somewhere() -> None:
    def references(node: object) -> list[str]:
        if isinstance(node, dict):
            own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
            return own + [ref for child in node.values() for ref in references(child)]
        if isinstance(node, list):
            return [ref for child in node for ref in references(child)]
        return []

    resolver = _REGISTRY.resolver("urn:document")
    for reference in set(references(DOCUMENT)):
        resolver.lookup(f"urn:document{reference}")


def test_the_addresses_are_the_topics_of_the_adapter_and_the_runner() -> None:
    topics = Topics("wakebridge")
    runner = MqttRunner.__new__(MqttRunner)
    runner._base = f"wakebridge/agents/{MqttRunnerConfig(agent='a').agent}"
    expected = {
        "request": topics.requests(),
        "answer": topics.answer("a", "list"),
        "event": topics.event("a", "a.tick"),
        "missed": topics.missed("a"),
        "ready": topics.ready(),
        "status": topics.status(),
        "timer": topics.state("timer"),
        "board": topics.state("board"),
        "run": runner._topic("1"),
        "control": f"{runner._topic('1')}/control",
        "agentStatus": runner._subscriptions()[0][0],
        "reports": runner._subscriptions()[1][0],
    }
    assert set(expected) == set(CHANNELS)
    for channel, topic in expected.items():
        covering = [name for name in CHANNELS if matches(filter_of(name), topic)]
        assert covering == [channel]


def test_the_requests_are_those_of_the_adapter() -> None:
    assert DOCUMENT["components"]["parameters"]["verb"]["enum"] == [*REQUEST_TYPES, TOOL_VERB]
    names = {verb: MESSAGES[verb]["name"] for verb in CHANNELS["request"]["messages"]}
    assert names == {**REQUEST_TYPES, TOOL_VERB: TOOL_TYPE}


def test_the_limits_in_the_text_are_those_of_the_code() -> None:
    text = DOCUMENT["info"]["description"]
    for limit in (
        REQUEST_BYTES_MAX,
        NESTING_MAX,
        OWNER_IN_PROGRESS_MAX,
        IN_PROGRESS_MAX,
        REFUSALS_MAX,
    ):
        assert str(limit) in text
    server = DOCUMENT["servers"]["broker"]["bindings"]["mqtt"]
    assert server["keepAlive"] == KEEPALIVE_S
    assert server["sessionExpiryInterval"] == SESSION_EXPIRY_S
    assert server["clientId"] == MqttConfig().client_id


@pytest.mark.parametrize("message", [name for name in MESSAGES if "examples" in MESSAGES[name]])
def test_every_example_fits_its_message(message: str) -> None:
    for example in MESSAGES[message]["examples"]:
        assert fits(message, example["payload"])


@pytest.mark.parametrize(
    "report",
    [
        agent.Accepted(),
        agent.Progress("half", 1),
        agent.Alive(3),
        agent.Unknown(3),
        agent.Result("done"),
        agent.Error("why"),
        agent.Cancelled(),
    ],
)
def test_what_agents_report_fits_and_is_understood(report: agent.Report) -> None:
    encoded = msgspec.json.encode(report)
    assert fits("report", msgspec.json.decode(encoded))
    assert agent.read_report(encoded) == report


def test_what_agents_are_told_fits() -> None:
    request = RunRequest(run_id="1", kind=RunKind.SCHEDULED, session_id="s", task="t")
    assert fits("run", msgspec.to_builtins(request))
    assert fits("control", {"type": "query", "query": 1})


def test_what_is_retained_about_timer_and_board_fits() -> None:
    assert fits("timer", _timer_state(Armed("")))
    assert fits("timer", _timer_state(Armed("", "armed", 7, 600_000, 1, "1 of 2", ours=True)))
    assert fits("board", _board_state(None, "no serial device"))


ASKED: list[tuple[str, dict[str, Any]]] = [
    ("schedule", {"id": "a", "event": "demo.skill.a", "at": "2031-03-29T07:30:00+01:00"}),
    ("schedule", {"id": "b", "event": "demo.skill.b", "in": {"seconds": 0.05}, "data": {"n": 1}}),
    ("schedule", {"id": "c", "event": "demo.skill.c", "every": {"seconds": 60}, "count": 3}),
    (
        "schedule",
        {
            "id": "d",
            "event": "demo.skill.d",
            "local": {"time": "06:30", "days": ["mon"], "zone": "Europe/Lisbon"},
            "until": "2031-03-29T07:30:00Z",
        },
    ),
    (
        "schedule",
        {"id": "e", "event": "demo.skill.e", "at": "2020-01-01T00:00:00+00:00", "misfire": "skip"},
    ),
    ("get", {"id": "a"}),
    ("get", {"id": "nothing"}),
    ("list", {}),
    ("cancel", {"id": "a"}),
    ("cancel", {"id": "a"}),
]


async def test_what_really_goes_over_the_broker_is_what_the_document_says(
    mosquitto: MosquittoFactory, tmp_path: Path
) -> None:
    broker = mosquitto()
    context = {"skill_id": "demo.skill", "request_id": "1"}
    async with observe(broker.port, "wakebridge/#") as client:

        def seen() -> list[str]:
            return [channel_of(message.topic.value) for message in client.heard]

        async with event_bridge(MqttConfig(port=broker.port), tmp_path) as bus:
            for verb, data in ASKED:
                assert fits(verb, {"data": data, "context": context})
                payload = msgspec.json.encode({"data": data, "context": context})
                await client.client.publish(f"{OWNER}/request/{verb}", payload, qos=1)
            await client.client.publish(f"{OWNER}/request/tool", b'{"data":{"input":{}}}', qos=1)
            await client.client.publish(f"{OWNER}/request/schedule", b"nonsense", qos=1)
            await bus.publish_state("timer", _timer_state(Armed("no board")))
            await bus.publish_state("board", _board_state(None, "no board"))
            wanted = {"answer", "event", "missed", "ready", "status", "timer", "board", "request"}
            await client.until(lambda: set(seen()) >= wanted)
            await client.until(lambda: seen().count("answer") == len(ASKED) + 2)
        await client.until(lambda: seen().count("status") == 2)

    for message in client.heard:
        channel = channel_of(message.topic.value)
        assert isinstance(message.payload, bytes)
        if channel == "status":
            assert fits("status", message.payload.decode())
        elif channel != "request":
            body = msgspec.json.decode(message.payload)
            assert any(fits(name, body) for name in CHANNELS[channel]["messages"]), body


def channel_of(topic: str) -> str:
    (channel,) = (name for name in CHANNELS if matches(filter_of(name), topic))
    return channel
