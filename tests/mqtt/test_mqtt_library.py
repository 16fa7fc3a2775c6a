"""What we make the MQTT library do differently."""

import asyncio
import socket

from brokers import MosquittoFactory
from wakebridge.mqttbus.config import MqttConfig
from wakebridge.mqttbus.library import BrokerClient, connect, disconnect, make_client


async def test_small_packets_wait_for_no_acknowledgement(mosquitto: MosquittoFactory) -> None:
    """Issue 2: with Nagle's algorithm each waits 40 ms and more for the one before."""
    config = MqttConfig(port=mosquitto().port)
    client = await make_client(config, "quick", None, None, lambda _: None)
    await connect(client)
    tcp = client._client.socket()
    assert isinstance(tcp, socket.socket)
    assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    await disconnect(client)


async def test_a_socket_that_closed_before_its_turn_is_not_watched_nor_its_heir() -> None:
    """After a suspend: a message meets a connection that is gone, and its number is taken anew."""
    client = BrokerClient("127.0.0.1", 1)
    ours, peer = socket.socketpair()
    number = ours.fileno()
    client._on_socket_register_write(client._client, None, ours)
    ours.close()
    heir, heirs_peer = socket.socketpair()
    assert heir.fileno() == number
    await asyncio.sleep(0)
    assert not asyncio.get_running_loop().remove_writer(number)
    for each in (peer, heir, heirs_peer):
        each.close()
