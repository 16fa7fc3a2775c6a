"""A scheduler in memory behind the port that bus adapters use, for tests of the adapters alone.

It keeps records without judging them and never fires by itself: a test says what is emitted.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from wakebridge.bus import refusal

NEXT = "2031-03-29T07:30:00+01:00"


@dataclass(frozen=True)
class Asked:
    """One request as the adapter handed it over."""

    verb: str
    body: object
    context: Mapping[str, object] | None
    route: str
    identity: str | None


@dataclass
class FakeScheduler:
    """Answers requests from a dictionary, and remembers what it was told."""

    asked: list[Asked] = field(default_factory=list)
    records: dict[tuple[str, str], Mapping[str, object]] = field(default_factory=dict)
    is_up: asyncio.Event = field(default_factory=asyncio.Event)
    is_down: asyncio.Event = field(default_factory=asyncio.Event)
    is_asked: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """While clear, requests wait."""
    synced: int = 0

    def __post_init__(self) -> None:
        self.gate.set()

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
        self.asked.append(Asked(verb, body, context, route, identity))
        self.is_asked.set()
        await self.gate.wait()
        owner = None if context is None else context.get("skill_id")
        if not isinstance(owner, str):
            return refusal("invalid_record", "the context has no skill_id")
        if identity is not None and owner != identity:
            return refusal("skill_id_mismatch", "the context names another owner")
        if not isinstance(body, dict):
            return refusal("invalid_record", "data must be an object")
        return self._carry_out(verb, body, owner)

    def _carry_out(self, verb: str, body: Mapping[str, object], owner: str) -> dict[str, object]:
        if verb == "list":
            pairs = [self._pair(key) for key in self.records if key[0] == owner]
            return {"ok": True, "schedules": pairs}
        record_id = body.get("id")
        if not isinstance(record_id, str):
            return refusal("invalid_record", "id must be a string")
        key = (owner, record_id)
        existed = key in self.records
        if verb == "cancel":
            self.records.pop(key, None)
            return {"ok": True, "existed": existed}
        if verb == "get":
            pair = self._pair(key) if existed else {"record": None, "state": None}
            return {"ok": True, "existed": existed, **pair}
        if body.get("at") == "nonsense":
            return refusal("bad_instant", "at is not an instant")
        self.records[key] = body
        return {"ok": True, "id": record_id, "skill_id": owner, "next": NEXT, "replaced": existed}

    def _pair(self, key: tuple[str, str]) -> dict[str, object]:
        state: dict[str, object] = {
            "next": NEXT,
            "last_fired": None,
            "missed": [],
            "remaining": None,
        }
        return {"record": self.records[key], "state": state}

    def bus_up(self, name: str) -> None:
        self.is_down.clear()
        self.is_up.set()

    def bus_down(self, name: str) -> None:
        self.is_up.clear()
        self.is_down.set()

    def replay_now(self, name: str) -> None:
        pass

    def clock_synced(self) -> None:
        self.synced += 1
