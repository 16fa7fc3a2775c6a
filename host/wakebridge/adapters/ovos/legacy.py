"""The older protocol, `mycroft.scheduler.*`, in terms of the present one (E90).

Requests are answered only where the older scheduler answered, and what it ignored is ignored; a
refusal is logged. What it did in memory by the event's name alone is done here with the schedule
whose id is that name: see `wakebridge.schedule.legacy`.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from fractions import Fraction
from typing import Any, Final

from wakebridge.bus import RESPONSE_SUFFIX, Scheduler
from wakebridge.clock import Clock
from wakebridge.ovosbus.message import Message
from wakebridge.schedule import legacy
from wakebridge.schedule.instants import MAX_NS, MIN_NS, NS_PER_S, format_instant, parse_instant

_log = logging.getLogger(__name__)

SCHEDULE_TYPE: Final = "mycroft.scheduler.schedule_event"
REMOVE_TYPE: Final = "mycroft.scheduler.remove_event"
UPDATE_TYPE: Final = "mycroft.scheduler.update_event"
MISSPELT_UPDATE_TYPE: Final = "mycroft.schedule.update_event"
GET_TYPE: Final = "mycroft.scheduler.get_event"
LIST_TYPE: Final = "mycroft.scheduler.list_events"
STATUS_TYPE_PREFIX: Final = "mycroft.event_status.callback."

FROM_NOW_SLACK_NS: Final = NS_PER_S
"""How long a request may have travelled and still be seen to count its first occurrence from now.
Its sender computed `now + repeat` on the same clock, so it is never ahead."""

Answer = tuple[str, Mapping[str, object]]
_Verb = Callable[[Message, str], Awaitable[Answer | None]]


class MalformedRequestError(ValueError):
    """A request that the older scheduler ignored or choked on."""


class LegacyVerbs:
    """Handles requests of the older protocol, those about one event in the order of arrival."""

    def __init__(self, scheduler: Scheduler, clock: Clock, route: str) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._route = route
        self._verbs: dict[str, _Verb] = {
            SCHEDULE_TYPE: self._schedule,
            REMOVE_TYPE: self._remove,
            UPDATE_TYPE: self._update,
            MISSPELT_UPDATE_TYPE: self._update,
            GET_TYPE: self._get,
            LIST_TYPE: self._list,
        }
        self._latest: dict[str, asyncio.Event] = {}

    @property
    def types(self) -> tuple[str, ...]:
        """The message types of the protocol's requests."""
        return tuple(self._verbs)

    async def handle(self, message: Message) -> Answer | None:
        """Do what the message asks; returns the answer's type and data where there is one.

        Requests take effect in the order in which this is called.
        """
        name = _name_of(message)
        if not name:
            _log.warning("%s is ignored: it names no event", message.type)
            return None
        earlier = list(self._latest.values()) if name == legacy.EVERY_EVENT else []
        if (before := self._latest.get(name)) is not None:
            earlier.append(before)
        done = self._latest[name] = asyncio.Event()
        try:
            for each in earlier:
                await each.wait()
            return await self._verbs[message.type](message, name)
        except MalformedRequestError as malformed:
            _log.warning("%s is ignored: %s", message.type, malformed)
            return None
        finally:
            done.set()
            if self._latest.get(name) is done:
                del self._latest[name]

    # -- the verbs --------------------------------------------------------------------------------

    async def _schedule(self, message: Message, name: str) -> None:
        first_ns = _epoch_ns(message.data.get("time"))
        body: dict[str, object] = {
            "id": legacy.id_of(name),
            "event": legacy.stand_in(name),
            "data": message.data.get("data") or {},
        }
        repeat = message.data.get("repeat")
        if repeat:
            body["every"] = await self._every(message, name, first_ns, repeat)
        else:
            body["at"] = format_instant(first_ns)
        await self._ask("schedule", body, message, name)

    async def _every(
        self, message: Message, name: str, first_ns: int, repeat: object
    ) -> dict[str, object]:
        """Return the recurrence; without a start when the stored one's phase shall stay (E6).

        Skills ask for their repeating events again on every start. One that named no first time
        had `now + repeat` put in for it, and would, with a period longer than it ever runs, be put
        off for ever.
        """
        if isinstance(repeat, bool) or not isinstance(repeat, int | float):
            raise MalformedRequestError("repeat is not a number of seconds")
        if isinstance(repeat, float) and not math.isfinite(repeat):
            raise MalformedRequestError("repeat is not finite")
        seconds = abs(repeat)  # a negative period repeated in the older scheduler, too
        every: dict[str, object] = {"seconds": seconds, "start": format_instant(first_ns)}
        travelled_ns = self._clock.now().wall_ns + round(seconds * NS_PER_S) - first_ns
        if 0 <= travelled_ns <= FROM_NOW_SLACK_NS:
            stored = await self._stored(message, name)
            if stored is not None and _period_of(stored) == seconds:
                del every["start"]
        return every

    async def _remove(self, message: Message, name: str) -> None:
        await self._ask("cancel", {"id": legacy.id_of(name)}, message, name)

    async def _update(self, message: Message, name: str) -> None:
        body = {"id": legacy.id_of(name), "data": message.data.get("data") or {}}
        await self._ask("update", body, message, name)

    async def _get(self, message: Message, name: str) -> Answer:
        """Answer the status: an empty object for an unknown name, as ever.

        For a known name the older scheduler tried to send a bare list, which its own message class
        refuses; were it sent, every stable client on the bus would disconnect. The list goes under
        a key, where the pre-release client looks for it.
        """
        stored = await self._stored(message, name)
        status = {} if stored is None else {"event": name, "schedule": _entry(stored)}
        return STATUS_TYPE_PREFIX + name, status

    async def _list(self, message: Message, name: str) -> Answer:
        answer = await self._ask("list", {}, message, name)
        events = {
            legacy.event_of(each["record"]["id"]): [_entry(each)]
            for each in answer.get("schedules", ())
        }
        return LIST_TYPE + RESPONSE_SUFFIX, {"scheduled_events": events}

    # -- asking the service -----------------------------------------------------------------------

    async def _stored(self, message: Message, name: str) -> Mapping[str, Any] | None:
        answer = await self._ask("get", {"id": legacy.id_of(name)}, message, name)
        return answer if answer.get("existed") else None

    async def _ask(
        self, verb: str, body: Mapping[str, object], message: Message, name: str
    ) -> Mapping[str, Any]:
        answer = await self._scheduler.request(
            verb, body, message.context, self._route, None, legacy_event=name
        )
        if not answer["ok"]:
            _log.warning("%s of %r is refused: %s", message.type, name, answer["reason"])
        return answer


