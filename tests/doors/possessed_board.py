"""A board that has lost its mind: the real firmware behind a pty, and spells cast on what it says.

A spell changes the frames that answer a request, and may say more at any time. Without one the
board is honest, and takes up again where its firmware stands.
"""

import random
from collections.abc import Callable, Iterator

from firmware_board import FirmwareBoard
from wakewire import cbor, framing
from wakewire.codes import (
    OP_EVENTS_GET,
    OP_HELLO,
    OP_TIMER_GET,
    OP_TIMER_SET,
    SOURCE_RTC_TIMER,
    STATE_ARMED,
)
from wakewire.limits import SEQ_MAX
from wakewire.messages import Event, Request, parse

Fields = list[object]


class Spell:
    """What a possessed board does. This one does nothing out of the ordinary."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def bewitch(self, request: Request, answer: Fields) -> Iterator[Fields]:
        """Give the messages that go out in place of the answer to a request."""
        yield answer

    def mutter(self) -> bytes:
        """Return what goes out in a hundredth of a second, asked or not."""
        return b""


class Floods(Spell):
    """Random bytes at some megabytes a second."""

    def mutter(self) -> bytes:
        return self.chance.randbytes(65_536)


class Chatters(Spell):
    """Megabytes of console text, some of it a prompt."""

    def mutter(self) -> bytes:
        return b"Traceback (most recent call last):\r\n  OSError: 19\r\n>>> " * 1000


class OpensFramesOnly(Spell):
    """Frames that begin and never end, in escapes."""

    def mutter(self) -> bytes:
        return b"~" + b"}!" * 30_000


class Hints(Spell):
    """Thousands of pushed events a second, of every source, with numbers going everywhere."""

    def mutter(self) -> bytes:
        return b"".join(
            framing.encode(
                Event(
                    self.chance.choice((b"bootboot", self.chance.randbytes(8))),
                    self.chance.choice((1, 2, self.chance.randint(1, SEQ_MAX), SEQ_MAX)),
                    self.chance.choice((1, 2, 3, 4, 5, 255)),
                    self.chance.randint(0, 2**53 - 1),
                    self.chance.getrandbits(32),
                    0,
                ).encode()
            )
            for _ in range(100)
        )


class AnotherBootEachTime(Spell):
    """A new boot id in every answer."""

    def bewitch(self, request: Request, answer: Fields) -> Iterator[Fields]:
        place = {OP_HELLO: 8, OP_EVENTS_GET: 3}.get(request.op, 3)
        if len(answer) > place and isinstance(answer[place], bytes):
            answer[place] = self.chance.randbytes(8)
        yield answer


class OneLieAboutItsBoot(Spell):
    """A boot id in hello that no other answer has."""

    def bewitch(self, request: Request, answer: Fields) -> Iterator[Fields]:
        if request.op == OP_HELLO:
            answer[8] = self.chance.randbytes(8)
        yield answer


class BillionLong(Spell):
    """Arrays and strings of a billion elements, before each honest answer."""

    def mutter(self) -> bytes:
        heads = ("9a3b9aca00", "9b7fffffffffffffff", "5a3b9aca00", "bb7fffffffffffffff", "81" * 180)
        return b"".join(framing.encode(bytes.fromhex(head)) for head in heads)


class WrongIds(Spell):
    """Answers to requests that were never made, and one to the right one late among them."""

    def bewitch(self, request: Request, answer: Fields) -> Iterator[Fields]:
        for step in (1, 2, 0x8000, -1):
            yield [answer[0], (request.id + step) & 0xFFFF, *answer[2:]]


class WrongAnswers(Spell):
    """The right id, and what another question would be answered with, or nonsense."""

    def bewitch(self, request: Request, answer: Fields) -> Iterator[Fields]:
        yield [1, request.id, 0]
        yield [1, request.id, 0, *([2**64 - 1] * 12)]
        yield [1, request.id, 0, b"bootboot", 1, -1, -1, -1, -1, -1]
        yield [1, request.id, 0, "text", [[[]]]]


class Refuses(Spell):
    """Every request is refused, with a status that nobody knows."""

    def bewitch(self, request: Request, answer: Fields) -> Iterator[Fields]:
        yield [1, request.id, 77, "no \x1b[31m\n reason"]


class AnswersThrice(Spell):
    """Everything three times."""

    def bewitch(self, request: Request, answer: Fields) -> Iterator[Fields]:
        yield from (answer, answer, answer)


class SetsSomethingElse(Spell):
    """timer_set is acknowledged, and something else is said to remain."""

    def bewitch(self, request: Request, answer: Fields) -> Iterator[Fields]:
        if request.op in (OP_TIMER_SET, OP_TIMER_GET):
            answer[6] = answer[7] = self.chance.choice((1, 604_800_000, 5_000))
            answer[4] = self.chance.choice((0, 1, 2, 9))
        yield answer


class Echoes(Spell):
    """Says what it hears, as a dead prompt does."""

    def bewitch(self, request: Request, answer: Fields) -> Iterator[Fields]:
        yield [0, request.id, request.op, *request.args]


class _OwnLog(Spell):
    """Tells a story of its own when it is asked for its events."""

    def bewitch(self, request: Request, answer: Fields) -> Iterator[Fields]:
        if request.op == OP_EVENTS_GET:
            after = request.args[1]
            assert isinstance(after, int)
            yield [1, request.id, 0, b"bootboot", *self.story(after)]
        else:
            yield answer

    def story(self, after: int) -> Fields:
        """Return oldest and last number, how many are lost, and the events."""
        raise NotImplementedError


class EndlessLog(_OwnLog):
    """There is always another event after the last one, none of them from the timer."""

    def story(self, after: int) -> Fields:
        events: Fields = [
            [after + 1 + n, self.chance.choice((1, 2, 3, 5, 9)), 0, 0, 0] for n in range(5)
        ]
        return [1, after + 6, 0, events]


class LogRunsBackwards(_OwnLog):
    """Numbers that go backwards, or to the end of all numbers."""

    def story(self, after: int) -> Fields:
        first = self.chance.choice((1, max(1, after - 3), SEQ_MAX))
        return [1, self.chance.choice((0, SEQ_MAX)), SEQ_MAX, [[first, 2, 0, 0, 0]]]


class PressesButtons(_OwnLog):
    """One more event at each look, of every source but the timer's."""

    def story(self, after: int) -> Fields:
        last = min(after + 1, SEQ_MAX)
        return [1, last, 0, [[last, self.chance.choice((1, 2, 3, 5, 6, 255)), 0, 0, 0]]]

    def mutter(self) -> bytes:
        return framing.encode(Event(b"bootboot", self.chance.randint(1, 999), 2, 0, 0, 0).encode())


