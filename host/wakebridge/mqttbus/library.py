"""How the MQTT library's client is made, given properties and closed."""

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Callable
from typing import Any, Final, NoReturn

from aiomqtt import Client, Message, MqttCodeError, MqttError, ProtocolVersion, Will
from paho.mqtt.client import (
    MQTT_CLEAN_START_FIRST_ONLY,
    ConnectFlags,
    DisconnectFlags,
    MQTTMessage,
    MQTTMessageInfo,
)
from paho.mqtt.client import Client as PahoClient
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from wakebridge.mqttbus.config import MqttConfig

CONNECT_TIMEOUT_S: Final = 5.0
"""For the broker's answer to CONNECT; the TCP connection has the same limit in the library."""

CONCURRENT_CALLS: Final = 64
"""Publications waiting for their PUBACK at once; more wait their turn, first come first served.
Brokers take some 20 at a time (mosquitto: max_inflight_messages)."""

_LIBRARY_TIMEOUT: Final = "Operation timed out"
_NO_ANSWER: Final = "no answer to CONNECT (a broker without MQTT 5 needs protocol 3.1.1)"

_DISCONNECT_TIMEOUT_S: Final = 1.0

_NODELAY: Final = ((socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),)
"""Without it Nagle's algorithm and delayed ACKs hold every small packet back for 40 ms."""

_PACKET_TOO_LARGE: Final = 0x95

_HEAD_BYTES_MAX: Final = 9
"""Of a PUBLISH with QoS 1, besides topic, properties and payload: the packet's type, its length,
the topic's length and the packet's number (MQTT 5 section 3.3)."""

# Mosquitto refuses a message that is too large with a code that MQTT 5 does not have for a PUBACK.
# The library would take that for a broken connection, and the message would break the next one.
for _packet_types in ReasonCode.names[_PACKET_TOO_LARGE].values():
    _packet_types.append(PacketTypes.PUBACK)

_log = logging.getLogger(__name__)


class _LastWords(logging.Handler):
    """Keeps the library's latest complaint, which says why a broker hung up; shows none of them.

    Outages are told by `MqttConnection`, once each and with their reason.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()
        _log.debug("%s", self.text)


def _packet_bytes(topic: str, payload: bytes, properties: Properties | None) -> int:
    """Return the most bytes that a message takes as a PUBLISH with QoS 1."""
    extra = 1 if properties is None else len(properties.pack())  # type: ignore[no-untyped-call]  # unannotated in the library
    return _HEAD_BYTES_MAX + len(topic.encode()) + extra + len(payload)


class BrokerClient(Client):
    """The library's client, with what it does not tell and what it does too late.

    It ends its attempt to connect when the broker hangs up; the original waits its whole time limit
    for an answer on a connection that it knows is closed, and then calls that a time-out. It says
    when the broker refused a publication, which the original takes for accepted. And it sends
    nothing that is larger than the broker has said it takes, for which brokers hang up.
    """

    def __init__(
        self,
        hostname: str,
        port: int,
        take: Callable[[Message], None] = lambda message: None,
        **options: Any,
    ) -> None:
        """Take the options of the library's client, except for `logger`; `take` gets messages."""
        self._take = take
        self._last_words = _LastWords()
        logger = logging.Logger("mqtt", logging.ERROR)
        logger.addHandler(self._last_words)
        super().__init__(hostname, port, logger=logger, **options)
        self._slots = asyncio.Semaphore(CONCURRENT_CALLS)
        self._confirmations: dict[int, asyncio.Future[ReasonCode]] = {}
        self._thread = threading.get_ident()
        self._publishing = False
        self._watched = False
        self._packet_bytes_max: int | None = None

    async def publish_confirmed(
        self, topic: str, payload: bytes, *, retain: bool, properties: Properties | None
    ) -> ReasonCode:
        """Publish with QoS 1; return what the PUBACK says. Raise MqttError or ValueError."""
        limit = self._packet_bytes_max
        if limit is not None and (size := _packet_bytes(topic, payload, properties)) > limit:
            raise ValueError(f"a message of {size} bytes, and the broker takes {limit}")
        async with self._slots:
            info = self._publish_now(topic, payload, retain, properties)
            if info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
                raise MqttCodeError(info.rc, "could not publish")
            confirmation: asyncio.Future[ReasonCode] = self._loop.create_future()
            self._confirmations[info.mid] = confirmation
            try:
                return await confirmation
            finally:
                del self._confirmations[info.mid]

    def _publish_now(
        self, topic: str, payload: bytes, retain: bool, properties: Properties | None
    ) -> MQTTMessageInfo:
        self._publishing = True
        try:
            return self._client.publish(topic, payload, 1, retain, properties)
        finally:
            self._publishing = False
            self._flush(self._client)

    def stop_taking(self) -> None:
        """Neither read nor acknowledge what comes from now on.

        A broker that keeps our session sends it again at the next connection.
        """
        self._client.manual_ack_set(True)
        self._client.on_message = None

    async def broken(self) -> NoReturn:
        """Return never; raise MqttError when the connection is gone."""
        await asyncio.wait((self._disconnected,))
        raise MqttError("disconnected") from self._disconnected.exception()

    def _on_message(self, client: PahoClient, userdata: object, message: MQTTMessage) -> None:
        """Hand a message on as it is read.

        The original queues it, without a bound, and the queue is emptied more slowly than the
        socket is read: a flood would grow in here, where nobody can refuse it.
        """
        self._take(Message._from_paho_message(message))

    def _on_socket_register_write(
        self, client: PahoClient, userdata: object, sock: socket.socket
    ) -> None:
        if threading.get_ident() != self._thread:  # the library connects in a thread of its own
            self._loop.call_soon_threadsafe(self._flush, client)
        elif not self._publishing:
            self._loop.call_soon(self._flush, client)

    def _on_socket_unregister_write(
        self, client: PahoClient, userdata: object, sock: socket.socket
    ) -> None:
        if self._watched:
            self._watched = False
            super()._on_socket_unregister_write(client, userdata, sock)

    def _flush(self, client: PahoClient) -> None:
        """Write what waits; watch the socket only for what it does not take at once.

        The original always watches first, which takes a turn of the loop and as much time again as
        the message itself. And it does so a turn later, when the descriptor may be closed or,
        worse, be that of another file: so after a suspend, when a message meets a connection that
        is gone.
        """
        self._write(client)
        sock = client.socket()
        if client.want_write() and sock is not None and sock.fileno() >= 0:
            self._watched = True
            self._loop.add_writer(sock.fileno(), self._write, client)

    def _write(self, client: PahoClient) -> None:
        try:
            client.loop_write()
        except Exception as error:
            # As the original does: whatever it is, the connection is broken.
            if not self._disconnected.done():
                self._disconnected.set_exception(error)

    async def _misc_loop(self) -> None:
        """Have the library look at its keep-alive, which is all that it does here.

        Six times in each interval, so that a ping is late by a sixth at most, and the broker waits
        for half as long again. The original looks every second: sixty wakes a minute for nothing.
        """
        while self._client.loop_misc() == MQTTErrorCode.MQTT_ERR_SUCCESS:  # noqa: ASYNC110 - a poll
            await asyncio.sleep(self._client.keepalive / 6)

    def _on_connect(
        self,
        client: PahoClient,
        userdata: object,
        flags: ConnectFlags,
        reason_code: ReasonCode,
        properties: Properties | None = None,
    ) -> None:
        self._packet_bytes_max = getattr(properties, "MaximumPacketSize", None)
        super()._on_connect(client, userdata, flags, reason_code, properties)

    def _on_publish(
        self,
        client: PahoClient,
        userdata: object,
        mid: int,
        reason_code: ReasonCode,
        properties: Properties,
    ) -> None:
        confirmation = self._confirmations.get(mid)
        if confirmation is not None and not confirmation.done():
            confirmation.set_result(reason_code)

    def _on_disconnect(
        self,
        client: PahoClient,
        userdata: object,
        flags: DisconnectFlags,
        reason_code: ReasonCode,
        properties: Properties | None = None,
    ) -> None:
        if not self._connected.done():
            why = self._last_words.text or "before it answered CONNECT"
            self._connected.set_exception(MqttError(f"the broker hung up: {why}"))
        super()._on_disconnect(client, userdata, flags, reason_code, properties)


