"""How the MQTT library's client is made, given properties and closed."""

import asyncio
import contextlib
import logging
import socket
from typing import Final

from aiomqtt import Client, MqttError, ProtocolVersion, Will
from paho.mqtt.client import MQTT_CLEAN_START_FIRST_ONLY, DisconnectFlags
from paho.mqtt.client import Client as PahoClient
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


class HangUpClient(Client):
    """The library's client, which also ends its attempt to connect when the broker hangs up.

    The original waits its whole time limit for an answer on a connection that it knows is closed,
    and then calls that a time-out: as with a broker that wants a certificate of ours, or one that
    speaks no MQTT 5.
    """

    last_words: _LastWords

    def _on_disconnect(
        self,
        client: PahoClient,
        userdata: object,
        flags: DisconnectFlags,
        reason_code: ReasonCode,
        properties: Properties | None = None,
    ) -> None:
        if not self._connected.done():
            why = self.last_words.text or "before it answered CONNECT"
            self._connected.set_exception(MqttError(f"the broker hung up: {why}"))
        super()._on_disconnect(client, userdata, flags, reason_code, properties)


async def make_client(
    config: MqttConfig, client_id: str, password: str | None, will: Will | None
) -> HangUpClient:
    """Return a client that is not connected yet. Raise OSError for unreadable files."""
    if password is None:
        password = await asyncio.to_thread(config.read_password)
    speaks_5 = config.protocol == "5"
    persistent = config.client_id != ""
    properties = _properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = config.session_expiry_s if persistent else 0
    last_words = _LastWords()
    library_log = logging.Logger("mqtt", logging.ERROR)
    library_log.addHandler(last_words)
    client = HangUpClient(
        config.host,
        config.port,
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
        max_concurrent_outgoing_calls=CONCURRENT_CALLS,
        tls_context=await asyncio.to_thread(config.tls_context),
        socket_options=_NODELAY,
        logger=library_log,
    )
    client.last_words = last_words
    # The library warns from ten pending calls on; ours are bounded already.
    client.pending_calls_threshold = CONCURRENT_CALLS
    return client


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
