"""The client library over a real broker and the real event side of the bridge: E80."""

import asyncio
import contextlib
import doctest
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import aiomqtt
import pytest

import wakebridge.client
from brokers import Mosquitto, MosquittoFactory, free_port
from event_bridge import event_bridge
from mqtt_clients import observe
from wakebridge.bus import BusMessage
from wakebridge.client import (
    Fired,
    Local,
    Missed,
    NoAnswer,
    NotConnected,
    SchedulerClient,
    ScheduleRefused,
    connect_mqtt,
)
from wakebridge.mqttbus.config import MqttConfig

WAIT_S = 10.0
SOON = timedelta(milliseconds=50)
LATER = timedelta(hours=1)


class Heard:
    """A handler that keeps what it is called with."""

    def __init__(self) -> None:
        self.fires: asyncio.Queue[Fired] = asyncio.Queue()

    async def __call__(self, fired: Fired) -> None:
        await self.fires.put(fired)

    async def next(self) -> Fired:
        return await asyncio.wait_for(self.fires.get(), WAIT_S)


@pytest.fixture(params=["5", "3.1.1"])
async def client(
    broker: Mosquitto, request: pytest.FixtureRequest
) -> AsyncIterator[SchedulerClient]:
    protocol: Literal["5", "3.1.1"] = request.param
    async with connect_mqtt("demo.skill", port=broker.port, protocol=protocol) as connected:
        yield connected


def event(client: SchedulerClient, record_id: str, name: str, due: str) -> BusMessage:
    """Return a fire as the bridge would emit it."""
    occurrence = {
        "id": record_id,
        "skill_id": client.skill_id,
        "due": due,
        "fired": due,
        "remaining": None,
    }
    return BusMessage(
        f"{client.skill_id}.{name}", b"{}", {"scheduler": occurrence}, client.skill_id
    )


async def test_e80_a_schedule_fires_its_handler_with_what_was_given(
    client: SchedulerClient,
) -> None:
    heard = Heard()
    before = datetime.now(UTC)
    accepted = await client.schedule(
        "tick", heard, in_=SOON, data={"n": 1}, context={"session": {"session_id": "s"}}
    )
    assert (accepted.id, accepted.skill_id, accepted.replaced) == ("tick", "demo.skill", False)
    fired = await heard.next()
    assert (fired.id, fired.event, fired.data) == ("tick", "tick", {"n": 1})
    assert fired.due == accepted.next
    assert before < fired.due <= fired.fired
    assert fired.context["session"] == {"session_id": "s"}
    assert fired.context["skill_id"] == "demo.skill"


async def test_e80_all_forms_are_accepted_listed_shown_and_cancelled(
    client: SchedulerClient,
) -> None:
    due = datetime.now(UTC) + LATER
    heard = Heard()
    assert (await client.schedule("at", heard, at=due)).next == due
    await client.schedule("in", heard, in_=LATER)
    await client.schedule("every", heard, every=LATER, start=due, count=2)
    await client.schedule("local", heard, local=Local("06:30", "Europe/Lisbon", ("mon",)))
    entries = await client.list()
    assert sorted(entry.record["id"] for entry in entries) == ["at", "every", "in", "local"]
    shown = await client.get("every")
    assert shown is not None
    assert shown.record["event"] == "demo.skill.every"
    assert (shown.state.next, shown.state.last_fired) == (due, None)
    assert (shown.state.missed, shown.state.remaining) == ((), 2)
    assert await client.cancel("every") is True
    assert await client.cancel("every") is False
    assert await client.get("every") is None


@pytest.mark.parametrize(
    ("name", "code"), [("tick", "bad_recurrence"), ("ti:ck", "bad_event"), ("", "bad_event")]
)
async def test_e80_a_refusal_is_raised_with_code_and_reason(
    client: SchedulerClient, name: str, code: str
) -> None:
    with pytest.raises(ScheduleRefused) as refused:
        await client.schedule(name, Heard(), every=timedelta(0), id="x")
    assert refused.value.code == code
    assert refused.value.reason


async def test_e80_a_refusal_leaves_the_handler_from_before(client: SchedulerClient) -> None:
    heard, refused = Heard(), Heard()
    accepted = await client.schedule("tick", heard, in_=timedelta(milliseconds=200))
    with pytest.raises(ScheduleRefused):
        await client.schedule("tick", refused, in_=timedelta(0))
    assert (await heard.next()).due == accepted.next
    assert refused.fires.empty()


