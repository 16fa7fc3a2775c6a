"""Requests that come in over MQTT: admitted, handed to the service, answered once."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from wakebridge.adapters.mqtt.envelope import (
    TOOL_TYPE,
    TOOL_VERB,
    MalformedRequest,
    RequestMessage,
    parse_request,
)
from wakebridge.bus import (
    REQUEST_TYPES,
    RESPONSE_SUFFIX,
    BusUnavailable,
    Scheduler,
    Undeliverable,
    answer_context,
    refusal,
)
from wakebridge.mqttbus.connection import MqttConnection, Received
from wakebridge.mqttbus.topics import BadLevel, RequestAddress, Topics, decode_level

IN_PROGRESS_MAX: Final = 1024
"""Requests being carried out at once; at a few ms each that is far above what a disk can commit."""

OWNER_IN_PROGRESS_MAX: Final = 256
"""The same for one owner, so that a flood leaves room for the others."""

BYTES_IN_PROGRESS_MAX: Final = 32 * 1024 * 1024
"""Payload bytes of the requests being carried out at once."""

REFUSALS_MAX: Final = 512
"""`busy` answers on their way at once. What comes beyond is dropped and counted: answering a flood
without bound would itself be the harm."""

OWNER_REFUSALS_MAX: Final = 64
"""The same for one owner: every answer takes its turn at the broker, and theirs are the most."""

ANSWER_HOLD_S: Final = 60.0
"""How long an answer waits for a lost connection to come back."""

BUSY: Final = "busy, try again"
STOPPING: Final = "the bridge is stopping, try again"

_TYPES: Final = {**REQUEST_TYPES, TOOL_VERB: TOOL_TYPE}

_log = logging.getLogger(__name__)

Tool = Callable[[object, str | None], Awaitable[dict[str, object]]]
"""Calls the routines' `schedule` tool: its payload (R7) and who asks -> the answer of R7."""


class _ReplyTo(msgspec.Struct, frozen=True):
    """Where an answer goes, and the correlation data it carries there."""

    topic: str
    correlation: bytes | None


