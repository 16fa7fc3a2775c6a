"""What is asked for while things break, and what is owed for it."""

import asyncio
import contextlib
import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import aiomqtt

from crash.world import World

ANSWER_S = 8.0
FAR = timedelta(minutes=1)


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


@dataclass
class Promise:
    """One accepted schedule: its occurrences and how it wants to be late."""

    due: set[datetime]
    grace_s: float
    misfire: str


@dataclass
class Book:
    """Everything that was accepted, and what is not known to have been."""

    accepted: dict[str, Promise] = field(default_factory=dict)
    unanswered: set[str] = field(default_factory=set)
    refused: int = 0
    cancelled: dict[str, float] = field(default_factory=dict)
    """When the answer to a cancel came, on the monotonic clock."""
    routines: dict[str, datetime] = field(default_factory=dict)
    routines_refused: int = 0
    routines_unanswered: int = 0

    @property
    def occurrences(self) -> set[tuple[str, datetime]]:
        return {
            (schedule_id, due)
            for schedule_id, promise in self.accepted.items()
            if schedule_id not in self.cancelled
            for due in promise.due
        }


class Load:
    """Asks all the time, from its own seed, until it is told to stop."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._chance = random.Random(seed)
        self._numbers = 0
        self._asking: set[asyncio.Task[None]] = set()
        self.book = Book()

    async def run(self) -> None:
        """Ask for ever; cancel to stop, then `finish`."""
        while True:
            self._spawn(self._event())
            if self._numbers % 4 == 0:
                self._spawn(self._routine())
            if self._numbers % 7 == 0:
                self._spawn(self._change_of_mind())
            await asyncio.sleep(self._chance.uniform(0.1, 0.4))

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def finish(self) -> None:
        """Wait for what was asked."""
        await asyncio.gather(*self._asking)

    def _event_body(self) -> tuple[str, dict[str, Any]]:
        chance = self._chance
        self._numbers += 1
        form = chance.choice(("at", "in", "every", "local"))
        body: dict[str, Any] = {"data": {"n": self._numbers}}
        soon_s = chance.uniform(0.2, 3.0)
        now = datetime.now(UTC)
        if form == "at":
            body["at"] = (now + timedelta(seconds=soon_s)).isoformat()
        elif form == "in":
            body["in"] = {"seconds": soon_s}
        elif form == "every":
            body |= {"every": {"seconds": chance.choice((0.3, 0.7))}, "count": 3}
        else:
            local = now + timedelta(seconds=soon_s + 1)
            body |= {"local": {"time": f"{local:%H:%M:%S}", "zone": "UTC"}, "count": 1}
        if chance.random() < 0.3:
            body |= {"grace_s": chance.choice((0, 0.5)), "misfire": chance.choice(("late", "skip"))}
        return f"{form}{self._numbers}", body

    async def _event(self) -> None:
        schedule_id, body = self._event_body()
        answer = await self._ask("schedule", schedule_id, body)
        if answer is None:
            self.book.unanswered.add(schedule_id)
        elif not answer["ok"]:
            assert answer["error"] == "internal", answer
            self.book.refused += 1
        else:
            first = instant(answer["next"])
            count = body.get("count", 1)
            period_s = body.get("every", {}).get("seconds", 0)
            due = {first + timedelta(seconds=n * period_s) for n in range(count)}
            if first - datetime.now(UTC) > FAR:
                return  # accepted so late that its time of day was over: it is for tomorrow
            promise = Promise(due, body.get("grace_s", 60), body.get("misfire", "late"))
            self.book.accepted[schedule_id] = promise

    async def _change_of_mind(self) -> None:
        """Have an event accepted and cancel it long before it is due."""
        self._numbers += 1
        schedule_id = f"gone{self._numbers}"
        answer = await self._ask("schedule", schedule_id, {"in": {"seconds": 12}})
        if answer is None or not answer["ok"]:
            self.book.unanswered.add(schedule_id)
            return
        due = instant(answer["next"])
        self.book.accepted[schedule_id] = Promise({due}, 60, "late")
        answer = await self._ask("cancel", schedule_id, {})
        if answer is None:
            self.book.unanswered.add(schedule_id)
            del self.book.accepted[schedule_id]
        elif answer["ok"] and (due - datetime.now(UTC)).total_seconds() > 0.5:
            self.book.cancelled[schedule_id] = time.monotonic()

    async def _ask(self, verb: str, schedule_id: str, body: dict[str, Any]) -> Any:
        named = {"id": schedule_id, **body}
        if verb == "schedule":
            named["event"] = f"demo.{schedule_id}"
        try:
            return await self._world.owner.ask(verb, named, timeout_s=ANSWER_S)
        except (TimeoutError, aiomqtt.MqttError):
            return None

    async def _routine(self) -> None:
        delay_s = self._chance.choice((1, 1, 2))
        task = "work 0.1" if self._world.runner == "command" else '{"do": "answer"}'
        try:
            answer = await self._world.bridge.tool(
                "chat", action="create", task=task, delay_s=delay_s
            )
        except (aiohttp.ClientError, TimeoutError, OSError):
            self.book.routines_unanswered += 1
            return
        if answer.is_error:
            self.book.routines_refused += 1
        else:
            self.book.routines[str(answer.result["id"])] = instant(answer.result["next_run"])


async def stopped(task: "asyncio.Task[None]") -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
