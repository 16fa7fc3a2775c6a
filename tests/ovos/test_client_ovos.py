"""The client library over a real OVOS bus, with the real event side of the bridge on it: E80."""

import asyncio
import doctest
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import wakebridge.client.ovos
from brokers import free_port
from ovos_bridge import bridge
from ovos_processes import Listener, OvosBus
from wakebridge.client import (
    Fired,
    Local,
    Missed,
    NoAnswer,
    NotConnected,
    SchedulerClient,
    ScheduleRefused,
    connect_ovos,
)

WAIT_S = 10.0
SOON = timedelta(milliseconds=100)
LATER = timedelta(hours=1)


class Heard:
    """A handler that keeps what it is called with."""

    def __init__(self) -> None:
        self.fires: asyncio.Queue[Fired] = asyncio.Queue()

    async def __call__(self, fired: Fired) -> None:
        await self.fires.put(fired)

    async def next(self) -> Fired:
        return await asyncio.wait_for(self.fires.get(), WAIT_S)


@pytest.fixture
async def client(bus: OvosBus, tmp_path: Path) -> AsyncIterator[SchedulerClient]:
    async with (
        bridge(bus.port, tmp_path / "s.db"),
        connect_ovos("demo.client", port=bus.port) as connected,
    ):
        yield connected


async def test_e80_a_schedule_fires_its_handler_with_what_was_given(
    client: SchedulerClient,
) -> None:
    heard = Heard()
    session = {"session": {"session_id": "s"}}
    accepted = await client.schedule("tick", heard, in_=SOON, data={"n": 1}, context=session)
    assert (accepted.id, accepted.skill_id, accepted.replaced) == ("tick", "demo.client", False)
    fired = await heard.next()
    assert (fired.id, fired.event, fired.data) == ("tick", "tick", {"n": 1})
    assert fired.due == accepted.next
    assert fired.context["session"] == {"session_id": "s"}


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
    assert (shown.state.next, shown.state.remaining) == (due, 2)
    assert await client.cancel("every") is True
    assert await client.cancel("every") is False
    assert await client.get("every") is None


async def test_e80_a_refusal_is_raised_with_code_and_reason(client: SchedulerClient) -> None:
    with pytest.raises(ScheduleRefused) as refused:
        await client.schedule("tick", Heard(), every=timedelta(0))
    assert refused.value.code == "bad_recurrence"


async def test_e80_a_replacement_leaves_no_second_handler(client: SchedulerClient) -> None:
    first, second = Heard(), Heard()
    await client.schedule("tick", first, in_=LATER)
    assert (await client.schedule("tick", second, in_=SOON)).replaced is True
    await second.next()
    assert first.fires.empty()


async def test_answers_to_others_are_not_taken_for_ones_own(
    client: SchedulerClient, bus: OvosBus
) -> None:
    async with connect_ovos("other.client", port=bus.port) as other:
        await other.schedule("theirs", Heard(), in_=LATER)
        mine = await asyncio.gather(*(client.schedule(f"m{n}", in_=LATER) for n in range(20)))
        theirs, ours, none = await asyncio.gather(other.list(), client.list(), client.get("x"))
        assert [accepted.id for accepted in mine] == [f"m{n}" for n in range(20)]
        assert [entry.record["id"] for entry in theirs] == ["theirs"]
        assert len(ours) == 20
        assert none is None


async def test_what_others_say_does_no_harm(client: SchedulerClient, bus: OvosBus) -> None:
    heard = Heard()
    await client.schedule("tick", heard, in_=SOON * 3)
    async with Listener(bus.url) as ear:
        await ear.say("ovos.scheduler.list.response", {"ok": True}, {"request_id": [1]})
        await ear.say("demo.client.tick", {}, {"scheduler": {"skill_id": "demo.client"}})
        await ear.say("demo.client.tick", {}, {"scheduler": "no"})
        await ear.say_text('{"type": "demo.client.tick", "data": "no"}')
        await ear.say_text('{"type": "demo.client.tick"')
    assert (await heard.next()).id == "tick"


async def test_e41_missed_occurrences_are_told(client: SchedulerClient) -> None:
    told: asyncio.Queue[Missed] = asyncio.Queue()
    client.on_missed(told.put_nowait)
    due = datetime.now(UTC).replace(microsecond=0) - LATER
    await client.schedule("tick", Heard(), at=due, misfire="skip")
    missed = await asyncio.wait_for(told.get(), WAIT_S)
    assert (missed.id, missed.missed, missed.next) == ("tick", (due,), None)


async def test_the_connection_comes_back_with_its_handlers(
    own_bus: OvosBus, tmp_path: Path
) -> None:
    heard = Heard()
    async with (
        bridge(own_bus.port, tmp_path / "s.db"),
        connect_ovos("demo.client", port=own_bus.port) as client,
    ):
        await client.schedule("tick", heard, in_=timedelta(seconds=3))
        own_bus.kill()
        await asyncio.to_thread(own_bus.start)
        assert (await heard.next()).id == "tick"
        assert await client.list() == ()


async def test_without_a_bridge_there_is_no_answer(bus: OvosBus) -> None:
    async with connect_ovos("demo.client", port=bus.port, timeout_s=0.3) as client:
        with pytest.raises(NoAnswer):
            await client.list()


async def test_without_a_bus_there_is_no_connection_and_it_says_why() -> None:
    with pytest.raises(NotConnected, match=r"(?i)refused|connect"):
        async with connect_ovos("demo.client", port=free_port(), timeout_s=0.5):
            pass


async def test_the_example_of_the_documentation_runs(bus: OvosBus, tmp_path: Path) -> None:
    example = doctest.DocTestFinder().find(
        wakebridge.client.ovos, globs={"PORT": bus.port, "__name__": "__main__"}
    )
    async with bridge(bus.port, tmp_path / "s.db"):
        outcome = await asyncio.to_thread(_run_examples, example)
    assert outcome.attempted
    assert not outcome.failed


def _run_examples(examples: list[doctest.DocTest]) -> doctest.TestResults:
    runner = doctest.DocTestRunner()
    for example in examples:
        runner.run(example)
    return runner.summarize()
