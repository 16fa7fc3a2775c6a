"""What owners, agents and people can send: instants, requests, OVOS messages, reports, TOML."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from wakebridge.adapters.mqtt.envelope import MalformedRequest, parse_request
from wakebridge.adapters.ovos.legacy import LegacyVerbs
from wakebridge.bus import answer_context
from wakebridge.config import ConfigError, parse_config
from wakebridge.engine import EventEngine, Request
from wakebridge.mqttbus.topics import BadLevel, Topics, decode_level, encode_level
from wakebridge.ovosbus import message as ovos
from wakebridge.runner.messages import read_report
from wakebridge.schedule.errors import BadInstant
from wakebridge.schedule.instants import MAX_NS, MIN_NS, Now, format_instant, parse_instant
from wakebridge.schedule.stored import decode_stored, encode_stored

NOW = Now(1_800_000_000_000_000_000, 1_000_000_000)
CODES = {
    *("invalid_record", "bad_instant", "bad_recurrence", "bad_event", "payload_too_large"),
    *("skill_id_mismatch", "internal"),
}


def instant(data: bytes) -> None:
    """A text is an instant, which can be written and read again, or is refused in a sentence."""
    text = data.decode("utf-8", "surrogateescape")  # JSON can bring lone surrogates
    try:
        instant_ns = parse_instant(text)
    except BadInstant as error:
        refused = str(error)
    else:
        assert MIN_NS <= instant_ns <= MAX_NS
        assert parse_instant(format_instant(instant_ns)) == instant_ns
        return
    assert 0 < len(refused) < 300


def request(data: bytes) -> None:
    """A message becomes one answer of the closed list, and what is accepted can be stored.

    The first byte chooses the verb; what was accepted is asked for once more.
    """
    try:
        asked = parse_request(data[1:])
    except MalformedRequest:
        return
    engine = EventEngine(("admin",))
    verb = ("schedule", "cancel", "get", "list", "update", "other")[(data[0] if data else 0) % 6]
    for each in (verb, "get", "list", verb):
        context_json = None if asked.context is None else msgspec.json.encode(asked.context)
        decision = engine.decide(
            Request(each, asked.data, asked.context, context_json, "mqtt", None), NOW
        )
        assert decision.answer["ok"] is True or decision.answer["error"] in CODES
        msgspec.json.encode({"data": decision.answer, "context": answer_context(asked.context)})
        if decision.change is not None:
            engine.apply(decision.change)
            schedule = decision.change.schedule
            if schedule is not None and not schedule.record.ephemeral:
                again = decode_stored(encode_stored(schedule.record))
                assert again.rule == schedule.record.rule
    _let_time_pass(engine)


def _let_time_pass(engine: EventEngine) -> None:
    """Evaluate what is due soon and much later: no record may stall or break the engine (E35)."""
    for after_s in (1, 86_400, 40_000_000, 4_000_000_000):
        now = Now(NOW.wall_ns + after_s * 10**9, NOW.boot_ns + after_s * 10**9)
        for schedule in engine.due(now):
            evaluation = engine.evaluate(schedule, now)
            if evaluation is not None:
                assert evaluation.fire is None or evaluation.fire.due_ns <= now.wall_ns + 10**9


def topic_level(data: bytes) -> None:
    """A level names one owner, and only in one way; where an answer goes stays below the owner."""
    text = data.decode("utf-8", "replace").replace("\0", "").replace("/", "")
    try:
        name = decode_level(text)
    except BadLevel:
        return
    assert encode_level(name) == text
    topics = Topics("base")
    assert topics.parse_request(topics.request(name, "get")).level == text
    answer = topics.answer(text, "get")
    assert topics.may_answer_to(text, answer)
    for level in answer.split("/"):
        assert not set(level) & set("+#")


class _Scheduler:
    """The engine as a scheduler, without a store."""

    def __init__(self) -> None:
        self.engine = EventEngine()

    async def request(
        self,
        verb: str,
        body: object,
        context: Mapping[str, object] | None,
        route: str,
        identity: str | None,
        *,
        legacy_event: str | None = None,
    ) -> dict[str, object]:
        try:
            context_json = None if context is None else msgspec.json.encode(context)
        except (UnicodeEncodeError, RecursionError):
            return {"ok": False, "error": "invalid_record", "reason": "the context"}
        decision = self.engine.decide(
            Request(verb, body, context, context_json, route, identity, legacy_event), NOW
        )
        if decision.change is not None:
            self.engine.apply(decision.change)
        return decision.answer

    def bus_up(self, name: str) -> None: ...
    def bus_down(self, name: str) -> None: ...
    def replay_now(self, name: str) -> None: ...
    def clock_synced(self) -> None: ...


class _Clock:
    def now(self) -> Now:
        return NOW


def ovos_message(data: bytes) -> None:
    """A frame of the bus is a message, whose answer can be written, or is none."""
    read = ovos.decode(data.decode("utf-8", "replace"))
    if read is None:
        return
    scheduler = _Scheduler()
    legacy = LegacyVerbs(scheduler, _Clock(), "ovos")
    with asyncio.Runner() as runner:
        if read.type in legacy.types:
            answer = runner.run(legacy.handle(read))
            if answer is not None:
                _written(*answer, answer_context(read.context))
        for verb in ("schedule", "list"):
            said = runner.run(scheduler.request(verb, read.data, read.context, "ovos", None))
            _written(read.type, said, answer_context(read.context))


def _written(message_type: str, data: Mapping[str, Any], context: Mapping[str, object]) -> None:
    try:
        frame = ovos.encode(message_type, data, context)
    except ovos.NotEncodable:
        return
    json.loads(frame)


def report(data: bytes) -> None:
    """A line of an agent is a report or a reason."""
    said = read_report(data)
    assert not isinstance(said, str) or said


def config(data: bytes) -> None:
    """A configuration is one or is refused with the place."""
    try:
        parse_config(data.decode("utf-8", "replace"), "the file")
    except ConfigError as error:
        refused = str(error)
    else:
        return
    assert refused.startswith("the file")
