"""The client: schedules in, handlers called."""

import asyncio
import inspect
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar, Unpack

import msgspec

from wakebridge.bus import MISSED_TYPE
from wakebridge.client.errors import ScheduleRefused
from wakebridge.client.record import Options, build_record, refuse_not_finite
from wakebridge.client.transport import Incoming, Transport
from wakebridge.client.values import (
    Entry,
    Fired,
    Missed,
    Scheduled,
    decode_entry,
    decode_instant,
    maybe_instant,
)

Handler = Callable[[Fired], Awaitable[None] | None]
MissedHandler = Callable[[Missed], Awaitable[None] | None]

_T = TypeVar("_T")

_SEEN_MAX: Final = 4096
"""Schedules whose latest fire is remembered, to tell a repeated fire from a new one."""

_log = logging.getLogger(__name__)


class _Binding(msgspec.Struct, frozen=True, eq=False):
    """A handler for the fires of one schedule."""

    message_type: str
    handler: Handler


class SchedulerClient:
    """Asks the bridge in the name of one owner, and calls the owner's handlers.

    Every method that asks raises `ScheduleRefused` when the bridge says no and `NoAnswer` when it
    says nothing. A coroutine handler runs as a task; what a handler raises is logged.
    """

    def __init__(self, transport: Transport) -> None:
        """Speak over an open transport. `connect_mqtt` and `connect_ovos` do this for you."""
        self._transport = transport
        self._bindings: dict[str, _Binding] = {}
        self._listeners: dict[str, Handler] = {}
        self._uses: Counter[str] = Counter()
        self._seen: dict[str, str] = {}
        self._tasks: set[asyncio.Future[None]] = set()

    @property
    def skill_id(self) -> str:
        """The owner in whose name it asks."""
        return self._transport.skill_id

    async def schedule(
        self,
        event: str,
        handler: Handler | None = None,
        *,
        context: Mapping[str, object] | None = None,
        **options: Unpack[Options],
    ) -> Scheduled:
        """Have an event fired once or again and again; see `Options` for when and how.

        The handler is registered before the request goes out, and stays until `cancel` or until
        the same id is scheduled again: one id never has two. After a refusal the handler from
        before is back. Without a handler the fires go to the one given to `listen`.

        Args:
            event: the event's name without the owner's; give each schedule its own.
            handler: called with each fire.
            context: stored with the schedule and replayed with each fire.
            options: when to fire and how.

        Raises:
            ScheduleRefused: with one of the codes of E21.
            NoAnswer: it may or may not be scheduled; the handler stays.
            ValueError: a datetime is naive, `start` comes without `every`, or `data` or `context`
                holds a number that is not finite.

        """
        record = build_record(self.skill_id, event, **options)
        refuse_not_finite("context", context)
        record_id = record["id"]
        before = self._bindings.get(record_id)
        now = None if handler is None else _Binding(record["event"], handler)
        self._bind(record_id, now or before)
        self._seen.pop(record_id, None)
        try:
            answer = await self._ask("schedule", record, context)
        except ScheduleRefused:
            if self._bindings.get(record_id) is now:
                self._bind(record_id, before)
            raise
        if now is None and self._bindings.get(record_id) is before:
            self._bind(record_id, None)
        return Scheduled(
            id=answer["id"],
            skill_id=answer["skill_id"],
            next=maybe_instant(answer["next"]),
            replaced=answer["replaced"],
        )

    async def cancel(self, id: str) -> bool:  # noqa: A002 - the record's own name for it
        """Delete a schedule and remove its handler; return whether it existed (E23)."""
        answer = await self._ask("cancel", {"id": id})
        self._bind(id, None)
        existed: bool = answer["existed"]
        return existed

    async def get(self, id: str) -> Entry | None:  # noqa: A002 - the record's own name for it
        """Return a stored schedule with its state, None when there is none of this id (E24)."""
        answer = await self._ask("get", {"id": id})
        return None if answer.get("record") is None else decode_entry(answer)

    async def list(self) -> tuple[Entry, ...]:
        """Return all schedules of this owner, to compare them with one's own state (E25)."""
        answer = await self._ask("list", {})
        return tuple(decode_entry(pair) for pair in answer["schedules"])

    def listen(self, event: str, handler: Handler) -> None:
        """Call `handler` with the fires of an event whose schedules have no handler of their own.

        For schedules from before this process started, which need not be scheduled again. One event
        has one such handler.
        """
        message_type = f"{self.skill_id}.{event}"
        is_new = message_type not in self._listeners
        self._listeners[message_type] = handler
        if is_new:
            self._use(message_type)

    def ignore(self, event: str) -> None:
        """Remove the handler that `listen` registered."""
        message_type = f"{self.skill_id}.{event}"
        if self._listeners.pop(message_type, None) is not None:
            self._disuse(message_type)

    def on_missed(self, handler: MissedHandler | None) -> None:
        """Call `handler` when occurrences of this owner were not fired in time (E41)."""
        if handler is None:
            self._transport.ignore(MISSED_TYPE)
            return

        def deliver(incoming: Incoming) -> None:
            data = incoming.data
            if data["skill_id"] == self.skill_id:
                self._run(handler, _decode_missed(data))

        self._transport.listen(MISSED_TYPE, deliver)

    async def close(self) -> None:
        """Remove every handler and cancel those that run. `connect_...` do this for you."""
        for message_type in tuple(self._uses):
            self._transport.ignore(message_type)
        self._transport.ignore(MISSED_TYPE)
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(
        self, verb: str, data: Mapping[str, object], context: Mapping[str, object] | None = None
    ) -> Mapping[str, Any]:
        answer = await self._transport.ask(verb, data, context or {})
        if answer.get("ok") is not True:
            raise ScheduleRefused(
                str(answer.get("error", "internal")), str(answer.get("reason", "no reason given"))
            )
        return answer

    def _bind(self, record_id: str, binding: _Binding | None) -> None:
        before = self._bindings.pop(record_id, None)
        if binding is not None:
            self._bindings[record_id] = binding
            self._use(binding.message_type)
        if before is not None:
            self._disuse(before.message_type)

    def _use(self, message_type: str) -> None:
        self._uses[message_type] += 1
        if self._uses[message_type] == 1:
            self._transport.listen(message_type, self._deliver)

    def _disuse(self, message_type: str) -> None:
        self._uses[message_type] -= 1
        if not self._uses[message_type]:
            del self._uses[message_type]
            self._transport.ignore(message_type)

    def _deliver(self, incoming: Incoming) -> None:
        occurrence = incoming.context.get("scheduler")
        if not isinstance(occurrence, dict) or occurrence.get("skill_id") != self.skill_id:
            return
        record_id, due = occurrence["id"], occurrence["due"]
        binding = self._bindings.get(record_id)
        if binding is not None and binding.message_type == incoming.type:
            handler: Handler | None = binding.handler
        else:
            handler = self._listeners.get(incoming.type)
        if handler is None or self._seen.get(record_id) == due:
            return
        self._seen[record_id] = due
        if len(self._seen) > _SEEN_MAX:
            del self._seen[next(iter(self._seen))]
        self._run(handler, _decode_fired(incoming, occurrence, self.skill_id))

    def _run(self, handler: Callable[[_T], Awaitable[None] | None], value: _T) -> None:
        try:
            result = handler(value)
        except Exception:  # a handler's defect is its own
            _log.exception("a handler failed")
            return
        if inspect.isawaitable(result):
            task = asyncio.ensure_future(result)
            self._tasks.add(task)
            task.add_done_callback(self._done)

    def _done(self, task: asyncio.Future[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a handler failed", exc_info=error)


def _decode_fired(incoming: Incoming, occurrence: Mapping[str, Any], skill_id: str) -> Fired:
    return Fired(
        id=occurrence["id"],
        event=incoming.type.removeprefix(f"{skill_id}."),
        due=decode_instant(occurrence["due"]),
        fired=decode_instant(occurrence["fired"]),
        remaining=occurrence["remaining"],
        data=incoming.data,
        context=incoming.context,
    )


def _decode_missed(data: Mapping[str, Any]) -> Missed:
    return Missed(
        id=data["id"],
        missed=tuple(decode_instant(text) for text in data["missed"]),
        fired_late=maybe_instant(data["fired_late"]),
        next=maybe_instant(data["next"]),
    )
