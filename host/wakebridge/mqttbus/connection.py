"""One connection to an MQTT broker that comes back by itself.

Knows nothing of schedules: topics, payloads, callbacks. The bus adapter, the client library and
the runner that reaches agents over MQTT all use it.
"""

import asyncio
import contextlib
import logging
import math
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final, NoReturn

import msgspec
from aiomqtt import Message, MqttError, Will

from wakebridge.bus import BusUnavailable, Undeliverable
from wakebridge.mqttbus.config import MqttConfig
from wakebridge.mqttbus.library import (
    BrokerClient,
    connect,
    disconnect,
    make_client,
    publish_properties,
)
from wakebridge.mqttbus.topics import TOPIC_BYTES_MAX, matches

BACKOFF_MIN_S: Final = 0.1
BACKOFF_MAX_S: Final = 5.0
"""Wait between two attempts to connect: doubles from the one to the other. The last is what a
broker that was restarted is missed for at most."""

ACK_TIMEOUT_S: Final = 5.0
"""Without a confirmation for this long the connection counts as dead and is made anew: after a
suspend the host's end of a connection can outlive the broker's."""

_FINAL_REFUSALS: Final = frozenset({0x87, 0x90, 0x95, 0x99})
"""PUBACK codes that will be the same the next time: not authorized, topic name invalid, packet too
large, payload format invalid (MQTT 5 section 3.4.2.1). A broker of 3.1.1 has no way to refuse."""

SUSPECT_BYTES: Final = 65_536
"""A message from this size on may be the reason why a broker hangs up: one of 3.1.1 has no other
way to say that it is too large. The smallest limit of a broker we know is twice that."""

HANG_UPS_MAX: Final = 3
"""After so many connections in a row that ended while the same large message was on its way, it is
taken for the reason: sent for ever, it would hold up all the others for ever (E35)."""

_log = logging.getLogger(__name__)


def backoff() -> Iterator[float]:
    """Yield how long to wait before each further attempt to connect, in seconds, without end."""
    wait_s = BACKOFF_MIN_S
    while True:
        yield wait_s
        wait_s = min(wait_s * 2, BACKOFF_MAX_S)


class Received(msgspec.Struct, frozen=True):
    """One message from the broker."""

    topic: str
    payload: bytes
    retained: bool
    """True: kept by the broker from before our subscription, not published just now."""
    response_topic: str | None = None
    correlation: bytes | None = None


Callback = Callable[[Received], None]


