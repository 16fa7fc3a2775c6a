"""The client library with the running bridge (E80)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta

import pytest

from conformance.conftest import World
from conformance.ears import WAIT_S
from wakebridge.client import (
    Fired,
    SchedulerClient,
    ScheduleRefused,
    connect_mqtt,
    connect_ovos,
)

SOON = timedelta(milliseconds=100)
LATER = timedelta(hours=1)


class Handler:
    """Keeps what it is called with."""

    def __init__(self) -> None:
        self.fires: asyncio.Queue[Fired] = asyncio.Queue()

    def __call__(self, fired: Fired) -> None:
        self.fires.put_nowait(fired)

    async def next(self) -> Fired:
        return await asyncio.wait_for(self.fires.get(), WAIT_S)


Connect = Callable[[], AbstractAsyncContextManager[SchedulerClient]]


@pytest.fixture(params=["mqtt", "ovos"])
def connect(world: World, request: pytest.FixtureRequest, owner: str) -> Connect:
    """The library on each transport, in the name of the test's owner."""
    if request.param == "mqtt":
        return lambda: connect_mqtt(owner, port=world.broker.port)
    return lambda: connect_ovos(owner, port=world.ovos.port)


@pytest.fixture
async def client(connect: Connect) -> AsyncIterator[SchedulerClient]:
    """A connected client; what it still has is cancelled at the end."""
    async with connect() as connected:
        yield connected
        for entry in await connected.list():
            await connected.cancel(entry.record["id"])


async def test_the_handler_is_there_before_the_event_e80(client: SchedulerClient) -> None:
    """An event that is due at once reaches the handler of its own request."""
    handler = Handler()
    accepted = await client.schedule("tick", handler, at=datetime.now(UTC), data={"n": 1})
    fired = await handler.next()
    assert (fired.due, fired.data) == (accepted.next, {"n": 1})


async def test_a_refusal_is_raised_and_every_answer_awaited_e80(client: SchedulerClient) -> None:
    with pytest.raises(ScheduleRefused) as refused:
        await client.schedule("tick", Handler(), every=timedelta(0))
    assert refused.value.code == "bad_recurrence"
    assert await client.list() == ()


async def test_only_aware_datetimes_are_taken_for_at_e80(client: SchedulerClient) -> None:
    naive = datetime.now(UTC).replace(tzinfo=None)
    with pytest.raises(ValueError, match=r"naive|aware|zone"):
        await client.schedule("tick", Handler(), at=naive)
    assert await client.list() == ()


async def test_cancel_removes_the_handler_that_schedule_registered_e80(
    client: SchedulerClient, connect: Connect
) -> None:
    """Another program of the same owner schedules the event again: nobody is called here."""
    handler, other = Handler(), Handler()
    await client.schedule("tick", handler, in_=LATER)
    assert await client.cancel("tick") is True
    async with connect() as second:
        await second.schedule("tick", other, in_=SOON)
        await other.next()
    assert handler.fires.empty()


async def test_a_replacement_leaves_no_second_handler_e80(client: SchedulerClient) -> None:
    first, second = Handler(), Handler()
    await client.schedule("tick", first, in_=LATER)
    assert (await client.schedule("tick", second, in_=SOON)).replaced is True
    await second.next()
    assert first.fires.empty()


async def test_list_and_get_show_what_is_stored_e80(client: SchedulerClient) -> None:
    accepted = await client.schedule("tick", Handler(), every=LATER, count=2)
    (entry,) = await client.list()
    shown = await client.get("tick")
    assert shown == entry
    assert (entry.state.next, entry.state.remaining) == (accepted.next, 2)
    assert await client.get("nowhere") is None


async def test_the_default_id_is_the_name_that_the_caller_gives_e80(
    client: SchedulerClient,
) -> None:
    """Never the function's: another handler for the same event is the same schedule."""
    await client.schedule("tick", Handler(), in_=LATER)
    assert (await client.schedule("tick", lambda fired: None, in_=LATER)).replaced is True
    assert [entry.record["id"] for entry in await client.list()] == ["tick"]