class RequestDesk:
    """Takes request messages in and sees to it that each gets exactly one answer (E20)."""

    def __init__(
        self,
        connection: MqttConnection,
        topics: Topics,
        scheduler: Scheduler,
        route: str,
        tool: Tool | None,
    ) -> None:
        """Prepare; `receive` is the callback for the filter `topics.requests()`."""
        self._connection = connection
        self._topics = topics
        self._scheduler = scheduler
        self._route = route
        self._tool = tool
        self._tasks: set[asyncio.Task[None]] = set()
        self._owners: Counter[str] = Counter()
        self._in_progress = 0
        self._bytes = 0
        self._refusals: Counter[str] = Counter()
        self._stopping = False
        self.dropped = 0
        """Requests beyond every bound, left without an answer."""

    def receive(self, received: Received) -> None:
        """Take one message in; the answer follows by itself."""
        if received.retained:
            # It was answered when it was published. Kept by the broker it would be carried out
            # again at every connection.
            _log.warning("ignored a retained request on %s", received.topic)
            return
        address = self._topics.parse_request(received.topic)
        size = len(received.payload)
        if self._stopping:
            self._refuse(address, received, STOPPING)
        elif (
            self._in_progress >= IN_PROGRESS_MAX
            or self._owners[address.level] >= OWNER_IN_PROGRESS_MAX
            or self._bytes + size > BYTES_IN_PROGRESS_MAX
        ):
            self._refuse(address, received, BUSY)
        else:
            self._in_progress += 1
            self._owners[address.level] += 1
            self._bytes += size
            self._spawn(self._serve(address, received))

    async def drain(self, timeout_s: float) -> None:
        """Refuse what comes from now on; wait for what is in progress, not longer than given."""
        self._stopping = True
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=timeout_s)
        for task in tuple(self._tasks):
            task.cancel()

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _refuse(self, address: RequestAddress, received: Received, reason: str) -> None:
        theirs = self._refusals[address.level]
        if theirs >= OWNER_REFUSALS_MAX or self._refusals.total() >= REFUSALS_MAX:
            self.dropped += 1
            if self.dropped.bit_count() == 1:  # a power of two: a flood must not flood the log
                _log.warning("dropped %d requests, the last of %s", self.dropped, address.level)
            return
        self._refusals[address.level] += 1
        self._spawn(self._send_refusal(address, received, reason))

    async def _send_refusal(self, address: RequestAddress, received: Received, reason: str) -> None:
        context: dict[str, object] | None = None
        try:
            with contextlib.suppress(MalformedRequest):
                context = parse_request(received.payload).context
            await self._answer(address, received, context, refusal("internal", reason))
        finally:
            _count_down(self._refusals, address.level)

    async def _serve(self, address: RequestAddress, received: Received) -> None:
        context: dict[str, object] | None = None
        try:
            try:
                message = parse_request(received.payload)
                context = message.context
                data = await self._carry_out(address, received, message)
            except (MalformedRequest, BadLevel) as error:
                data = refusal("invalid_record", str(error))
            except Exception:  # one request's defect must not take the bus down
                _log.exception("request %s of %s failed", address.verb, address.level)
                data = refusal("internal", "an unexpected error, which the bridge has logged")
            await self._answer(address, received, context, data)
        finally:
            self._in_progress -= 1
            self._bytes -= len(received.payload)
            _count_down(self._owners, address.level)

    async def _carry_out(
        self, address: RequestAddress, received: Received, message: RequestMessage
    ) -> dict[str, object]:
        """Return the answer's data. Raise MalformedRequest or BadLevel."""
        identity = decode_level(address.level)
        message_type = _TYPES.get(address.verb)
        if message_type is None:
            raise MalformedRequest(f"no request {address.verb!r}, only {', '.join(_TYPES)}")
        if message.type not in {None, message_type}:
            raise MalformedRequest(f"`type` must be {message_type!r} on this topic")
        wanted = received.response_topic
        if wanted is not None and not self._topics.may_answer_to(address.level, wanted):
            raise MalformedRequest("the response topic is outside of the requester's own topics")
        if address.verb != TOOL_VERB:
            return await self._scheduler.request(
                address.verb, message.data, message.context, self._route, identity
            )
        if self._tool is None:
            return refusal("internal", "the schedule tool is not available")
        return await self._tool(message.data, identity)

    def _reply_to(self, address: RequestAddress, received: Received) -> _ReplyTo:
        """Return where the answer goes: where the requester says, if it may have it there."""
        wanted = received.response_topic
        if wanted is None or not self._topics.may_answer_to(address.level, wanted):
            wanted = self._topics.answer(address.level, address.verb)
        return _ReplyTo(wanted, received.correlation)

    async def _answer(
        self,
        address: RequestAddress,
        received: Received,
        context: dict[str, object] | None,
        data: dict[str, object],
    ) -> None:
        message_type = _TYPES.get(address.verb, f"ovos.scheduler.{address.verb}")
        reply_to = self._reply_to(address, received)
        message: dict[str, object] = {
            "type": message_type + RESPONSE_SUFFIX,
            "data": data,
            "context": answer_context(context),
        }
        try:
            async with asyncio.timeout(ANSWER_HOLD_S):
                try:
                    await self._publish_until_confirmed(reply_to, message)
                except Undeliverable as error:
                    # A `list` can be larger than what the broker takes; its asker is told.
                    message["data"] = refusal("internal", f"the answer cannot be sent: {error}")
                    await self._publish_until_confirmed(reply_to, message)
        except TimeoutError:
            _log.warning("an answer to %s was lost with the connection", address.level)
        except Undeliverable as error:
            _log.warning("an answer to %s cannot be sent: %s", address.level, error)

    async def _publish_until_confirmed(
        self, reply_to: _ReplyTo, message: Mapping[str, object]
    ) -> None:
        payload = msgspec.json.encode(message)
        while True:
            with contextlib.suppress(BusUnavailable):
                await self._connection.publish(
                    reply_to.topic, payload, correlation=reply_to.correlation
                )
                return
            await self._connection.wait_up()


def _count_down(counter: Counter[str], level: str) -> None:
    """Count one less, and forget who has none: owners come and go without end."""
    counter[level] -= 1
    if not counter[level]:
        del counter[level]
