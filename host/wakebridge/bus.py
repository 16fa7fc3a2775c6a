"""The port between the service and the message buses that it emits on.

A bus adapter implements `Bus` and calls `Scheduler`; the service implements `Scheduler` and calls
`Bus`. Both sides depend on this module and on nothing of each other. The module is pure: it reads
no clock and does no IO.
"""

from typing import Final, Protocol

import msgspec

SCHEDULE_TYPE: Final = "ovos.scheduler.schedule"
CANCEL_TYPE: Final = "ovos.scheduler.cancel"
GET_TYPE: Final = "ovos.scheduler.get"
LIST_TYPE: Final = "ovos.scheduler.list"
MISSED_TYPE: Final = "ovos.scheduler.missed"
READY_TYPE: Final = "ovos.scheduler.ready"

REQUEST_TYPES: Final = {
    "schedule": SCHEDULE_TYPE,
    "cancel": CANCEL_TYPE,
    "get": GET_TYPE,
    "list": LIST_TYPE,
}
"""The message type of each verb of `Scheduler.request` (E20)."""

RESPONSE_SUFFIX: Final = ".response"

RESERVED_TYPES: Final = frozenset({MISSED_TYPE, READY_TYPE})
"""Types that the service emits in its own name; every other type is an owner's fired event."""


class BusError(Exception):
    """A message was not emitted."""


class BusUnavailable(BusError):
    """The transport is down, or did not confirm the message in time.

    The message may or may not have arrived. It is worth trying again when the bus is back.
    """


class Undeliverable(BusError):
    """This message can never be emitted on this bus, however often it is tried.

    For example its type does not fit into a topic. The service counts it as emitted, so that one
    owner's record never holds up another's (E35).
    """


class BusMessage(msgspec.Struct, frozen=True):
    """One message to emit: a fired event (E30), `missed` (E41) or `ready` (E53).

    `data` and `context` are JSON objects as UTF-8 bytes, because the service keeps them as they
    arrived (E11) and has no reason to parse them. `owner` is the `skill_id` the message concerns,
    empty for `ready`.
    """

    type: str
    data: bytes
    context: bytes
    owner: str

    def encode(self) -> bytes:
        """Return the whole message as one JSON object, as it goes over every bus."""
        type_json = msgspec.json.encode(self.type)
        return b'{"type":%b,"data":%b,"context":%b}' % (type_json, self.data, self.context)


class Bus(Protocol):
    """A message bus as the service sees it."""

    name: str
    """Short and unique among the buses of one daemon, for example `mqtt`."""

    async def emit(self, message: BusMessage) -> None:
        """Emit one message; return when the transport has accepted it (MQTT: PUBACK).

        Raises:
            BusUnavailable: the transport is down or silent; try again when the bus is up.
            Undeliverable: trying again is of no use.
        """
        ...


class Scheduler(Protocol):
    """The service as a bus adapter sees it."""

    async def request(
        self,
        verb: str,
        body: object,
        context: dict[str, object] | None,
        route: str,
        identity: str | None,
    ) -> dict[str, object]:
        """Carry out one request and return the `data` of its answer (E20..E25).

        A mistake of the requester is an answer with `ok: false`, never an exception (E21).

        Args:
            verb: one of the keys of `REQUEST_TYPES`.
            body: the request message's `data`, of any JSON type; the service validates it (E13).
            context: the request message's context, None when it carried none (E60).
            route: the `name` of the bus the request came in on.
            identity: who the transport says is asking; None where it cannot tell (E63).
        """
        ...

    async def tool(self, payload: object, *, route: str, identity: str | None) -> dict[str, object]:
        """Call the `schedule` tool of the routines with the envelope of R7 and return its answer.

        Args:
            payload: `{"input": {...}}` or `{"raw_input": "..."}`, of any JSON type.
            route: the `name` of the bus or server the call came in on.
            identity: who the transport says is asking; None where it cannot tell.
        """
        ...

    def bus_up(self, name: str) -> None:
        """Say that messages can be emitted on this bus from now on."""
        ...

    def bus_down(self, name: str) -> None:
        """Say that the bus is gone; what is due on it waits for `bus_up`."""
        ...


def refusal(code: str, reason: str) -> dict[str, object]:
    """Return the `data` of an answer that refuses a request (E21)."""
    return {"ok": False, "error": code, "reason": reason}


def answer_context(context: dict[str, object] | None) -> dict[str, object]:
    """Return the context of the answer to a request with this context (E20).

    This is the `response` derivation of OVOS-MSG-1 section 5.2: `source` and `destination` change
    places, the first of several destinations becomes the source, an absent key stays absent, and
    every other key comes back as it was. An empty destination counts as absent (section 3.3).
    """
    if context is None:
        return {}
    answer = dict(context)
    source = context.get("source")
    destination = context.get("destination")
    if isinstance(destination, list):
        destination = next((item for item in destination if item), None)
    if destination:
        answer["source"] = destination
    if source:
        answer["destination"] = source
    return answer
