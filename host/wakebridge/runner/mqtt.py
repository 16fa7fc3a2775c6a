"""The `mqtt` runner: an agent takes runs from its topic and reports on another.

Below `<prefix>/agents/<agent>`:

- `status` (retained, with a last will): the agent says `{"state": "online", "instance": "..."}`,
  a new random instance for every start of its process; the will says `{"state": "offline"}`;
- `runs/<run_id>`: the bridge hands a run over, once, not retained;
- `runs/<run_id>/control`: the bridge says `{"type": "cancel"}` or asks `{"type": "query"}`;
- `runs/<run_id>/reports`: the agent says `accepted`, `progress`, and one of `result`, `error` or
  `cancelled` (see `messages`). Asked by a query it says `alive`, its last word once more, or
  `unknown`.

The agent must connect with a clean session, so that no broker keeps a run for it that the bridge
has given up. A run is handed over only while the agent is online. If the agent goes away, starts
anew or falls silent, the run is `Interrupted`: it may have done its work, so it is not repeated.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final, Literal, Protocol
from urllib.parse import quote, unquote

import msgspec

from wakebridge.bus import BusUnavailable, Undeliverable
from wakebridge.mqttbus.topics import check_base
from wakebridge.runner.lease import Lease, Patience
from wakebridge.runner.limits import check_limits
from wakebridge.runner.messages import (
    Cancelled,
    Error,
    Progress,
    Report,
    Result,
    Unknown,
    read_report,
)
from wakebridge.runner.port import (
    Completed,
    Failed,
    Interrupted,
    OnProgress,
    Outcome,
    RunRequest,
    Stopped,
    undisturbed,
)

TIME_LIMIT_S: Final = 3600.0
"""Default longest run, in seconds, as for programs."""

ONLINE_LIMIT_S: Final = 120.0
"""How long to wait for the agent to come online: a host that has just woken is still starting."""

OFFLINE_GRACE_S: Final = 5.0
"""How long an agent may be offline and come back as the same instance: a connection that flaps."""

LEASE_S: Final = 30.0
"""Default longest silence of an agent, in seconds (see `lease`)."""

CANCEL_LIMIT_S: Final = 10.0
"""How long an agent may take to confirm that it has stopped."""

ANSWER_LIMIT_S: Final = 2.0
"""How long to wait for the answer to one query before the next."""

OUTPUT_LIMIT_BYTES: Final = 4 * 1024 * 1024
"""Most bytes of one run's reports, as for programs."""

REPORTS_QUEUED_MAX: Final = 256
"""Reports of one run that wait to be made durable."""

_log = logging.getLogger(__name__)


class Received(Protocol):
    """One message from the broker, as far as this runner looks at it."""

    @property
    def topic(self) -> str:
        """The topic it was published on."""
        ...

    @property
    def payload(self) -> bytes:
        """Its content."""
        ...


class Broker(Protocol):
    """A connection to a broker that comes back by itself."""

    async def publish(
        self, topic: str, payload: bytes, *, retain: bool = False, expiry_s: int | None = None
    ) -> None:
        """Publish with QoS 1; return after the broker's confirmation.

        Raises `BusUnavailable` when it does not come and `Undeliverable` when it never will.
        """
        ...

    async def subscribe(self, topic_filter: str, callback: Callable[[Received], None]) -> None:
        """Hand every message to `callback`, also after reconnects, when retained ones come again.

        Raises `BusUnavailable` when the broker did not confirm; the subscription is kept.
        """
        ...

    async def unsubscribe(self, topic_filter: str) -> None:
        """Stop what `subscribe` started. Raises `BusUnavailable`."""
        ...


class MqttRunnerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which agent, and how patient to be with it."""

    agent: str
    prefix: str = "wakebridge"
    time_limit_s: float = TIME_LIMIT_S
    online_limit_s: float = ONLINE_LIMIT_S
    offline_grace_s: float = OFFLINE_GRACE_S
    lease_s: float = LEASE_S
    cancel_limit_s: float = CANCEL_LIMIT_S
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES

    def __post_init__(self) -> None:
        """Refuse what cannot work; raise ValueError naming the field."""
        if not self.agent:
            raise ValueError("agent must not be empty: it is a level of the topics")
        check_base("prefix", self.prefix)
        limits_s = ["time_limit_s", "online_limit_s", "lease_s", "cancel_limit_s"]
        check_limits(self, limits_s, ["offline_grace_s"], "output_limit_bytes")

    @property
    def patience(self) -> Patience:
        """The limits of one run."""
        return Patience(
            time_limit_s=self.time_limit_s,
            lease_s=self.lease_s,
            offline_grace_s=self.offline_grace_s,
            cancel_limit_s=self.cancel_limit_s,
        )


class _Status(msgspec.Struct):
    """What the agent says of itself."""

    state: Literal["online", "offline"]
    instance: str = ""


_STATUS: Final = msgspec.json.Decoder(_Status)


class _Active:
    """One run that is with the agent, or on its way."""

    def __init__(self) -> None:
        self.inbox: asyncio.Queue[Report | None] = asyncio.Queue(REPORTS_QUEUED_MAX)
        self.received_bytes = 0
        self.fault: str | None = None
        self.query = 0
        self.stop_asked = False
        self.progress_seq = 0
        self.confirmed = False
        self.ended = asyncio.Event()

    def put(self, report: Report | None) -> None:
        """Hand on a report, or None to have the run look at the world again."""
        try:
            self.inbox.put_nowait(report)
        except asyncio.QueueFull:
            if report is not None:
                self.fault = "the agent reports faster than it can be made durable"

    async def next(self, until_s: float) -> Report | None:
        """Return the next report; None for a look at the world and when the time has come."""
        try:
            async with asyncio.timeout_at(until_s):
                return await self.inbox.get()
        except TimeoutError:
            return None


class MqttRunner:
    """Gives runs to one agent over MQTT. `start` subscribes before the first run."""

    def __init__(self, broker: Broker, config: MqttRunnerConfig) -> None:
        self._broker = broker
        self._config = config
        self._base = f"{config.prefix}/agents/{quote(config.agent, safe='')}"
        self._active: dict[str, _Active] = {}
        self._instance: str | None = None

    async def start(self) -> None:
        """Subscribe to the agent's status and reports; from then on they survive reconnects."""
        for topic_filter, callback in self._subscriptions():
            # Not confirmed means: tried again at the next connection.
            with contextlib.suppress(BusUnavailable):
                await self._broker.subscribe(topic_filter, callback)

    async def run(self, request: RunRequest, on_progress: OnProgress) -> Outcome:
        """Hand the run over once the agent answers, follow its reports, return the outcome."""
        if request.run_id in self._active:
            return Failed(f"run {request.run_id!r} is active already")
        active = self._active[request.run_id] = _Active()
        try:
            outcome = await self._run(active, request, on_progress)
            active.confirmed = outcome != Stopped(confirmed=False)
            return outcome
        except asyncio.CancelledError:
            await self._control(request.run_id, {"type": "cancel"})
            raise
        finally:
            del self._active[request.run_id]
            active.ended.set()

    async def cancel(self, run_id: str) -> bool:
        """Ask the agent to stop; its `cancelled`, or any last word, confirms."""
        active = self._active.get(run_id)
        if active is None:
            return True
        active.stop_asked = True
        active.put(None)
        await active.ended.wait()
        return active.confirmed

    async def close(self) -> None:
        """Stop every run and unsubscribe. The connection belongs to whoever made it."""
        await asyncio.gather(*(self.cancel(run_id) for run_id in tuple(self._active)))
        for topic_filter, _ in self._subscriptions():
            with contextlib.suppress(BusUnavailable):
                await self._broker.unsubscribe(topic_filter)

    async def _run(self, active: _Active, request: RunRequest, on_progress: OnProgress) -> Outcome:
        instance = await self._reach(request.run_id, active)
        if not isinstance(instance, str):
            return instance
        try:
            await self._broker.publish(
                self._topic(request.run_id),
                msgspec.json.encode(request),
                expiry_s=max(1, round(self._config.lease_s)),
            )
        except Undeliverable as error:
            return Failed(f"the run cannot be sent: {error}")
        except BusUnavailable as error:
            # It may have arrived without its confirmation: the agent will be asked.
            _log.warning("run %s was sent without confirmation: %s", request.run_id, error)
        return await self._follow(active, request.run_id, instance, on_progress)

    async def _reach(self, run_id: str, active: _Active) -> str | Outcome:
        """Return the agent's instance once a query has gone the whole way, there and back.

        The retained status alone proves nothing: after a suspend it may be as old as the sleep.
        """
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + self._config.online_limit_s
        while loop.time() < give_up_s:
            if active.stop_asked:
                return Stopped(confirmed=True)
            instance = self._instance
            if instance is None:
                await active.next(give_up_s)
                continue
            await self._query(run_id, active)
            answer_by_s = min(loop.time() + ANSWER_LIMIT_S, give_up_s)
            while loop.time() < answer_by_s and not active.stop_asked:
                match await active.next(answer_by_s):
                    case Unknown(query=query) if query == active.query:
                        return instance
        trouble = "is not online" if self._instance is None else "does not answer"
        return Failed(f"the agent {self._config.agent!r} {trouble}")

    async def _follow(
        self, active: _Active, run_id: str, instance: str, on_progress: OnProgress
    ) -> Outcome:
        loop = asyncio.get_running_loop()
        handed_over_after = active.query
        lease = Lease(self._config.patience, instance, loop.time())
        told_to_stop = False
        while True:
            report = await active.next(lease.deadline_s())
            now_s = loop.time()
            lease.present(self._instance, now_s)
            if report is not None:
                lease.heard(now_s)
                last_word = await self._heard(report, active, handed_over_after, on_progress)
                if last_word is not None:
                    return last_word
            outcome = lease.outcome(now_s)
            if active.fault is not None:
                outcome = Failed(active.fault)
            if outcome is not None:
                # Whatever is left of it should not go on behind our back.
                await self._control(run_id, {"type": "cancel"})
                return outcome
            if active.stop_asked and not told_to_stop:
                lease.stopping(now_s)
                told_to_stop = await self._control(run_id, {"type": "cancel"})
            if lease.is_query_due(now_s):
                lease.asked(loop.time(), sent=await self._query(run_id, active))

    async def _heard(
        self, report: Report, active: _Active, handed_over_after: int, on_progress: OnProgress
    ) -> Outcome | None:
        """Return the outcome if this is the agent's last word about the run."""
        match report:
            case Progress(text=text, seq=seq):
                if seq is None or seq > active.progress_seq:
                    active.progress_seq = active.progress_seq if seq is None else seq
                    await undisturbed(on_progress(text))
            case Result(text=text):
                return Completed(text)
            case Error(reason=reason):
                return Failed(reason)
            case Cancelled():
                return Stopped(confirmed=True)
            case Unknown(query=query) if query is not None and query > handed_over_after:
                return Interrupted("the agent knows nothing of the run")
        return None

    def _on_status(self, message: Received) -> None:
        try:
            status = _STATUS.decode(message.payload)
        except (msgspec.DecodeError, RecursionError) as error:
            _log.warning("status of agent %s is not understood: %s", self._config.agent, error)
            return
        self._instance = status.instance if status.state == "online" else None
        for active in self._active.values():
            active.put(None)

    def _on_report(self, message: Received) -> None:
        run_id = unquote(message.topic.removeprefix(f"{self._base}/runs/").removesuffix("/reports"))
        active = self._active.get(run_id)
        if active is None:
            _log.debug("a report about run %s, which is not active", run_id)
            return
        active.received_bytes += len(message.payload)
        report = read_report(message.payload)
        if isinstance(report, str):
            active.fault = f"a report of the agent is not understood: {report}"
        elif active.received_bytes > self._config.output_limit_bytes:
            active.fault = f"the agent wrote more than {self._config.output_limit_bytes} bytes"
        else:
            active.put(report)
            return
        active.put(None)

    async def _query(self, run_id: str, active: _Active) -> bool:
        active.query += 1
        return await self._control(run_id, {"type": "query", "query": active.query})

    async def _control(self, run_id: str, message: dict[str, object]) -> bool:
        """Tell the agent something about a run; return whether the broker has it."""
        try:
            await self._broker.publish(
                f"{self._topic(run_id)}/control",
                msgspec.json.encode(message),
                expiry_s=max(1, round(self._config.lease_s)),
            )
        except (BusUnavailable, Undeliverable) as error:
            _log.info("run %s: cannot tell the agent: %s", run_id, error)
            return False
        return True

    def _topic(self, run_id: str) -> str:
        return f"{self._base}/runs/{quote(run_id, safe='')}"

    def _subscriptions(self) -> tuple[tuple[str, Callable[[Received], None]], ...]:
        return (
            (f"{self._base}/status", self._on_status),
            (f"{self._base}/runs/+/reports", self._on_report),
        )
