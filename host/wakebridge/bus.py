"""The ports between the service and the message buses it lives on.

An adapter implements `Bus` and calls `Scheduler`; neither side knows more of the other than this.
A bus is also a *route*: the fires of a schedule go back to the bus that asked for it.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec


class BusUnavailable(Exception):  # noqa: N818 - the state of the bus, not a fault of the caller
    """The message was not accepted by the bus: it is not connected, or did not confirm in time."""


class BusMessage(msgspec.Struct, frozen=True):
    """One message of the OVOS form: a type, a JSON object as data, a context.

    `data` is compact UTF-8 JSON. `owner` is the skill id the message concerns, or None for the
    announcements that concern everybody (`ovos.scheduler.ready`).
    """

    type: str
    data: bytes
    context: Mapping[str, object]
    owner: str | None


class Bus(Protocol):
    """A message bus as the service sees it."""

    @property
    def name(self) -> str:
        """The route's name, stored with each schedule: `mqtt`, `ovos`."""
        ...

    async def emit(self, message: BusMessage) -> None:
        """Hand the message to the bus; return when the bus has accepted it.

        Raises `BusUnavailable` otherwise. Over MQTT acceptance is the PUBACK, on the OVOS bus it is
        the frame written to the socket.
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
        """
        ...

    def bus_up(self, name: str) -> None:
        """Say that the bus is connected and can take messages."""
        ...

    def bus_down(self, name: str) -> None:
        """Say that the bus is gone: what comes due for it waits."""
        ...

    def clock_synced(self) -> None:
        """Say that the deployment has set the wall clock (E71)."""
        ...