class NeverExpires(PressesButtons):
    """Besides, its countdown never comes to an end."""

    def bewitch(self, request: Request, answer: Fields) -> Iterator[Fields]:
        if request.op in (OP_TIMER_SET, OP_TIMER_GET) and answer[4]:
            answer[4], answer[6] = STATE_ARMED, 2_000
        yield from super().bewitch(request, answer)


class WakeStorm(_OwnLog):
    """Expires at once, however it is set, and says so at once: source 4, again and again."""

    def bewitch(self, request: Request, answer: Fields) -> Iterator[Fields]:
        if request.op in (OP_TIMER_SET, OP_TIMER_GET):
            self.token = answer[5]
            answer[4], answer[6] = 2, 0
        yield from super().bewitch(request, answer)

    token: object = 0

    def story(self, after: int) -> Fields:
        last = min(after + 1, SEQ_MAX)
        return [1, last, 0, [[last, SOURCE_RTC_TIMER, 0, self.token, 0]]]

    def mutter(self) -> bytes:
        event = Event(b"bootboot", self.chance.randint(1, SEQ_MAX), SOURCE_RTC_TIMER, 0, 1, 0)
        return framing.encode(event.encode())


SPELLS: tuple[type[Spell], ...] = (
    Floods,
    Chatters,
    OpensFramesOnly,
    Hints,
    AnotherBootEachTime,
    OneLieAboutItsBoot,
    BillionLong,
    WrongIds,
    WrongAnswers,
    Refuses,
    AnswersThrice,
    SetsSomethingElse,
    Echoes,
    EndlessLog,
    LogRunsBackwards,
    PressesButtons,
    WakeStorm,
)


class PossessedFirmware(FirmwareBoard):
    """The firmware, with a spell on it or without; for a `PtyBoard`."""

    def __init__(self) -> None:
        super().__init__()
        self.spell: Spell | None = None
        self.forget: Callable[[], None] = lambda: None

    def receive(self, data: bytes, now_ms: int) -> bytes:
        if self.spell is None:
            return super().receive(data, now_ms)
        sent = self.tick(now_ms)
        for byte in data:
            payload = self.decoder.push(byte)
            request = None if payload is None else parse(bytes(payload))
            if payload is None or not isinstance(request, Request):
                continue
            answer = self.dispatcher.answer(payload)
            if answer is None:
                continue
            fields = cbor.decode(answer)
            assert isinstance(fields, list)
            for message in self.spell.bewitch(request, fields):
                sent += framing.encode(cbor.encode(message))
        return sent

    def tick(self, now_ms: int) -> bytes:
        honest = super().tick(now_ms)
        return honest if self.spell is None else honest + self.spell.mutter()