async def make_client(
    config: MqttConfig,
    client_id: str,
    password: str | None,
    will: Will | None,
    take: Callable[[Message], None],
) -> BrokerClient:
    """Return a client that is not connected yet. Raise OSError for unreadable files.

    `take` gets every message as soon as it is read.
    """
    if password is None:
        password = await asyncio.to_thread(config.read_password)
    speaks_5 = config.protocol == "5"
    persistent = config.client_id != ""
    properties = _properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = config.session_expiry_s if persistent else 0
    return BrokerClient(
        config.host,
        config.port,
        take,
        identifier=client_id,
        username=config.username,
        password=password,
        protocol=ProtocolVersion.V5 if speaks_5 else ProtocolVersion.V311,
        clean_session=None if speaks_5 else not persistent,
        clean_start=not persistent if speaks_5 else MQTT_CLEAN_START_FIRST_ONLY,
        properties=properties if speaks_5 else None,
        will=will,
        timeout=CONNECT_TIMEOUT_S,
        keepalive=config.keepalive_s,
        tls_context=await asyncio.to_thread(config.tls_context),
        socket_options=_NODELAY,
    )


async def connect(client: Client) -> None:
    """Connect, or leave nothing open behind. Raise MqttError, OSError (TLS) or UnicodeError."""
    entering = asyncio.ensure_future(client.__aenter__())
    try:
        await asyncio.shield(entering)
    except asyncio.CancelledError:
        # It connects in a thread that cannot be interrupted: left alone, that would finish after
        # us and leave a connection open that nobody knows of.
        with contextlib.suppress(MqttError, OSError, UnicodeError):
            await entering
        await disconnect(client)
        raise
    except MqttError as error:
        await disconnect(client)
        if str(error) == _LIBRARY_TIMEOUT:
            raise MqttError(_NO_ANSWER) from None
        raise


async def disconnect(client: Client) -> None:
    """Leave the broker in order, or at least close the socket."""
    client.timeout = _DISCONNECT_TIMEOUT_S
    with contextlib.suppress(MqttError):
        await client.__aexit__(None, None, None)


def publish_properties(
    response_topic: str | None, correlation: bytes | None, expiry_s: int | None
) -> Properties | None:
    """Return the MQTT 5 properties of one PUBLISH, None when it needs none."""
    if response_topic is None and correlation is None and expiry_s is None:
        return None
    properties = _properties(PacketTypes.PUBLISH)
    if response_topic is not None:
        properties.ResponseTopic = response_topic
    if correlation is not None:
        properties.CorrelationData = correlation
    if expiry_s is not None:
        properties.MessageExpiryInterval = expiry_s
    return properties


def _properties(packet_type: int) -> Properties:
    return Properties(packet_type)  # type: ignore[no-untyped-call]  # unannotated in the library
