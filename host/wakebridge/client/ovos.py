"""The client's transport over the OVOS message bus.

>>> import asyncio
>>> from datetime import timedelta
>>> from wakebridge.client import Fired, connect_ovos

>>> async def main() -> None:
...     async with connect_ovos("demo.skill", port=PORT) as client:
...         rung = asyncio.Event()
...
...         async def ring(fired: Fired) -> None:
...             print(fired.event, "with", fired.data)
...             rung.set()
...
...         await client.schedule("tea", ring, in_=timedelta(seconds=0.1), data={"cups": 2})
...         await rung.wait()

>>> asyncio.run(main())
tea with {'cups': 2}
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from wakebridge.bus import REQUEST_TYPES, RESPONSE_SUFFIX
from wakebridge.client.errors import NoAnswer
from wakebridge.client.scheduler import SchedulerClient
from wakebridge.client.transport import Deliver, Incoming, kept
from wakebridge.ovosbus import connection, message
from wakebridge.ovosbus.config import OvosConfig

ANSWER_TIMEOUT_S: Final = 5.0
"""For an answer; the bridge takes a few ms, a bus that restarts some seconds."""

_ANSWER_TYPES: Final = frozenset(each + RESPONSE_SUFFIX for each in REQUEST_TYPES.values())


class OvosTransport:
    """One owner on an OVOS bus. Implements `wakebridge.client.transport.Transport`.

    Everybody on that bus hears everything, and an answer carries no number of its request: the
    context, which comes back with it, tells the answers apart.
    """

    def __init__(
        self, skill_id: str, config: OvosConfig, *, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> None:
        """Prepare; `opened` connects."""
        self._skill_id = skill_id
        self._timeout_s = timeout_s
        self._connection = connection.Connection(
            config.url, self._receive, verify_tls=config.verify_tls
        )
        self._instance = secrets.token_hex(8)
        self._numbers = 0
        self._answers: dict[str, asyncio.Future[Mapping[str, Any]]] = {}
        self._deliver: dict[str, Deliver] = {}

    @property
    def skill_id(self) -> str:
        """The owner in whose name it asks."""
        return self._skill_id

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Stay connected inside the block. Raise NotConnected when there is no bus at first."""
        async with kept(self._connection, "the bus", self._timeout_s):
            yield

    async def ask(
        self, verb: str, data: Mapping[str, object], context: Mapping[str, object]
    ) -> Mapping[str, Any]:
        """Send one request and return the answer's data. Raise NoAnswer."""
        self._numbers += 1
        number = f"{self._instance}-{self._numbers}"
        sent = {**context, "skill_id": self._skill_id, "request_id": number}
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._connection.wait_up()
                await self._connection.send(message.encode(REQUEST_TYPES[verb], data, sent))
                return await answer
        except TimeoutError:
            raise NoAnswer(f"no answer to {verb} within {self._timeout_s:g} s") from None
        except (connection.NotConnected, message.NotEncodable) as error:
            raise NoAnswer(f"no answer to {verb}: {error}") from None
        finally:
            del self._answers[number]

    def listen(self, message_type: str, deliver: Deliver) -> None:
        """Hand every message of a type to `deliver`, in place of the one before."""
        self._deliver[message_type] = deliver

    def ignore(self, message_type: str) -> None:
        """Stop what `listen` started for this type."""
        self._deliver.pop(message_type, None)

    def _receive(self, frame: str) -> None:
        named = message.peek_type(frame)
        if named is not None and named not in _ANSWER_TYPES and named not in self._deliver:
            return
        heard = message.decode(frame)
        if heard is None or not isinstance(heard.data, dict):
            return
        if heard.type in _ANSWER_TYPES:
            number = heard.context.get("request_id")
            answer = self._answers.get(number) if isinstance(number, str) else None
            if answer is not None and not answer.done():
                answer.set_result(heard.data)
        elif (deliver := self._deliver.get(heard.type)) is not None:
            deliver(Incoming(heard.type, heard.data, heard.context))


@contextlib.asynccontextmanager
async def connect_ovos(
    skill_id: str,
    *,
    host: str = "127.0.0.1",
    port: int = 8181,
    route: str = "/core",
    ssl: bool = False,
    verify_tls: bool = True,
    timeout_s: float = ANSWER_TIMEOUT_S,
) -> AsyncIterator[SchedulerClient]:
    """Connect an owner to the bridge over the OVOS bus; the connection comes back by itself.

    Args:
        skill_id: the owner. This bus takes everybody's word for it.
        host: the bus, as in the `websocket` section of `mycroft.conf`.
        port: the bus's port.
        route: the bus's path.
        ssl: encrypt.
        verify_tls: refuse a certificate that no known authority has signed.
        timeout_s: for the first connection and for each answer.

    Raises:
        NotConnected: there is no connection within `timeout_s`.

    """
    config = OvosConfig(host=host, port=port, route=route, ssl=ssl, verify_tls=verify_tls)
    transport = OvosTransport(skill_id, config, timeout_s=timeout_s)
    async with transport.opened():
        client = SchedulerClient(transport)
        try:
            yield client
        finally:
            await client.close()
