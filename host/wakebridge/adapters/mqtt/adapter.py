"""The MQTT bus: requests in, answers and fired events out, and what is retained about us."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Final, Literal, NoReturn

import msgspec
from aiomqtt import Will

from wakebridge.adapters.mqtt.requests import RequestDesk, Tool
from wakebridge.bus import (
    MISSED_TYPE,
    READY_TYPE,
    BusMessage,
    BusUnavailable,
    Scheduler,
    Undeliverable,
)
from wakebridge.mqttbus.config import MqttConfig
from wakebridge.mqttbus.connection import MqttConnection, Received
from wakebridge.mqttbus.topics import OFFLINE, ONLINE, Topics

DRAIN_TIMEOUT_S: Final = 2.0
"""How long a stop waits for the requests that are being carried out."""

StateName = Literal["timer", "board"]

_log = logging.getLogger(__name__)


class MqttBus:
    """The bridge on an MQTT broker. Implements `wakebridge.bus.Bus`.

    `status` is true: `online` once requests are served, `offline` by our own word at a clean stop
    and by the broker's word (the will) otherwise. Should anybody else's `offline` arrive while we
    are here, it is corrected. Fired events are never retained.
    """

    def __init__(self, config: MqttConfig, scheduler: Scheduler, tool: Tool | None = None) -> None:
        """Prepare; nothing happens before `run`.

        Args:
            config: the broker and who we are there.
            scheduler: the service that requests go to.
            tool: calls the routines' `schedule` tool; None when it is not available (R31).

        """
        self._scheduler = scheduler
        self._topics = Topics(config.base)
        self._states: dict[str, bytes] = {}
        self._announced = False
        self._correction: asyncio.Task[None] | None = None
        self.connection = MqttConnection(
            config,
            will=Will(self._topics.status(), OFFLINE, qos=1, retain=True),
            on_up=self._come_up,
            on_down=self._go_down,
            on_stop=self._leave,
        )
        self._desk = RequestDesk(self.connection, self._topics, scheduler, self.name, tool)

    @property
    def name(self) -> str:
        """The route's name."""
        return "mqtt"

    @property
    def topics(self) -> Topics:
        """The topics of this bridge."""
        return self._topics

    @property
    def requests_dropped(self) -> int:
        """How many requests got no answer because a flood exceeded every bound."""
        return self._desk.dropped

    async def run(self) -> NoReturn:
        """Serve until cancelled.

        Cancelled, it leaves new requests to the next run (or refuses them, where the broker keeps
        no session for us), finishes those in progress, publishes `offline` and leaves the broker.
        """
        # QoS 0: no broker keeps it for us, so it is heard only while we are here.
        await self.connection.subscribe(self._topics.status(), self._hear_status, qos=0)
        await self.connection.subscribe(self._topics.requests(), self._desk.receive)
        await self.connection.run()

    async def emit(self, message: BusMessage) -> None:
        """Publish one message; return after the broker's PUBACK.

        Raises:
            BusUnavailable: not connected, or the broker did not confirm.
            Undeliverable: the message's names do not fit in a topic.

        """
        await self.connection.publish(self._topic_of(message), message.encode())

    async def publish_state(self, name: StateName, state: Mapping[str, object]) -> None:
        """Have the retained `timer` or `board` topic say this; publish only what is new.

        Without a connection the state is kept and published at the next one.
        """
        payload = msgspec.json.encode(state)
        if self._states.get(name) == payload:
            return
        self._states[name] = payload
        try:
            await self.connection.publish(self._topics.state(name), payload, retain=True)
        except BusUnavailable:
            pass
        except Undeliverable as error:
            _log.warning("%s", error)

    def _topic_of(self, message: BusMessage) -> str:
        if message.owner is None:
            if message.type != READY_TYPE:
                raise Undeliverable(f"no topic for {message.type!r} without an owner")
            return self._topics.ready()
        if message.type == MISSED_TYPE:
            return self._topics.missed(message.owner)
        return self._topics.event(message.owner, message.type)

    async def _come_up(self) -> None:
        for name in tuple(self._states):
            # Looked up only now: while the one before was on its way, this one may have changed.
            await self.connection.publish(self._topics.state(name), self._states[name], retain=True)
        await self.connection.publish(self._topics.status(), ONLINE, retain=True)
        self._announced = True
        self._scheduler.bus_up(self.name)

    def _go_down(self, reason: str) -> None:
        self._announced = False
        self._scheduler.bus_down(self.name)

    async def _leave(self) -> None:
        self._announced = False
        if self._correction is not None:
            self._correction.cancel()
        await self.connection.stop_taking()
        await self._desk.drain(DRAIN_TIMEOUT_S)
        with contextlib.suppress(BusUnavailable, Undeliverable):
            await self.connection.publish(self._topics.status(), OFFLINE, retain=True)

    def _hear_status(self, received: Received) -> None:
        if received.retained or received.payload == ONLINE or not self._announced:
            return
        if self._correction is None or self._correction.done():
            self._correction = asyncio.create_task(self._correct_status())

    async def _correct_status(self) -> None:
        _log.warning("somebody else published our status; correcting it")
        with contextlib.suppress(BusUnavailable, Undeliverable):
            await self.connection.publish(self._topics.status(), ONLINE, retain=True)