def _name_of(message: Message) -> str:
    """Return the event that the request is about."""
    if message.type == LIST_TYPE:
        return legacy.EVERY_EVENT
    if not isinstance(message.data, dict):
        return ""
    name = message.data.get("name" if message.type == GET_TYPE else "event")
    return name if isinstance(name, str) else ""


def _epoch_ns(time: object) -> int:
    """Return the instant that a number of seconds since the epoch names."""
    if isinstance(time, bool) or not isinstance(time, int | float):
        raise MalformedRequestError("time is not a number of seconds since the epoch")
    if isinstance(time, float) and not math.isfinite(time):
        raise MalformedRequestError("time is not finite")
    # Exact, so that reading the instant back as a float gives the number that was sent.
    instant_ns = round(Fraction(time) * NS_PER_S)
    if not MIN_NS <= instant_ns <= MAX_NS:
        raise MalformedRequestError("time lies outside the years 0001 to 9999")
    return instant_ns


def _period_of(stored: Mapping[str, Any]) -> object:
    return stored["record"].get("every", {}).get("seconds")


def _entry(stored: Mapping[str, Any]) -> list[object]:
    """Return `[next epoch time, repeat, data, context]`, the older scheduler's own row."""
    record, upcoming = stored["record"], stored["state"]["next"]
    return [
        parse_instant(upcoming) / NS_PER_S if upcoming else 0.0,
        _period_of(stored),
        record["data"],
        record["context"],
    ]
