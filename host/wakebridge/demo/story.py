"""What the demo asks for, what it sees happen, and whether all of it did."""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import aiohttp
import aiomqtt

from wakebridge.demo.stage import Line, Stage

EVENT_IN_S: Final = 3
ROUTINE_IN_S: Final = 5
GIVE_UP_S: Final = 30.0

_SKILL: Final = "demo"
_SESSION: Final = "demo-conversation"

# The steps in the order in which a person expects them; each is ticked off when it is seen.
STEPS: Final = (
    "event accepted and durable",
    "routine accepted and durable",
    "countdown armed",
    "wake line pulsed",
    "wake event with source 4",
    "event fired",
    "routine queued",
    "routine running",
    "routine completed",
)


class Timeline:
    """Prints what happens as it happens, and remembers which steps were seen."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._began_s = time.monotonic()
        self._changed = asyncio.Event()
        self._online = asyncio.Event()
        self.seen: set[str] = set()
        self.over = False
        """Whether the story is told, or can go on no further; the parts are taken down after it."""

    def tell(self, text: str, step: str | None = None) -> None:
        """Print one line; `step` is ticked off."""
        self._show(f"{time.monotonic() - self._began_s:7.3f} s  {text}")
        if step is not None:
            self.seen.add(step)
            self._changed.set()

    @property
    def missing(self) -> list[str]:
        """The steps that have not been seen, in order."""
        return [step for step in STEPS if step not in self.seen]

    def bridge_online(self) -> None:
        """The bridge says on MQTT that it takes requests."""
        self._online.set()

    async def until_online(self) -> None:
        """Return when the bridge takes requests, or when the time is up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GIVE_UP_S):
                await self._online.wait()

    def end(self) -> None:
        """Wait for nothing any more."""
        self.over = True
        self._online.set()
        self._changed.set()

    async def until_complete(self) -> None:
        """Return when every step was seen, the time is up, or the story can go on no further."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GIVE_UP_S):
                while self.missing and not self.over:
                    await self._changed.wait()
                    self._changed.clear()

    def bridge_said(self, line: Line) -> None:
        """Retell one line of the bridge's log, if it belongs to the story."""
        if self.over:
            return
        match line:
            case {"message": "countdown", "state": "armed"}:
                left = f"{float(str(line['remaining_ms'])) / 1000:.3f} s left"
                self.tell(
                    f"countdown armed: {line['leg']} leg, token {line['token']}, {left}",
                    "countdown armed",
                )
            case {"message": "board event", "source": 4}:
                cursor = f"cursor ({line['boot_id']}, {line['seq']})"
                self.tell(f"wake event, source 4 (rtc_timer), {cursor}", "wake event with source 4")
            case {"message": "fired"}:
                self.tell(f"event fired, {line['late_ms']} ms after it was due")
            case {"message": "routine", "status": "queued" | "running" | "completed" as status}:
                self.tell(f"routine {line['id']} {status}", f"routine {status}")
            case {"level": "warning" | "error"}:
                self.tell(f"bridge: {line['message']}")


async def play(stage: Stage, timeline: Timeline) -> None:
    """Ask for an event over MQTT and a routine over HTTP, and watch until all has happened."""
    async with aiomqtt.Client("127.0.0.1", stage.mqtt_port) as client, asyncio.TaskGroup() as group:
        await client.subscribe("wakebridge/status", qos=1)
        await client.subscribe(f"wakebridge/owners/{_SKILL}/#", qos=1)
        watching = [
            group.create_task(_hear(client, timeline)),
            group.create_task(_notice_the_end(stage, timeline)),
        ]
        if stage.board is not None:
            watching.append(group.create_task(_watch_wake_line(stage, timeline)))
        else:
            timeline.seen.add("wake line pulsed")  # a real pin is not ours to see
        await timeline.until_online()
        await _ask_for_event(client, timeline)
        try:
            await _ask_for_routine(stage, timeline)
            await timeline.until_complete()
            if not timeline.over:
                await _show_result(stage, timeline)
        except aiohttp.ClientError as error:
            timeline.tell(f"the bridge does not answer: {error}")
        for task in watching:
            task.cancel()
    timeline.end()


async def _notice_the_end(stage: Stage, timeline: Timeline) -> None:
    """Say that the bridge has ended, which it should not while the story is told."""
    code = await stage.bridge.wait()
    timeline.tell(f"the bridge has ended with {code}")
    timeline.end()


async def _ask_for_event(client: aiomqtt.Client, timeline: Timeline) -> None:
    due = datetime.now(UTC) + timedelta(seconds=EVENT_IN_S)
    body = {"id": "tea", "event": f"{_SKILL}.tea", "at": due.isoformat(), "data": {"cup": 1}}
    message = {"data": body, "context": {"skill_id": _SKILL}}
    timeline.tell(f"asking over MQTT for the event {body['event']} at {due:%H:%M:%S.%f}"[:-3])
    topic = f"wakebridge/owners/{_SKILL}/request/schedule"
    await client.publish(topic, json.dumps(message), qos=1)


async def _ask_for_routine(stage: Stage, timeline: Timeline) -> None:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{stage.http_port}") as http:
        await http.post("/api/sessions", json={"session_id": _SESSION})
        timeline.tell(f"asking over HTTP for a routine in {ROUTINE_IN_S} s")
        call = {
            "input": {
                "action": "create",
                "task": "check the shipment",
                "delay_s": ROUTINE_IN_S,
            },
            "session_id": _SESSION,
        }
        async with http.post("/api/tools/schedule", json=call) as response:
            answer = await response.json()
    output = json.loads(answer["output"])
    if answer["is_error"]:
        timeline.tell(f"the routine was refused: {output['error']['reason']}")
        return
    confirmed = "its wake-up is confirmed" if not output["timer_error"] else output["timer_error"]
    timeline.tell(
        f"routine {output['result']['id']} accepted and durable; {confirmed}",
        "routine accepted and durable",
    )


async def _hear(client: aiomqtt.Client, timeline: Timeline) -> None:
    async for message in client.messages:
        topic = str(message.topic)
        if topic == "wakebridge/status":
            if message.payload == b"online":
                timeline.bridge_online()
            continue
        payload = json.loads(bytes(message.payload or b"null"))
        if "/answer/" in topic and payload["data"].get("ok"):
            due = payload["data"]["next"]
            timeline.tell(
                f"event accepted and durable, due {due}",
                "event accepted and durable",
            )
        elif "/answer/" in topic:
            timeline.tell(f"the event was refused: {payload['data']['reason']}")
        elif "/event/" in topic:
            timeline.tell(
                f"event {payload['type']} arrived at its owner: {payload['data']}",
                "event fired",
            )


async def _watch_wake_line(stage: Stage, timeline: Timeline) -> None:
    assert stage.board is not None
    async for change in stage.board.wake_pulses():
        if change.level:
            timeline.tell("wake line pulsed", "wake line pulsed")


async def _show_result(stage: Stage, timeline: Timeline) -> None:
    """Show what the agent answered, from the conversation's routine list."""
    call = {"input": {"action": "list"}}
    async with (
        aiohttp.ClientSession(f"http://127.0.0.1:{stage.http_port}") as http,
        http.post("/api/tools/schedule", json=call) as response,
    ):
        answer = await response.json()
    for routine in json.loads(answer["output"])["result"]:
        if routine["latest_result"]:
            timeline.tell(f"routine {routine['id']} says: {routine['latest_result']}")
