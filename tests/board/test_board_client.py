"""The client: calls with answers over any port."""

import asyncio
from collections.abc import Callable

import pytest

from firmware_board import FirmwareBoard
from supervised import SkewedClock
from wakebridge.board.client import BoardClient, Reading, timer_reading
from wakebridge.board.connection import Evidence, Refusal
from wakebridge.board.errors import LinkLost
from wakebridge.board.watch import LinkWatch, Trouble
from wakebridge.schedule.instants import Now
from wakebridge.wake.board_rate import BoardRate
from wakebridge.wake.reconciler import CountdownState
from wakewire import codes
from wakewire.messages import TimerState

BOOT = b"bootboot"


class DirectPort:
    """Hands bytes straight to the firmware's dispatcher and its answers back, later."""

    def __init__(self, board: FirmwareBoard) -> None:
        self.board = board
        self.closed = False
        self.cut = False
        self.lose: Callable[[str], None] = lambda reason: None
        self._give: Callable[[bytes], None] = lambda data: None

    def attach(self, on_data: Callable[[bytes], None], on_lost: Callable[[str], None]) -> None:
        self._give, self.lose = on_data, on_lost

    def write(self, data: bytes) -> None:
        if self.cut:
            raise LinkLost("the cable is cut")
        answer = self.board.receive(data, 5_000)
        if answer:
            asyncio.get_running_loop().call_soon(self._give, answer)

    def close(self) -> None:
        self.closed = True


class Bench:
    def __init__(self) -> None:
        self.port = DirectPort(FirmwareBoard())
        self.clock = SkewedClock()
        self.rate = BoardRate()
        self.watch = LinkWatch(lambda event: None, lambda text: None)
        self.client = BoardClient(self.port, self.clock, self.rate, self.watch, first_id=7)


async def test_every_call_has_its_answer() -> None:
    bench = Bench()
    client = bench.client
    hello = await client.hello()
    assert isinstance(hello, Reading)
    assert client.boot_id == hello.value.boot_id == BOOT
    armed = await client.timer_set(9, 60_000)
    assert isinstance(armed, Reading)
    assert timer_reading(armed).state is CountdownState.ARMED
    assert isinstance(await client.timer_get(), Reading)
    assert isinstance(await client.timer_cancel(9), Reading)
    assert isinstance(await client.ping(), Reading)
    assert isinstance(await client.diag(), Reading)
    assert isinstance(await client.restart(), Reading)
    assert bench.rate.sample_count == 5


async def test_a_refusal_is_returned_and_not_raised() -> None:
    bench = Bench()
    await bench.client.timer_set(9, 60_000)
    refused = await bench.client.timer_cancel(10)
    assert isinstance(refused, Refusal)
    assert refused.status == codes.STATUS_TOKEN_MISMATCH


async def test_a_reading_was_true_between_its_two_instants() -> None:
    """A step of the wall clock during the round trip moves both alike."""
    bench = Bench()
    before = bench.clock.now()
    answer = await bench.client.ping()
    after = bench.clock.now()
    assert isinstance(answer, Reading)
    assert before.boot_ns <= answer.sent.boot_ns <= answer.received.boot_ns <= after.boot_ns
    assert answer.received.wall_ns - answer.sent.wall_ns == (
        answer.received.boot_ns - answer.sent.boot_ns
    )


async def test_callers_of_a_link_that_is_lost_get_the_reason() -> None:
    bench = Bench()
    bench.port.write = lambda data: None  # type: ignore[method-assign]  # a board that is mute
    calls = [asyncio.ensure_future(bench.client.ping()) for _ in range(3)]
    await asyncio.sleep(0)
    bench.port.lose("the plug was pulled")
    for call in calls:
        with pytest.raises(LinkLost, match="plug"):
            await call
    with pytest.raises(LinkLost, match="plug"):
        await bench.client.ping()
    assert await bench.watch.next() == (Trouble.LOST, "the plug was pulled")


async def test_a_write_that_fails_is_a_loss() -> None:
    bench = Bench()
    bench.port.cut = True
    with pytest.raises(LinkLost, match="cut"):
        await bench.client.ping()
    assert bench.client.closed


async def test_closing_gives_the_port_back_and_detaching_does_not() -> None:
    closed, detached = Bench(), Bench()
    closed.client.close()
    detached.client.detach("a technician wants it")
    assert closed.port.closed
    assert not detached.port.closed
    with pytest.raises(LinkLost, match="technician"):
        await detached.client.ping()


@pytest.mark.parametrize(
    ("state", "remaining_ms", "expected"),
    [
        (codes.STATE_IDLE, 0, CountdownState.IDLE),
        (codes.STATE_EXPIRED, 0, CountdownState.EXPIRED),
        (9, 10, CountdownState.ARMED),
        (9, 0, CountdownState.IDLE),
    ],
)
def test_a_state_of_the_future_counts_as_armed_while_something_remains(
    state: int, remaining_ms: int, expected: CountdownState
) -> None:
    timer = TimerState(BOOT, state, 7, remaining_ms, 20, codes.FLAG_APPROXIMATE, 1)
    reading = timer_reading(Reading(timer, Now(0, 100), Now(0, 300)))
    assert reading.state is expected
    assert reading.approximate
    assert reading.boot_ns == 200


async def test_the_gravest_trouble_is_told_first() -> None:
    watch = LinkWatch(lambda event: None, lambda text: None)
    watch.prompted(Evidence.PROMPT)
    watch.silent("no answer")
    watch.lost("gone")
    assert await watch.next() == (Trouble.LOST, "gone")
    assert (await watch.next())[0] is Trouble.SILENT
    watch.settle()
    watch.prompted(Evidence.ECHO)
    assert watch.echo.is_set()
    assert (await watch.next())[0] is Trouble.ECHO
