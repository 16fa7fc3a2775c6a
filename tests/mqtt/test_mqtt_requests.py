"""Requests over a real broker: E20, E21, E60, E63, and the bad input of E13."""

import json

import aiomqtt
import msgspec
import pytest

from fake_scheduler import Asked
from mqtt_clients import Bridge, answer_data, decoded, observe, request_properties
from wakebridge.adapters.mqtt.envelope import NESTING_MAX, REQUEST_BYTES_MAX
from wakebridge.bus import BusMessage

OWNER = "wakebridge/owners/demo.skill"
RECORD = {"id": "a", "event": "demo.skill.tick", "in": {"seconds": 5}}
CONTEXT = {"skill_id": "demo.skill", "source": "kitchen", "destination": ["core", "other"]}


def body(data: object = None, context: object = None) -> bytes:
    return json.dumps({"data": data or RECORD, "context": context or CONTEXT}).encode()


@pytest.mark.parametrize("verb", ["schedule", "cancel", "get", "list"])
async def test_e20_mqtt5_answers_on_the_response_topic_with_its_correlation(
    bridge: Bridge, verb: str
) -> None:
    async with observe(bridge.broker.port, f"{OWNER}/answer/#") as client:
        properties = request_properties(f"{OWNER}/answer/me", b"\x00\x01")
        await client.client.publish(f"{OWNER}/request/{verb}", body(), 1, properties=properties)
        await client.wait_for(1)
        await client.fence()
    (answer,) = client.heard
    assert answer.topic.value == f"{OWNER}/answer/me"
    assert getattr(answer.properties, "CorrelationData", None) == b"\x00\x01"
    assert not answer.retain
    message = decoded(answer)
    assert message["type"] == f"ovos.scheduler.{verb}.response"
    assert answer_data(answer)["ok"] is True
    # The routing keys come back swapped, the session and everything else as it was.
    assert message["context"] == {
        "skill_id": "demo.skill",
        "source": "core",
        "destination": "kitchen",
    }
    assert bridge.scheduler.asked == [Asked(verb, RECORD, CONTEXT, "mqtt", "demo.skill")]


async def test_e20_mqtt_311_answers_on_the_owners_topic_with_the_requests_context(
    bridge: Bridge,
) -> None:
    async with observe(
        bridge.broker.port, f"{OWNER}/answer/+", protocol=aiomqtt.ProtocolVersion.V311
    ) as client:
        context = {"skill_id": "demo.skill", "request_id": "17"}
        await client.client.publish(f"{OWNER}/request/schedule", body(context=context), 1)
        (answer,) = await client.wait_for(1)
    assert answer.topic.value == f"{OWNER}/answer/schedule"
    assert decoded(answer)["context"] == context


async def test_e63_the_identity_is_the_topics_level(bridge: Bridge) -> None:
    async with observe(bridge.broker.port, f"{OWNER}/answer/+") as client:
        await client.client.publish(
            f"{OWNER}/request/schedule", body(context={"skill_id": "other.skill"}), 1
        )
        (answer,) = await client.wait_for(1)
    assert answer_data(answer)["error"] == "skill_id_mismatch"
    assert bridge.scheduler.asked[0].identity == "demo.skill"


@pytest.mark.parametrize(
    "response_topic",
    [
        "wakebridge/owners/other.skill/answer/x",
        "wakebridge/owners/demo.skill2/answer/x",
        "wakebridge/owners/demo.skill",
        "wakebridge/status",
        "wakebridge/owners/demo.skill/request/cancel",
        "elsewhere",
    ],
)
async def test_a_response_topic_outside_of_the_owners_own_is_refused(
    bridge: Bridge, response_topic: str
) -> None:
    """The bridge may write where the owner may not: it must not do so in the owner's name."""
    async with observe(bridge.broker.port, f"{OWNER}/answer/#", response_topic) as client:
        await client.client.publish(
            f"{OWNER}/request/schedule",
            body(),
            1,
            properties=request_properties(response_topic, b"c"),
        )
        await client.until(lambda: any(not m.retain for m in client.heard))
        await client.client.publish(f"{OWNER}/request/list", body(), 1)
        await client.until(lambda: f"{OWNER}/answer/list" in [m.topic.value for m in client.heard])
        await client.fence()
    answer, _ = (m for m in client.heard if not m.retain)
    assert answer.topic.value == f"{OWNER}/answer/schedule"
    assert answer_data(answer)["error"] == "invalid_record"
    assert "response topic" in str(answer_data(answer)["reason"])
    assert [asked.verb for asked in bridge.scheduler.asked] == ["list"]


