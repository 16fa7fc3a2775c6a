"""A lean MQTT 5 client: a measuring instrument must not cost more than what it measures.

It speaks what the benchmarks need of MQTT 5 (sections 3.1 to 3.9) and nothing else: one clean
session, QoS 1 both ways, response topic and correlation data. Everything that arrives is handed to
one callback, in order, from the event loop.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Final

CONNECT_TIMEOUT_S: Final = 10.0

_CONNACK, _PUBLISH, _PUBACK, _SUBACK = 2, 3, 4, 9
_RESPONSE_TOPIC, _CORRELATION_DATA = 0x08, 0x09

OnMessage = Callable[[str, bytes, bytes], None]
"""Called with topic, payload and correlation data (empty when there is none)."""


def _text(value: bytes) -> bytes:
    return struct.pack(">H", len(value)) + value


def _number(value: int) -> bytes:
    """Return MQTT's variable byte integer."""
    encoded = bytearray()
    while True:
        value, digit = divmod(value, 128)
        encoded.append(digit | 0x80 if value else digit)
        if not value:
            return bytes(encoded)


def _packet(kind: int, body: bytes) -> bytes:
    return bytes((kind,)) + _number(len(body)) + body


def _read_number(data: bytes | bytearray, at: int) -> tuple[int, int] | None:
    """Return a variable byte integer and where it ends, None when it is cut short."""
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        shift += 7
        if byte < 0x80:
            return value, at
    return None


class WireClient(asyncio.Protocol):
    """One connection. Make it with `connect`."""

    def __init__(self, on_message: OnMessage) -> None:
        self._on_message = on_message
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._subscribed: asyncio.Future[None] | None = None
        self._id = 0

    @classmethod
    async def connect(cls, port: int, name: str, on_message: OnMessage) -> "WireClient":
        """Return a client that is connected to the broker on a loopback port."""
        loop = asyncio.get_running_loop()
        raw = socket.create_connection(("127.0.0.1", port), CONNECT_TIMEOUT_S)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.setblocking(False)
        _, client = await loop.create_connection(lambda: cls(on_message), sock=raw)
        # Version 5, clean start, keep-alive off, no properties.
        client._write(
            _packet(0x10, _text(b"MQTT") + b"\x05\x02\x00\x00\x00" + _text(name.encode()))
        )
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            await client._ready
        return client

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()

    async def subscribe(self, topic_filter: str) -> None:
        """Subscribe with QoS 1; return when the broker has confirmed."""
        self._subscribed = asyncio.get_running_loop().create_future()
        body = struct.pack(">H", self._next_id()) + b"\x00" + _text(topic_filter.encode()) + b"\x01"
        self._write(_packet(0x82, body))
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            await self._subscribed

    def publish(
        self, topic: bytes, payload: bytes, response_topic: bytes, correlation: bytes
    ) -> None:
        """Publish with QoS 1; the broker's PUBACK is not waited for."""
        properties = b""
        if response_topic:
            properties = bytes((_RESPONSE_TOPIC,)) + _text(response_topic)
            properties += bytes((_CORRELATION_DATA,)) + _text(correlation)
        head = _text(topic) + struct.pack(">H", self._next_id())
        self._write(_packet(0x32, head + _number(len(properties)) + properties + payload))

    def _next_id(self) -> int:
        self._id = self._id % 65_535 + 1
        return self._id

    def _write(self, packet: bytes) -> None:
        assert self._transport is not None
        self._transport.write(packet)

    # -- asyncio.Protocol -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        at = 0
        acknowledgements = bytearray()
        while len(buffer) - at >= 2:
            length = _read_number(buffer, at + 1)
            if length is None or len(buffer) < length[0] + length[1]:
                break
            end = length[0] + length[1]
            acknowledgements += self._take(buffer[at], bytes(buffer[length[1] : end]))
            at = end
        del buffer[:at]
        if acknowledgements and self._transport is not None:
            self._transport.write(bytes(acknowledgements))

    def _take(self, first: int, body: bytes) -> bytes:
        """Handle one packet; return what is to be sent back."""
        kind = first >> 4
        if kind == _PUBLISH:
            return self._take_publish(first, body)
        if kind == _CONNACK:
            assert body[1] == 0, f"the broker refuses: {body[1]:#x}"
            self._ready.set_result(None)
        elif kind == _SUBACK and self._subscribed is not None:
            self._subscribed.set_result(None)
        elif kind == _PUBACK:
            # 0x10: nobody is subscribed there. Everything else above is a refusal.
            assert len(body) < 3 or body[2] in {0x00, 0x10}, f"refused: {body[2]:#x}"
        return b""

    def _take_publish(self, first: int, body: bytes) -> bytes:
        (topic_length,) = struct.unpack_from(">H", body)
        at = 2 + topic_length
        topic = body[2:at].decode()
        acknowledgement = b""
        if first & 0x06:
            acknowledgement = b"\x40\x02" + body[at : at + 2]
            at += 2
        length = _read_number(body, at)
        assert length is not None
        payload_at = length[1] + length[0]
        correlation = _correlation(body[length[1] : payload_at])
        self._on_message(topic, body[payload_at:], correlation)
        return acknowledgement


def _correlation(properties: bytes) -> bytes:
    """Return the correlation data; it is the only property that the bridge sends."""
    if not properties:
        return b""
    assert properties[0] == _CORRELATION_DATA, properties
    (length,) = struct.unpack_from(">H", properties, 1)
    return properties[3 : 3 + length]
