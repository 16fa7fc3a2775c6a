"""The ports between the service and the message buses it lives on.

An adapter implements `Bus` and calls `Scheduler`; neither side knows more of the other than this.
A bus is also a *route*: the fires of a schedule go back to the bus that asked for it.
"""

from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

REQUEST_TYPES: Final = {
    "schedule": "ovos.scheduler.schedule",
    "cancel": "ovos.scheduler.cancel",
    "get": "ovos.scheduler.get",
    "list": "ovos.scheduler.list",
}
"""The message type of each verb of `Scheduler.request` (E20)."""

RESPONSE_SUFFIX: Final = ".response"
"""What the answer's type adds to the request's (E20)."""

MISSED_TYPE: Final = "ovos.scheduler.missed"
READY_TYPE: Final = "ovos.scheduler.ready"


class BusUnavailable(Exception):  # noqa: N818 - the state of the bus, not a fault of the caller
    """The message was not accepted by the bus: it is not connected, or did not confirm in time."""


class Undeliverable(Exception):  # noqa: N818 - the nature of the message, not a fault of the bus
    """The bus can never take this message, for example because its type does not fit in a topic.

    The service counts it as emitted: trying again is of no use, and one owner's record must not
    hold up another's (E35).
    """


class BusMessage(msgspec.Struct, frozen=True):
    """One message of the OVOS form: a type, a JSON object as data, a context.

    `data` is compact UTF-8 JSON. `owner` is the skill id the message concerns, or None for the
    announcements that concern everybody (`ovos.scheduler.ready`).
    """

    type: str
    data: bytes
    context: Mapping[str, object]
    owner: str | None

    def encode(self) -> bytes:
        """Return the message as one JSON object, the form it has on every bus."""
        head = msgspec.json.encode(self.type)
        tail = msgspec.json.encode(self.context)
        return b'{"type":%b,"data":%b,"context":%b}' % (head, self.data, tail)


class Bus(Protocol):
    """A message bus as the service sees it."""

    @property
    def name(self) -> str:
        """The route's name, stored with each schedule: `mqtt`, `ovos`."""
        ...

    async def emit(self, message: BusMessage) -> None:
        """Hand the message to the bus; return when the bus has accepted it.

        Raises `BusUnavailable` otherwise. Over MQTT acceptance is the PUBACK, on the OVOS bus it is
        the frame written to the socket. Raises `Undeliverable` for a message that this bus can
        never carry.
        """
        ...


class Scheduler(Protocol):
    """The service of scheduled events as an adapter sees it."""

    async def request(
        self,
        verb: str,
        body: object,
        context: Mapping[str, object] | None,
        route: str,
        identity: str | None,
        *,
        legacy_event: str | None = None,
    ) -> dict[str, object]:
        """Answer one request: `{"ok": true, ...}` or `{"ok": false, "error", "reason"}` (E21).

        `verb` is schedule, cancel, get or list; `body` the decoded JSON of the request; `identity`
        the authenticated owner where the transport has one (E63). Never raises for what a
        requester can do wrong. What is accepted is durable when this returns (E50).

        `legacy_event` marks a request of the older protocol and is the name, and the type to be
        fired, of the event it is about: it tells the owner in place of the context, and allows the
        verb `update`, which changes nothing but `data` (E90). With `list` it may be
        `wakebridge.schedule.legacy.EVERY_EVENT`.
        """
        ...

    def bus_up(self, name: str) -> None:
        """Say that the bus is connected and can take messages."""
        ...

    def bus_down(self, name: str) -> None:
        """Say that the bus is gone: what comes due for it waits."""
        ...

    def replay_now(self, name: str) -> None:
        """Say that the owners on this bus are there: late fires wait no longer for them (E53)."""
        ...

    def clock_synced(self) -> None:
        """Say that the deployment has set the wall clock (E71)."""
        ...


def refusal(code: str, reason: str) -> dict[str, object]:
    """Return the answer that refuses a request (E21)."""
    return {"ok": False, "error": code, "reason": reason}


def answer_context(context: Mapping[str, object] | None) -> dict[str, object]:
    """Return the context of the answer to a request with this context (E20).

    The `response` derivation of OVOS-MSG-1 section 5.2: `source` and `destination` change places,
    the first of several destinations becomes the source, an absent key stays absent, and every
    other key comes back as it was. An empty identifier counts as absent (section 3.3).
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