class MqttConnection:
    """A connection that is kept up, with its subscriptions, for as long as `run` runs.

    A new library client is made for every connection, so nothing that was published on a lost
    connection is sent again behind the back of a caller who has been told `BusUnavailable`.
    """

    def __init__(
        self,
        config: MqttConfig,
        *,
        password: str | None = None,
        will: Will | None = None,
        on_up: Callable[[], Awaitable[None]] | None = None,
        on_down: Callable[[str], None] | None = None,
        on_stop: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Prepare; nothing happens before `run`.

        Args:
            config: where to connect.
            password: instead of the one in `config.password_file`.
            will: what the broker publishes when the connection breaks.
            on_up: awaited when a connection and its subscriptions stand.
            on_down: called with the reason when a connection that was up is gone.
            on_stop: awaited when `run` is cancelled, while still connected.

        """
        self._config = config
        self._password = password
        self._will = will
        self._on_up = on_up
        self._on_down = on_down
        self._on_stop = on_stop
        self._client_id = config.client_id or f"wakebridge-{secrets.token_hex(8)}"
        self._callbacks: dict[str, tuple[Callback, int]] = {}
        self._client: BrokerClient | None = None
        self._up = asyncio.Event()
        self._hurry = asyncio.Event()
        self._calls: set[asyncio.Timeout] = set()
        self._reading: asyncio.Timeout | None = None
        self._trouble = ""
        self._large: list[int] = []  # the sizes of the large messages on their way
        self._lost_bytes = 0  # the largest of them when the last connection ended
        self._hang_ups: Counter[int] = Counter()
        self._too_large_bytes: int | None = None

    @property
    def speaks_5(self) -> bool:
        """Whether this connection has MQTT 5's properties."""
        return self._config.protocol == "5"

    @property
    def is_up(self) -> bool:
        """Whether the connection and its subscriptions stand."""
        return self._up.is_set()

    @property
    def trouble(self) -> str:
        """Why the last connection failed or was lost; empty when there was none."""
        return self._trouble

    async def wait_up(self) -> None:
        """Return when the connection and its subscriptions stand."""
        await self._up.wait()

    def reconnect(self, reason: str) -> None:
        """Make the connection anew, at once: for a host that wakes up from suspend."""
        self._hurry.set()
        reading, self._reading = self._reading, None
        if reading is not None:
            _log.info("making the connection to the broker anew: %s", reason)
            reading.reschedule(asyncio.get_running_loop().time())

    async def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        response_topic: str | None = None,
        correlation: bytes | None = None,
        expiry_s: int | None = None,
    ) -> None:
        """Publish with QoS 1; return after the broker's PUBACK.

        `response_topic`, `correlation` and `expiry_s` need MQTT 5 and are left out without it.

        Raises:
            BusUnavailable: not connected, or the broker did not confirm, or refused for now.
            Undeliverable: the broker refused for good, or no broker can take this topic or payload.

        """
        client = self._client
        if client is None:
            raise BusUnavailable("not connected to the MQTT broker")
        if self._too_large_bytes is not None and len(payload) >= self._too_large_bytes:
            raise Undeliverable(f"the broker hangs up on messages of {len(payload)} bytes")
        if len(topic) > TOPIC_BYTES_MAX or len(topic.encode()) > TOPIC_BYTES_MAX:
            raise Undeliverable(f"the topic is longer than {TOPIC_BYTES_MAX} bytes")
        properties = None
        if self.speaks_5:
            properties = publish_properties(response_topic, correlation, expiry_s)
        try:
            async with self._watched(topic, payload), self._call(client):
                said = await client.publish_confirmed(
                    topic, payload, retain=retain, properties=properties
                )
        except ValueError as error:
            raise Undeliverable(str(error)) from None
        if said.is_failure:
            reason = f"the broker refused a message to {topic}: {said}"
            if said.value in _FINAL_REFUSALS:
                raise Undeliverable(reason)
            self.reconnect(reason)
            raise BusUnavailable(reason)

    @contextlib.asynccontextmanager
    async def _watched(self, topic: str, payload: bytes) -> AsyncIterator[None]:
        """Find out whether connections end again and again because of this message."""
        size = len(payload)
        if size < SUSPECT_BYTES:
            yield
            return
        self._large.append(size)
        try:
            yield
            self._hang_ups.clear()
        except BusUnavailable:
            if size >= max(self._lost_bytes, *self._large):
                self._suspect(topic, payload)
            raise
        finally:
            self._large.remove(size)

    def _suspect(self, topic: str, payload: bytes) -> None:
        """Note that a connection ended while this was the largest message on its way."""
        which = hash((topic, payload))
        self._hang_ups = Counter({which: self._hang_ups[which] + 1})
        if self._hang_ups[which] >= HANG_UPS_MAX:
            self._too_large_bytes = len(payload)
            _log.error(
                "the broker hung up %d times on a message of %d bytes to %s: none of that size is"
                " sent any more",
                HANG_UPS_MAX,
                len(payload),
                topic,
            )

    async def subscribe(self, topic_filter: str, callback: Callback, *, qos: int = 1) -> None:
        """Have every message that a filter covers handed to `callback`, also after reconnects.

        When connected, returns once the broker has confirmed, so that nothing published afterwards
        is missed; otherwise returns at once. Filters should not overlap: a broker may then send a
        message once per filter.

        Raises:
            BusUnavailable: the broker refused, or did not confirm. The subscription is kept and
                tried again at the next connection.

        """
        self._callbacks[topic_filter] = (callback, qos)
        if self._client is not None:
            await self._send_subscribe(self._client, topic_filter, qos)

    async def unsubscribe(self, topic_filter: str) -> None:
        """Stop what `subscribe` started. Raise BusUnavailable when the broker did not confirm."""
        self._callbacks.pop(topic_filter, None)
        client = self._client
        if client is not None:
            async with self._call(client):
                await client.unsubscribe(topic_filter, timeout=math.inf)

    async def stop_taking(self) -> None:
        """Take no more messages; those that were taken are handed on already.

        What comes later stays unacknowledged, so that a broker that keeps our session sends it to
        the next connection. Without a session it goes on being handed on: it would be lost.
        """
        client = self._client
        if client is not None and self._config.client_id:
            client.stop_taking()

    async def run(self) -> NoReturn:
        """Keep the connection up until cancelled; then leave the broker in order."""
        waits_s = backoff()
        while True:
            was_up, trouble = await self._connect_and_serve()
            if was_up:
                waits_s = backoff()
            # One line per outage, not one per attempt.
            level = logging.DEBUG if trouble == self._trouble and not was_up else logging.WARNING
            self._trouble = trouble
            where = f"{self._config.host}:{self._config.port}"
            _log.log(level, "MQTT broker %s: %s; trying again", where, trouble)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(next(waits_s)):
                    await self._hurry.wait()
            self._hurry.clear()

    async def _connect_and_serve(self) -> tuple[bool, str]:
        """Serve one connection to its end; return whether it was up, and why it ended."""
        try:
            client = await make_client(
                self._config, self._client_id, self._password, self._will, self._dispatch
            )
            await connect(client)
        except (MqttError, OSError, UnicodeError) as error:
            return False, f"cannot connect: {error}"
        self._client = client
        reader = asyncio.create_task(self._read(client), name="mqtt-read")
        greeter = asyncio.create_task(self._greet(client), name="mqtt-greet")
        try:
            await asyncio.wait((reader, greeter), return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError:
            greeter.cancel()
            if self._on_stop is not None:
                await self._on_stop()
            raise
        finally:
            was_up, trouble = await self._end(client, reader, greeter)
        return was_up, trouble

    async def _end(self, client: BrokerClient, *tasks: asyncio.Task[None]) -> tuple[bool, str]:
        """Tear one connection down; raise what was no trouble of the connection but a defect."""
        self._client = None
        self._lost_bytes = max(self._large, default=0)
        was_up = self._up.is_set()
        self._up.clear()
        now_s = asyncio.get_running_loop().time()
        for call in self._calls:
            if not call.expired():
                call.reschedule(now_s)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await disconnect(client)
        trouble = "connection given up"
        defect: BaseException | None = None
        for result in results:
            if isinstance(result, MqttError | BusUnavailable | Undeliverable | OSError):
                trouble = str(result) or "connection given up"
            elif isinstance(result, Exception):
                defect = result
        if was_up and self._on_down is not None:
            self._on_down(trouble)
        if defect is not None:
            raise defect
        return was_up, trouble

    async def _greet(self, client: BrokerClient) -> None:
        """Subscribe anew, then say that the connection is up."""
        for topic_filter, (_, qos) in tuple(self._callbacks.items()):
            await self._send_subscribe(client, topic_filter, qos)
        if self._on_up is not None:
            await self._on_up()
        self._up.set()
        self._trouble = ""
        _log.info("connected to the MQTT broker %s:%d", self._config.host, self._config.port)

    async def _read(self, client: BrokerClient) -> None:
        """Wait until the connection breaks; raise MqttError or TimeoutError then."""
        try:
            async with asyncio.timeout(None) as self._reading:
                await client.broken()
        finally:
            self._reading = None

    def _dispatch(self, message: Message) -> None:
        payload = message.payload
        properties = message.properties
        received = Received(
            topic=message.topic.value,
            payload=payload if isinstance(payload, bytes) else b"",
            retained=message.retain,
            response_topic=getattr(properties, "ResponseTopic", None),
            correlation=getattr(properties, "CorrelationData", None),
        )
        for topic_filter, (callback, _) in tuple(self._callbacks.items()):
            if matches(topic_filter, received.topic):
                try:
                    callback(received)
                except Exception:  # one message must not take the connection down
                    _log.exception("a message on %s could not be handled", received.topic)

    async def _send_subscribe(self, client: BrokerClient, topic_filter: str, qos: int) -> None:
        async with self._call(client):
            codes = await client.subscribe(topic_filter, qos=qos, timeout=math.inf)
        for code in codes:
            if (code if isinstance(code, int) else code.value) >= 0x80:
                raise BusUnavailable(f"the broker refuses the subscription to {topic_filter}")

    @contextlib.asynccontextmanager
    async def _call(self, client: BrokerClient) -> AsyncIterator[None]:
        """Bound one exchange with the broker in time, and end it when the connection is lost."""
        try:
            async with asyncio.timeout(ACK_TIMEOUT_S) as call:
                self._calls.add(call)
                try:
                    yield
                finally:
                    self._calls.discard(call)
        except TimeoutError:
            if client is not self._client:
                raise BusUnavailable("the connection to the MQTT broker was lost") from None
            self.reconnect(f"no confirmation within {ACK_TIMEOUT_S:g} s")
            raise BusUnavailable("the MQTT broker did not confirm in time") from None
        except MqttError as error:
            raise BusUnavailable(str(error)) from None
