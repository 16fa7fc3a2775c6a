"""Connection and the firmware's dispatcher joined by links of every badness, in virtual time."""

import heapq
import random
from collections.abc import Callable

import pytest

from firmware_board import FirmwareBoard
from wakebridge.board.connection import Answered, Connection, Hint, TimedOut
from wakewire import codes
from wakewire.messages import EventBatch, TimerState

MS = 1_000_000
TOKEN = 0x51AB_0001

Piece = tuple[float, bytes]
Line = Callable[[random.Random, bytes], list[Piece]]
"""What a link makes of the bytes given to it: pieces, each with a delay in ms."""


def perfect(_chance: random.Random, data: bytes) -> list[Piece]:
    return [(0, data)]


def one_byte_at_a_time(_chance: random.Random, data: bytes) -> list[Piece]:
    return [(index * 0.087, data[index : index + 1]) for index in range(len(data))]


def slow(chance: random.Random, data: bytes) -> list[Piece]:
    """Later than the first attempt waits, so that answers cross repetitions."""
    return [(chance.uniform(0, 900), data)]


def lossy(chance: random.Random, data: bytes) -> list[Piece]:
    """A tenth of the frames arrive with a byte missing or spoilt."""
    if chance.random() < 0.9:
        return [(1, data)]
    at = chance.randrange(len(data))
    spoilt = bytes((data[at] ^ 1 << chance.randrange(8),)) if chance.random() < 0.5 else b""
    return [(1, data[:at] + spoilt + data[at + 1 :])]


def doubled(chance: random.Random, data: bytes) -> list[Piece]:
    return [(chance.uniform(0, 5), data), (chance.uniform(0, 1500), data)]


def noisy(chance: random.Random, data: bytes) -> list[Piece]:
    """Console text and garbage around every frame."""
    return [
        (0, chance.randbytes(chance.randrange(40)) + b"log: \x1b[0m"),
        (1, data),
        (2, chance.randbytes(chance.randrange(40))),
    ]


def everything(chance: random.Random, data: bytes) -> list[Piece]:
    line = chance.choice([perfect, one_byte_at_a_time, slow, lossy, doubled, noisy])
    return line(chance, data)


LINES = [perfect, one_byte_at_a_time, slow, lossy, doubled, noisy, everything]


class World:
    """Virtual time, the two ends, and what is on its way between them."""

    def __init__(self, line: Line, seed: int) -> None:
        self.now_ns = 0
        self.chance = random.Random(seed)
        self.line = line
        self.host = Connection(first_id=self.chance.randrange(0x10000))
        self.board = FirmwareBoard()
        self.in_flight: list[tuple[int, int, bool, bytes]] = []
        self.count = 0
        self.latest_ns = {True: 0, False: 0}
        self.hints: list[Hint] = []

    def put(self, to_board: bool, data: bytes) -> None:
        if not data:
            return
        for delay_ms, piece in self.line(self.chance, data):
            self.count += 1
            # A serial line may delay, but nothing overtakes on it.
            at_ns = max(self.now_ns + round(delay_ms * MS), self.latest_ns[to_board])
            self.latest_ns[to_board] = at_ns
            heapq.heappush(self.in_flight, (at_ns, self.count, to_board, piece))

    def step(self) -> None:
        """Go to whatever happens next: a piece arrives, a deadline passes, a millisecond ticks."""
        self.put(True, self.host.data_to_send(self.now_ns))
        moments = [self.now_ns + 50 * MS]
        deadline_ns = self.host.next_deadline()
        if deadline_ns is not None:
            moments.append(deadline_ns)
        if self.in_flight:
            moments.append(self.in_flight[0][0])
        self.now_ns = max(self.now_ns, min(moments))
        self.put(False, self.board.tick(self.now_ns // MS))
        while self.in_flight and self.in_flight[0][0] <= self.now_ns:
            _, _, to_board, piece = heapq.heappop(self.in_flight)
            if to_board:
                self.put(False, self.board.receive(piece, self.now_ns // MS))
            else:
                self.host.receive(piece, self.now_ns)
        self.host.handle_timeout(self.now_ns)

    def ask(self, op: int, *args: object) -> Answered:
        """Ask until it is answered, as the callers of the client do."""
        for _ in range(20):
            handle = self.host.request(op, *args)
            while True:
                event = self.host.next_event()
                if isinstance(event, Hint):
                    self.hints.append(event)
                elif isinstance(event, Answered):
                    assert event.handle == handle
                    return event
                elif isinstance(event, TimedOut):
                    break
                elif event is None:
                    self.step()
        raise AssertionError("never answered")

    def timer(self, answered: Answered) -> TimerState:
        assert isinstance(answered.value, TimerState), answered
        return answered.value


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("line", LINES, ids=lambda line: line.__name__)
def test_a_countdown_is_armed_once_fires_once_and_is_read_back(line: Line, seed: int) -> None:
    """R44: repeated and crossing SETs never restart it; one wake of source 4 is logged."""
    world = World(line, seed)
    world.ask(codes.OP_HELLO)
    armed = world.timer(world.ask(codes.OP_TIMER_SET, TOKEN, 60_000))
    assert (armed.state, armed.token) == (codes.STATE_ARMED, TOKEN)
    started_ms = world.now_ns // MS
    for _ in range(10):
        world.ask(codes.OP_TIMER_SET, TOKEN, 60_000)
        reading = world.timer(world.ask(codes.OP_TIMER_GET))
        assert reading.remaining_ms <= 60_000 - (world.now_ns // MS - started_ms) + 4_000
    while world.board.dispatcher.log.last_seq < 2:
        world.step()
    assert 56_000 <= world.now_ns // MS - started_ms <= 60_100
    log = world.ask(codes.OP_EVENTS_GET, b"bootboot", 0).value
    assert isinstance(log, EventBatch)
    assert [event.source for event in log.events] == [codes.SOURCE_BOOT, codes.SOURCE_RTC_TIMER]
    assert world.timer(world.ask(codes.OP_TIMER_GET)).state == codes.STATE_EXPIRED


@pytest.mark.parametrize("seed", range(3))
def test_thousands_of_exchanges_over_a_bad_link_all_find_their_own_answer(seed: int) -> None:
    world = World(everything, seed)
    for number in range(300):
        token = TOKEN + number
        duration_ms = 1_000_000 + number
        assert world.timer(world.ask(codes.OP_TIMER_SET, token, duration_ms)).token == token
        cancelled = world.ask(codes.OP_TIMER_CANCEL, token)
        assert world.timer(cancelled).state == codes.STATE_IDLE
    counters = world.host.counters()
    assert counters.unknown_answers > 0
    assert counters.retries > 0