MALFORMED: list[tuple[bytes, str]] = [
    (b"", "empty"),
    (b"{", "not JSON"),
    (b"\xff\xfe", "not JSON"),
    (b'{"data":{"a":"\xff"}}', "not JSON"),
    (b'{"data":{"a":"\\ud800"}}', "not JSON"),
    (b"\xef\xbb\xbf{}", "not JSON"),
    (b'{"data":{"in":{"seconds":NaN}}}', "not JSON"),
    (b'{"data":{"in":{"seconds":Infinity}}}', "not JSON"),
    (b'{"data":{"in":{"seconds":1e999}}}', "not JSON"),
    (b'{"data":' + b"9" * 5000 + b"}", "not JSON"),
    (b"{} {}", "not JSON"),
    (b"[]", "an array"),
    (b"null", "null"),
    (b"true", "a boolean"),
    (b"7", "a number"),
    (b'"x"', "a string"),
    (b'{"data":{},"context":[]}', "`context`"),
    (b'{"data":{},"context":"demo.skill"}', "`context`"),
    (b'{"data":{},"type":7}', "`type`"),
    (b'{"data":{},"type":""}', "`type`"),
    (b'{"data":{},"type":"ovos.scheduler.cancel"}', "`type`"),
    (b'{"data":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested deeper"),
    (b'{"data":' + b"[" * NESTING_MAX + b"]" * NESTING_MAX + b"}", "nested deeper"),
    (b'{"data":"' + b"x" * REQUEST_BYTES_MAX + b'"}', f"more than {REQUEST_BYTES_MAX}"),
]


@pytest.mark.parametrize(
    ("payload", "named"), MALFORMED, ids=[str(n) for n in range(len(MALFORMED))]
)
async def test_e13_e21_a_malformed_message_gets_one_answer_naming_what_is_wrong(
    bridge: Bridge, payload: bytes, named: str
) -> None:
    async with observe(bridge.broker.port, f"{OWNER}/answer/+") as client:
        await client.client.publish(f"{OWNER}/request/schedule", payload, 1)
        await client.client.publish(f"{OWNER}/request/list", body(), 1)
        answers = await client.wait_for(2)
        await client.fence()
    assert len(client.heard) == 2
    refused, served = (
        next(a for a in answers if a.topic.value.endswith(verb)) for verb in ("schedule", "list")
    )
    assert answer_data(refused)["ok"] is False
    assert answer_data(refused)["error"] == "invalid_record"
    assert named in str(answer_data(refused)["reason"])
    assert answer_data(served)["ok"] is True
    assert [asked.verb for asked in bridge.scheduler.asked] == ["list"]


async def test_e13_a_body_of_the_wrong_type_reaches_the_service_which_refuses_it(
    bridge: Bridge,
) -> None:
    async with observe(bridge.broker.port, f"{OWNER}/answer/+") as client:
        await client.client.publish(f"{OWNER}/request/schedule", b'{"data":[1],"context":{}}', 1)
        (answer,) = await client.wait_for(1)
    assert answer_data(answer)["error"] == "invalid_record"
    assert bridge.scheduler.asked[0].body == [1]


async def test_unknown_keys_beside_data_and_context_are_ignored(bridge: Bridge) -> None:
    payload = msgspec.json.encode(
        {"type": "ovos.scheduler.list", "data": {}, "context": CONTEXT, "more": 1}
    )
    async with observe(bridge.broker.port, f"{OWNER}/answer/+") as client:
        await client.client.publish(f"{OWNER}/request/list", payload, 1)
        (answer,) = await client.wait_for(1)
    assert answer_data(answer)["ok"] is True


async def test_an_unknown_request_is_refused_and_answered_inside_the_owners_topics(
    bridge: Bridge,
) -> None:
    async with observe(bridge.broker.port, f"{OWNER}/answer/+") as client:
        await client.client.publish(f"{OWNER}/request/explode", body(), 1)
        (answer,) = await client.wait_for(1)
    assert answer.topic.value == f"{OWNER}/answer/explode"
    assert answer_data(answer)["error"] == "invalid_record"
    assert "explode" in str(answer_data(answer)["reason"])


@pytest.mark.parametrize("level", ["demo%2eskill", "demo%", "demo%2Fskill%61"])
async def test_an_owner_level_that_is_no_exact_encoding_acts_for_nobody(
    bridge: Bridge, level: str
) -> None:
    async with observe(bridge.broker.port, "wakebridge/owners/+/answer/+") as client:
        await client.client.publish(f"wakebridge/owners/{level}/request/schedule", body(), 1)
        (answer,) = await client.wait_for(1)
    assert answer.topic.value == f"wakebridge/owners/{level}/answer/schedule"
    assert answer_data(answer)["error"] == "invalid_record"
    assert bridge.scheduler.asked == []


async def test_an_owner_with_a_slash_asks_on_its_encoded_level(bridge: Bridge) -> None:
    context = {"skill_id": "demo/skill"}
    async with observe(bridge.broker.port, "wakebridge/owners/demo%2Fskill/answer/+") as client:
        await client.client.publish(
            "wakebridge/owners/demo%2Fskill/request/list", body({}, context), 1
        )
        (answer,) = await client.wait_for(1)
    assert answer_data(answer)["ok"] is True
    assert bridge.scheduler.asked[0].identity == "demo/skill"


async def test_a_retained_request_is_carried_out_once_only(bridge: Bridge) -> None:
    """Kept by the broker it comes again at each of our connections."""
    async with observe(bridge.broker.port, f"{OWNER}/answer/+") as client:
        await client.client.publish(f"{OWNER}/request/schedule", body(), 1, retain=True)
        await client.wait_for(1)
        # Confirmations come in order: after this one the answer is confirmed too.
        await bridge.bus.emit(BusMessage("demo.skill.tick", b"{}", {}, "demo.skill"))
        bridge.bus.connection.reconnect("test")
        await bridge.scheduler.is_down.wait()
        await bridge.scheduler.is_up.wait()
        await client.client.publish(f"{OWNER}/request/list", body(), 1)
        answers = await client.wait_for(2)
    assert [a.topic.value.rsplit("/", 1)[1] for a in answers] == ["schedule", "list"]
    assert [asked.verb for asked in bridge.scheduler.asked] == ["schedule", "list"]


async def test_requests_are_carried_out_concurrently(bridge: Bridge) -> None:
    """A request that waits for the disk holds up no other."""
    bridge.scheduler.gate.clear()
    async with observe(bridge.broker.port, f"{OWNER}/answer/+") as client:
        for _ in range(20):
            await client.client.publish(f"{OWNER}/request/list", body(), 1)
        await client.fence()
        assert len(bridge.scheduler.asked) == 20
        assert client.heard == []
        bridge.scheduler.gate.set()
        await client.wait_for(20)


async def test_r7_the_schedule_tool_is_not_there_without_routines(bridge: Bridge) -> None:
    async with observe(bridge.broker.port, f"{OWNER}/answer/+") as client:
        payload = json.dumps({"data": {"input": {"action": "list"}}, "context": CONTEXT}).encode()
        await client.client.publish(f"{OWNER}/request/tool", payload, 1)
        (answer,) = await client.wait_for(1)
    assert decoded(answer)["type"] == "wakebridge.tool.schedule.response"
    assert answer_data(answer)["error"] == "internal"


class TestWithTool:
    @pytest.fixture
    def tool(self) -> object:
        async def call(payload: object, identity: str | None) -> dict[str, object]:
            return {"raw_input": payload, "output": identity, "is_error": False}

        return call

    async def test_r7_the_schedule_tool_is_called_with_the_callers_identity(
        self, bridge: Bridge
    ) -> None:
        envelope = {"input": {"action": "list"}}
        async with observe(bridge.broker.port, f"{OWNER}/answer/+") as client:
            payload = json.dumps({"data": envelope, "context": CONTEXT}).encode()
            await client.client.publish(f"{OWNER}/request/tool", payload, 1)
            (answer,) = await client.wait_for(1)
        assert answer_data(answer) == {
            "raw_input": envelope,
            "output": "demo.skill",
            "is_error": False,
        }


async def test_e21_a_defect_in_one_request_is_answered_and_harms_no_other(
    bridge: Bridge, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    serve = bridge.scheduler.request

    async def broken(*args: object, **more: object) -> dict[str, object]:
        raise ZeroDivisionError("defect")

    async with observe(bridge.broker.port, f"{OWNER}/answer/+") as client:
        monkeypatch.setattr(bridge.scheduler, "request", broken)
        await client.client.publish(f"{OWNER}/request/get", body(), 1)
        await client.wait_for(1)
        monkeypatch.setattr(bridge.scheduler, "request", serve)
        await client.client.publish(f"{OWNER}/request/list", body(), 1)
        failed, served = await client.wait_for(2)
    assert answer_data(failed)["error"] == "internal"
    assert "defect" not in str(answer_data(failed)["reason"])
    assert answer_data(served)["ok"] is True
    assert "ZeroDivisionError" in caplog.text
