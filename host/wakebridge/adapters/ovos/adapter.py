"""The adapter: one connection to the bus, requests handed to the service, events sent out.

It translates and decides nothing. The bus attests no identity: the owner is what the request's
context says (E60).
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from wakebridge.adapters.ovos.legacy import LegacyVerbs
from wakebridge.bus import (
    REQUEST_TYPES,
    RESPONSE_SUFFIX,
    BusMessage,
    BusUnavailable,
    Scheduler,
    Undeliverable,
    answer_context,
    refusal,
)
from wakebridge.clock import Clock
from wakebridge.ovosbus.config import OvosConfig
from wakebridge.ovosbus.connection import Connection, NotConnected, NotRelayed
from wakebridge.ovosbus.message import (
    Message,
    NotEncodable,
    decode,
    encode,
    peek_type,
    within_limit,
)

_log = logging.getLogger(__name__)

ROUTE: Final = "ovos"
"""The name of this bus, stored with each schedule that was asked for here."""

CLOCK_SYNCED_TYPE: Final = "system.clock.synced"
"""What the platform says when it has set the clock (E71, E90)."""

LIST_ANSWER_S: Final = 0.4
"""Longest wait for a list. A skill asks for it once, waits 0.5 s, and without an answer never
speaks `ovos.scheduler.*` again; a refusal counts as an answer to it."""

IN_PROGRESS_MAX: Final = 1280
"""Requests and answers on their way at once: what the service takes from one bus, and some who are
told that it is busy. Beyond, a request is dropped and counted, as answering a flood without bound
would itself be the harm."""

REQUEST_MAX_CHARS: Final = 1_048_576
"""Longest request that is read. A context of 256 KiB and data of 16 KiB fit in twice, should their
author escape every other character; parsing more would hold up everybody's fires."""

CHARS_IN_PROGRESS_MAX: Final = 32 * 1024 * 1024
"""Of the requests on their way at once, together; beyond, they are dropped and counted as well."""

Work = Coroutine[Any, Any, None]
Handler = Callable[[Message], Work | None]
"""What is to be done about a message, if that takes any time."""


class OvosAdapter:
    """The bridge on the OVOS bus: implements `wakebridge.bus.Bus`.

    `clock` tells when a request arrived, which the older protocol needs.
    """

    name: Final = ROUTE

    def __init__(self, config: OvosConfig, scheduler: Scheduler, clock: Clock) -> None:
        self._scheduler = scheduler
        self._connection = Connection(
            config.url,
            self._take,
            on_up=lambda: scheduler.bus_up(ROUTE),
            on_down=lambda: scheduler.bus_down(ROUTE),
            verify_tls=config.verify_tls,
        )
        self._legacy = LegacyVerbs(scheduler, clock, ROUTE)
        self._tasks: dict[asyncio.Task[None], int] = {}
        self._chars = 0
        self.dropped = 0
        """Requests beyond every bound, left without an answer."""
        self._handlers = self._make_handlers(config.replay_after)

    def _make_handlers(self, replay_after: str | None) -> Mapping[str, Handler]:
        handlers: dict[str, Handler] = {
            message_type: self._spec_handler(verb) for verb, message_type in REQUEST_TYPES.items()
        }
        handlers |= dict.fromkeys(self._legacy.types, self._answer_legacy)
        handlers[CLOCK_SYNCED_TYPE] = lambda _: self._scheduler.clock_synced()
        if replay_after is not None:
            handlers[replay_after] = lambda _: self._scheduler.replay_now(ROUTE)
        return handlers

    async def run(self) -> None:
        """Serve the bus until cancelled, reconnecting whenever it comes back."""
        try:
            await self._connection.run()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def emit(self, message: BusMessage) -> None:
        """Put a message on the bus; returns when the bus has relayed it to everybody.

        Raises `BusUnavailable`, and `Undeliverable` for what the bus refuses to carry.
        """
        try:
            await self._connection.send_confirmed(within_limit(message.encode().decode()))
        except NotConnected as error:
            raise BusUnavailable(str(error)) from error
        except (NotEncodable, NotRelayed) as error:
            raise Undeliverable(str(error)) from error

    def _take(self, frame: str) -> None:
        named, size = peek_type(frame), len(frame)
        if named is not None and named not in self._handlers:
            return
        if size > REQUEST_MAX_CHARS:
            if named is not None and named in REQUEST_TYPES.values():
                self._spawn(self._refuse_unread(named, size), 0)
            elif named is not None:
                _log.warning("%s is ignored: it has %d characters", named, size)
            return
        message = decode(frame)
        handler = self._handlers.get(message.type) if message is not None else None
        work = handler(message) if message is not None and handler is not None else None
        if work is not None:
            self._spawn(work, size)

    def _spawn(self, work: Work, size: int) -> None:
        if len(self._tasks) >= IN_PROGRESS_MAX or self._chars + size > CHARS_IN_PROGRESS_MAX:
            work.close()
            self.dropped += 1
            if self.dropped.bit_count() == 1:  # a power of two: a flood must not flood the log
                _log.warning("dropped %d requests of the OVOS bus", self.dropped)
            return
        # Tasks begin in the order of their creation, so requests reach the service as they came.
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = size
        self._chars += size
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._chars -= self._tasks.pop(task)

    # -- ovos.scheduler.* (E20) -------------------------------------------------------------------

    def _spec_handler(self, verb: str) -> Handler:
        return lambda message: self._answer_spec(verb, message)

    async def _refuse_unread(self, message_type: str, size: int) -> None:
        """Answer a request that is too large to be read, its context included (E20)."""
        reason = f"the message has {size} characters, the limit is {REQUEST_MAX_CHARS}"
        nobody = Message(message_type, {}, {})
        refused = refusal("invalid_record", reason)
        await self._reply(nobody, message_type + RESPONSE_SUFFIX, refused)

    async def _answer_spec(self, verb: str, message: Message) -> None:
        asked = asyncio.ensure_future(self._ask(verb, message))
        limit_s = LIST_ANSWER_S if verb == "list" else None
        # A list that took too long goes on to its end; its answer has been given by then.
        done, _ = await asyncio.wait((asked,), timeout=limit_s)
        answer = asked.result() if done else refusal("internal", "busy: try again later")
        await self._reply(message, message.type + RESPONSE_SUFFIX, answer)

    async def _ask(self, verb: str, message: Message) -> Mapping[str, object]:
        try:
            return await self._scheduler.request(verb, message.data, message.context, ROUTE, None)
        except Exception:
            # Every request gets its one answer, also when we are at fault (E20).
            _log.exception("the request %s failed", message.type)
            return refusal("internal", "the request could not be evaluated")

    # -- mycroft.scheduler.* (E90) ----------------------------------------------------------------

    async def _answer_legacy(self, message: Message) -> None:
        try:
            answer = await self._legacy.handle(message)
        except Exception:
            _log.exception("the request %s failed", message.type)
            return
        if answer is not None:
            await self._reply(message, *answer)

    async def _reply(self, request: Message, message_type: str, data: Mapping[str, object]) -> None:
        """Send the answer to a request; one that no longer reaches the bus is dropped."""
        context = answer_context(request.context)
        try:
            frame = encode(message_type, data, context)
        except NotEncodable as error:
            frame = encode(message_type, refusal("internal", str(error)), {})
        try:
            await self._connection.send(frame)
        except NotConnected as error:
            _log.warning("the answer %s is lost: %s", message_type, error)