async def test_e80_a_replacement_leaves_no_second_handler(client: SchedulerClient) -> None:
    first, second, other = Heard(), Heard(), Heard()
    await client.schedule("tick", first, in_=LATER)
    assert (await client.schedule("tick", second, in_=SOON)).replaced is True
    await second.next()
    # Also when the new one has another event: nothing of the old one stays.
    await client.schedule("tock", other, in_=SOON, id="tick")
    await other.next()
    assert first.fires.empty()
    assert second.fires.empty()


async def test_e80_cancel_removes_the_handler(broker: Mosquitto, tmp_path: Path) -> None:
    async with connect_mqtt("demo.skill", port=broker.port) as client:
        heard, fence = Heard(), Heard()
        await client.schedule("tick", heard, in_=LATER)
        await client.cancel("tick")
        async with observe(broker.port) as forger:
            message = event(client, "tick", "tick", "2031-01-01T00:00:00+00:00")
            topic = "wakebridge/owners/demo.skill/event/tick"
            await forger.client.publish(topic, message.encode(), qos=1)
        await client.schedule("fence", fence, in_=SOON)
        await fence.next()
        assert heard.fires.empty()


async def test_e80_schedules_of_one_event_each_have_their_own_handler(
    client: SchedulerClient,
) -> None:
    a, b = Heard(), Heard()
    await client.schedule("tick", a, in_=SOON, id="a")
    await client.schedule("tick", b, in_=SOON, id="b")
    assert (await a.next()).id == "a"
    assert (await b.next()).id == "b"
    assert a.fires.empty()
    assert b.fires.empty()


async def test_e80_the_handler_is_registered_before_the_request_is_sent() -> None:
    order: list[str] = []

    class Watched:
        skill_id = "demo.skill"

        async def ask(self, verb: str, data: object, context: object) -> dict[str, object]:
            order.append(verb)
            return {"ok": True, "id": "t", "skill_id": "s", "next": None, "replaced": False}

        def listen(self, message_type: str, deliver: object) -> None:
            order.append(f"listen {message_type}")

        def ignore(self, message_type: str) -> None:
            order.append(f"ignore {message_type}")

    await SchedulerClient(Watched()).schedule("tick", Heard(), in_=LATER)
    assert order == ["listen demo.skill.tick", "schedule"]


async def test_e34_a_repeated_fire_reaches_the_handler_once(broker: Mosquitto) -> None:
    async with (
        connect_mqtt("demo.skill", port=broker.port) as client,
        observe(broker.port) as forger,
    ):
        heard = Heard()
        client.listen("tick", heard)
        topic = "wakebridge/owners/demo.skill/event/tick"
        for minute in (1, 1, 2):
            message = event(client, "t", "tick", f"2031-01-01T00:0{minute}:00+00:00")
            await forger.client.publish(topic, message.encode(), qos=1)
        assert (await heard.next()).due.minute == 1
        assert (await heard.next()).due.minute == 2
        client.ignore("tick")


async def test_schedules_from_before_this_process_reach_a_listener(broker: Mosquitto) -> None:
    async with connect_mqtt("demo.skill", port=broker.port) as client:
        await client.schedule("tick", Heard(), in_=timedelta(milliseconds=300), data={"n": 7})
    heard = Heard()
    async with connect_mqtt("demo.skill", port=broker.port) as client:
        client.listen("tick", heard)
        assert (await heard.next()).data == {"n": 7}


async def test_with_a_client_id_the_broker_keeps_events_while_the_process_is_away(
    broker: Mosquitto,
) -> None:
    async with connect_mqtt("demo.skill", port=broker.port, client_id="demo") as client:
        await client.schedule("tick", Heard(), in_=SOON)
    async with observe(broker.port, "wakebridge/owners/demo.skill/event/+") as observer:
        async with connect_mqtt("other.skill", port=broker.port) as fence:
            heard = Heard()
            await fence.schedule("fence", heard, in_=SOON * 2)
            await heard.next()
        await observer.fence()
    heard = Heard()
    async with connect_mqtt("demo.skill", port=broker.port, client_id="demo") as client:
        await client.list()  # by now the kept event is here, before its handler
        client.listen("tick", heard)
        assert (await heard.next()).id == "tick"


