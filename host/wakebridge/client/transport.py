"""The port between the client and the bus it speaks over, and what its transports share."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

import msgspec

from wakebridge.client.errors import NotConnected


class Incoming(msgspec.Struct, frozen=True):
    """A message that the bridge has sent on its own: an event, `missed` or `ready`."""

    type: str
    data: dict[str, Any]
    context: dict[str, Any]


Deliver = Callable[[Incoming], None]


class Transport(Protocol):
    """One open connection of one owner to a bus.

    A transport opens before the client is made and closes after it; in between it comes back by
    itself. It hears all that the bridge sends to its owner for as long as it is open, so that
    `listen` takes effect at once.
    """

    @property
    def skill_id(self) -> str:
        """The owner in whose name it asks (E60)."""
        ...

    async def ask(
        self, verb: str, data: Mapping[str, object], context: Mapping[str, object]
    ) -> Mapping[str, Any]:
        """Send one request and return the `data` of its answer, whatever that says.

        Args:
            verb: schedule, cancel, get or list.
            data: the request's `data`.
            context: the request's context, to which the transport adds the `skill_id`.

        Raises:
            NoAnswer: none came in time.

        """
        ...

    def listen(self, message_type: str, deliver: Deliver) -> None:
        """Hand every message of a type to `deliver`, in place of the one before."""
        ...

    def ignore(self, message_type: str) -> None:
        """Stop what `listen` started for this type."""
        ...


class Connection(Protocol):
    """What `kept` needs of a connection to a bus."""

    @property
    def trouble(self) -> str:
        """Why it is down, as a sentence; empty when nobody has tried yet."""
        ...

    async def run(self) -> None:
        """Connect, again and again, until cancelled."""
        ...

    async def wait_up(self) -> None:
        """Return when it is up."""
        ...


@contextlib.asynccontextmanager
async def kept(connection: Connection, peer: str, timeout_s: float) -> AsyncIterator[None]:
    """Keep a connection inside the block; it comes back by itself.

    Raises `NotConnected` when it is not up for the first time within `timeout_s`.
    """
    running = asyncio.create_task(connection.run(), name=f"connection to {peer}")
    try:
        try:
            async with asyncio.timeout(timeout_s):
                await connection.wait_up()
        except TimeoutError:
            raise NotConnected(connection.trouble or f"{peer} does not answer") from None
        yield
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
