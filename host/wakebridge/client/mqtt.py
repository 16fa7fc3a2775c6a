"""The client's transport over MQTT."""

import asyncio
import contextlib
import math
import secrets
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, Literal

import msgspec

from wakebridge.bus import MISSED_TYPE, READY_TYPE, BusUnavailable, Undeliverable
from wakebridge.client.errors import NoAnswer
from wakebridge.client.scheduler import SchedulerClient
from wakebridge.client.transport import Deliver, Incoming, kept
from wakebridge.mqttbus.config import MqttConfig
from wakebridge.mqttbus.connection import MqttConnection, Received
from wakebridge.mqttbus.topics import Topics, encode_level

ANSWER_TIMEOUT_S: Final = 5.0
"""For an answer; the bridge takes a few ms, a broker that restarts some seconds."""

UNCLAIMED_MAX: Final = 256
"""Events kept for handlers that a restarted process has not registered yet."""

_MESSAGE: Final = msgspec.json.Decoder(Incoming)


class MqttTransport:
    """One owner on an MQTT broker. Implements `wakebridge.client.transport.Transport`."""

    def __init__(
        self,
        skill_id: str,
        config: MqttConfig,
        *,
        password: str | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> None:
        """Prepare; `opened` connects. `password` is used in place of `config.password_file`."""
        self._skill_id = skill_id
        self._topics = Topics(config.base)
        self._timeout_s = timeout_s
        self._connection = MqttConnection(config, password=password)
        # With a fixed client id the broker keeps answers too: they must find the same topic.
        instance = encode_level(config.client_id) if config.client_id else secrets.token_hex(8)
        self._instance = instance
        self._answer_topic = self._topics.answer(encode_level(skill_id), instance)
        self._numbers = 0
        self._answers: dict[str, asyncio.Future[Mapping[str, Any]]] = {}
        self._deliver: dict[str, Deliver] = {}
        self._unclaimed: deque[Incoming] = deque(maxlen=UNCLAIMED_MAX if config.client_id else 0)

    @property
    def skill_id(self) -> str:
        """The owner in whose name it asks."""
        return self._skill_id

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Stay connected inside the block. Raise NotConnected when there is no broker at first."""
        await self._subscribe()
        async with kept(self._connection, "the broker", self._timeout_s):
            yield

    async def ask(
        self, verb: str, data: Mapping[str, object], context: Mapping[str, object]
    ) -> Mapping[str, Any]:
        """Send one request and return the answer's data. Raise NoAnswer."""
        self._numbers += 1
        number = f"{self._instance}-{self._numbers}"
        sent: dict[str, object] = {**context, "skill_id": self._skill_id}
        if not self._connection.speaks_5:
            # Without correlation data the context, which comes back, tells the answers apart.
            sent["request_id"] = number
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._connection.wait_up()
                await self._connection.publish(
                    self._topics.request(self._skill_id, verb),
                    msgspec.json.encode({"data": data, "context": sent}),
                    response_topic=self._answer_topic,
                    correlation=number.encode(),
                    expiry_s=math.ceil(self._timeout_s),
                )
                return await answer
        except TimeoutError:
            raise NoAnswer(f"no answer to {verb} within {self._timeout_s:g} s") from None
        except (BusUnavailable, Undeliverable) as error:
            raise NoAnswer(f"no answer to {verb}: {error}") from None
        finally:
            del self._answers[number]

    def listen(self, message_type: str, deliver: Deliver) -> None:
        """Hand every message of a type to `deliver`, those first that waited for it."""
        self._deliver[message_type] = deliver
        waited = [incoming for incoming in self._unclaimed if incoming.type == message_type]
        for incoming in waited:
            self._unclaimed.remove(incoming)
            deliver(incoming)

    def ignore(self, message_type: str) -> None:
        """Stop what `listen` started for this type."""
        self._deliver.pop(message_type, None)

    async def _subscribe(self) -> None:
        """Register for all that the bridge sends to this owner."""
        branch = self._topics.owner(self._skill_id)
        await self._connection.subscribe(f"{branch}/event/+", self._receive)
        await self._connection.subscribe(self._topics.missed(self._skill_id), self._receive)
        await self._connection.subscribe(self._topics.ready(), self._receive)
        if self._connection.speaks_5:
            await self._connection.subscribe(self._answer_topic, self._receive_answer)
        else:
            answers = self._topics.answer(encode_level(self._skill_id), "+")
            await self._connection.subscribe(answers, self._receive_answer)

    def _receive(self, received: Received) -> None:
        with contextlib.suppress(msgspec.DecodeError):
            incoming = _MESSAGE.decode(received.payload)
            deliver = self._deliver.get(incoming.type)
            if deliver is not None:
                deliver(incoming)
            elif incoming.type not in {MISSED_TYPE, READY_TYPE}:
                self._unclaimed.append(incoming)

    def _receive_answer(self, received: Received) -> None:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
            message = _MESSAGE.decode(received.payload)
            if received.correlation is not None:
                number: object = received.correlation.decode()
            else:
                number = message.context.get("request_id")
            answer = self._answers.get(number) if isinstance(number, str) else None
            if answer is not None and not answer.done():
                answer.set_result(message.data)


@contextlib.asynccontextmanager
async def connect_mqtt(
    skill_id: str,
    *,
    host: str = "127.0.0.1",
    port: int = 1883,
    base: str = "wakebridge",
    username: str | None = None,
    password: str | None = None,
    tls: bool = False,
    tls_ca_file: str | None = None,
    tls_cert_file: str | None = None,
    tls_key_file: str | None = None,
    protocol: Literal["5", "3.1.1"] = "5",
    client_id: str = "",
    timeout_s: float = ANSWER_TIMEOUT_S,
) -> AsyncIterator[SchedulerClient]:
    """Connect an owner to the bridge over MQTT; the connection comes back by itself.

    Args:
        skill_id: the owner. A broker set up as in `host/packaging/mosquitto/` knows the client as
            a user of this name.
        host: the broker.
        port: the broker's port.
        base: the bridge's first topic levels.
        username: by default the skill id, if there is a password.
        password: for the broker.
        tls: encrypt, and verify the broker's certificate.
        tls_ca_file: whom to trust instead of the system's authorities.
        tls_cert_file: a certificate of ours, with `tls_key_file`.
        tls_key_file: see `tls_cert_file`.
        protocol: 3.1.1 for a broker without MQTT 5.
        client_id: a fixed and unique name has the broker keep events while this process is away.
        timeout_s: for the first connection and for each answer.

    Raises:
        NotConnected: there is no connection within `timeout_s`.
        ValueError: an argument is out of range; the text names it.

    """
    if username is None and password is not None:
        username = skill_id
    config = MqttConfig(
        host=host,
        port=port,
        base=base,
        client_id=client_id,
        username=username,
        tls=tls,
        tls_ca_file=tls_ca_file,
        tls_cert_file=tls_cert_file,
        tls_key_file=tls_key_file,
        protocol=protocol,
    )
    transport = MqttTransport(skill_id, config, password=password, timeout_s=timeout_s)
    async with transport.opened():
        client = SchedulerClient(transport)
        try:
            yield client
        finally:
            await client.close()