async def test_e41_missed_occurrences_are_told(broker: Mosquitto) -> None:
    told: asyncio.Queue[Missed] = asyncio.Queue()
    async with connect_mqtt("demo.skill", port=broker.port) as client:
        client.on_missed(told.put_nowait)
        due = datetime.now(UTC).replace(microsecond=0) - LATER
        await client.schedule("tick", Heard(), at=due, misfire="skip")
        missed = await asyncio.wait_for(told.get(), WAIT_S)
        client.on_missed(None)
    assert (missed.id, missed.missed, missed.fired_late, missed.next) == (
        "tick",
        (due,),
        None,
        None,
    )


async def test_a_failing_handler_is_logged_and_harms_nothing(
    client: SchedulerClient, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail_later(fired: Fired) -> None:
        raise RuntimeError("later")

    def fail_now(fired: Fired) -> None:
        raise RuntimeError("now")

    heard = Heard()
    await client.schedule("a", fail_later, in_=SOON)
    await client.schedule("b", fail_now, in_=SOON)
    await client.schedule("c", heard, in_=SOON * 2)
    await heard.next()
    assert "RuntimeError: later" in caplog.text
    assert "RuntimeError: now" in caplog.text


async def test_the_connection_comes_back_with_its_handlers(
    mosquitto: MosquittoFactory, tmp_path: Path
) -> None:
    broker = mosquitto()
    heard = Heard()
    async with (
        event_bridge(MqttConfig(port=broker.port), tmp_path),
        connect_mqtt("demo.skill", port=broker.port) as client,
    ):
        await client.schedule("tick", heard, in_=timedelta(seconds=1))
        broker.kill()
        broker.start()
        assert (await heard.next()).id == "tick"
        assert [entry.record["id"] for entry in await client.list()] == []


async def test_without_a_bridge_there_is_no_answer(mosquitto: MosquittoFactory) -> None:
    broker = mosquitto()
    async with connect_mqtt("demo.skill", port=broker.port, timeout_s=0.2) as client:
        with pytest.raises(NoAnswer):
            await client.list()


async def test_without_a_broker_there_is_no_connection_and_it_says_why() -> None:
    with pytest.raises(NotConnected, match="refused"):
        async with connect_mqtt("demo.skill", port=free_port(), timeout_s=0.5):
            pass


async def test_with_a_password_the_user_is_the_owner(
    mosquitto: MosquittoFactory, tmp_path: Path
) -> None:
    packaging = Path(__file__).parents[2] / "host/packaging/mosquitto"
    users = {"wakebridge": "b", "demo.skill": "s"}
    broker = mosquitto(passwords=users, acl=(packaging / "wakebridge.acl").read_text())
    secret = tmp_path / "password"
    secret.write_text("b")
    bridge = MqttConfig(port=broker.port, username="wakebridge", password_file=str(secret))
    heard = Heard()
    async with (
        event_bridge(bridge, tmp_path),
        connect_mqtt("demo.skill", port=broker.port, password="s") as client,
    ):
        await client.schedule("tick", heard, in_=SOON)
        await heard.next()
    with pytest.raises(NotConnected, match=r"(?i)not authori"):
        async with connect_mqtt("demo.skill", port=broker.port, password="x", timeout_s=0.5):
            pass


async def test_the_example_in_the_documentation_runs(broker: Mosquitto) -> None:
    def run() -> doctest.TestResults:
        return doctest.testmod(wakebridge.client, extraglobs={"PORT": broker.port})

    results = await asyncio.to_thread(run)
    assert results.attempted > 0
    assert results.failed == 0


async def test_an_answer_to_nobody_is_ignored(client: SchedulerClient, broker: Mosquitto) -> None:
    async with observe(broker.port) as forger:
        for payload in (b"", b"[]", b"{}", b'{"type":1}', b'{"type":"x","data":{},"context":{}}'):
            topic = "wakebridge/owners/demo.skill/answer/list"
            await forger.client.publish(topic, payload, qos=1)
            with contextlib.suppress(aiomqtt.MqttError):
                await forger.client.publish(
                    "wakebridge/owners/demo.skill/event/tick", payload, qos=1
                )
    assert await client.list() == ()
