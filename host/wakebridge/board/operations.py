"""The operations of the wire: how each request is written and how its answer is read."""

from collections.abc import Callable
from typing import Final

import msgspec

from wakewire import codes, messages
from wakewire.errors import MessageError
from wakewire.host_limits import UPTIME_MAX_MS
from wakewire.messages import Diag, EventBatch, Hello, TimerState


class Pong(msgspec.Struct, frozen=True):
    """The answer to a ping."""

    uptime_ms: int


class Done(msgspec.Struct, frozen=True):
    """The answer to a request that has nothing to say."""


Value = Hello | Pong | TimerState | EventBatch | Diag | Done


def _pong(fields: list[object]) -> Pong:
    uptime_ms = fields[0] if fields else None
    if type(uptime_ms) is not int or not 0 <= uptime_ms <= UPTIME_MAX_MS:
        raise MessageError("uptime_ms: not a number of milliseconds")
    return Pong(uptime_ms)


def _done(_fields: list[object]) -> Done:
    return Done()


class Operation(msgspec.Struct, frozen=True):
    """How a request of one kind is written and its answer read.

    Only an idempotent one is repeated; asking twice must be the same as asking once. What is asked
    for stays right while time passes, unless it `ages`, as the length of a countdown does.
    """

    write: Callable[..., bytes]
    read: Callable[[list[object]], Value]
    idempotent: bool = True
    ages: bool = False


OPERATIONS: Final = {
    codes.OP_HELLO: Operation(messages.hello, Hello.from_fields),
    codes.OP_PING: Operation(messages.ping, _pong),
    codes.OP_TIMER_GET: Operation(messages.timer_get, TimerState.from_fields),
    codes.OP_TIMER_SET: Operation(messages.timer_set, TimerState.from_fields, ages=True),
    codes.OP_TIMER_CANCEL: Operation(messages.timer_cancel, TimerState.from_fields),
    codes.OP_EVENTS_GET: Operation(messages.events_get, EventBatch.from_fields),
    codes.OP_DIAG: Operation(messages.diag, Diag.from_fields),
    codes.OP_RESTART: Operation(messages.restart, _done, idempotent=False),
}
