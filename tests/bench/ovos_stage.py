"""The bridge, or one of the OVOS schedulers, on a real OVOS bus, with a component on it."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench.stage import OWNER, WAIT_S, Answer, Heard
from ovos_envs import Vintage
from ovos_processes import OvosBus
from plain_bridge import PlainBridge

_SCHEDULER: Final = Path(__file__).parent / "peers" / "ovos_scheduler.py"
_UP: Final = "bench.scheduler.up"


class OvosComponent(Heard):
    """A plain websocket on the bus that asks and hears as a skill does."""

    def __init__(self) -> None:
        super().__init__()
        self.up = asyncio.Event()
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._numbers = itertools.count(1)

    @contextlib.asynccontextmanager
    async def connected(self, url: str) -> AsyncIterator["OvosComponent"]:
        """Be on the bus."""
        async with aiohttp.ClientSession() as session, session.ws_connect(url) as self._socket:
            reading = asyncio.create_task(self._read())
            try:
                yield self
            finally:
                reading.cancel()

    async def _read(self) -> None:
        tcp = self._socket.get_extra_info("socket")
        async for frame in self._socket:
            # Without it the bus would hold the next frame back for 40 ms.
            tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            message = json.loads(frame.data)
            kind: str = message["type"]
            if kind in {"ovos.scheduler.ready", _UP}:
                self.up.set()
            elif kind.endswith(".response"):
                answered = self._answers.pop(message["context"].get("number", 0), None)
                if answered is not None:
                    answered.set_result(message["data"])
            elif kind.startswith(f"{OWNER}."):
                self.take(message["context"]["scheduler"])
            elif kind.startswith(f"{OWNER}:"):
                self.take(message["data"])

    async def say(self, kind: str, data: object, context: Mapping[str, object]) -> None:
        await self._socket.send_str(json.dumps({"type": kind, "data": data, "context": context}))

    async def ask(self, verb: str, data: object) -> Answer:
        """Make a request of OVOS-SCHEDULER-1 and return its answer's data."""
        number = next(self._numbers)
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answers[number] = answered
        context = {"skill_id": OWNER, "source": OWNER, "number": number}
        await self.say(f"ovos.scheduler.{verb}", data, context)
        async with asyncio.timeout(WAIT_S):
            return await answered


class LegacyComponent(OvosComponent):
    """The same in words of the older protocol, which answers nothing."""

    async def ask(self, verb: str, data: object) -> Answer:
        """Schedule a one-shot `at`; the answer is made up."""
        assert verb == "schedule"
        assert isinstance(data, dict)
        due: str = data["at"]
        event: dict[str, Any] = {
            "event": f"{OWNER}:{data['id']}",
            "time": datetime.fromisoformat(due).astimezone(UTC).timestamp(),
            "data": {"id": data["id"], "due": due},
        }
        await self.say("mycroft.scheduler.schedule_event", event, {"skill_id": OWNER})
        return {"ok": True, "next": due}


@dataclass
class OvosScheduler:
    """One of the OVOS schedulers as a process, keeping its files with its bus."""

    bus: OvosBus
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        directories = {
            f"XDG_{kind}_HOME": str(self.bus.home / kind.lower())
            for kind in ("CONFIG", "DATA", "CACHE", "STATE")
        }
        with (self.bus.home / "scheduler.log").open("ab") as log:
            self._process = subprocess.Popen(
                (str(self.bus.vintage.python()), str(_SCHEDULER), str(self.bus.port)),
                env={"PATH": os.environ["PATH"], "HOME": str(self.bus.home), **directories},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(WAIT_S)
            self._process = None

    stop = kill


@dataclass
class OvosStage:
    """A scheduler on a bus, and one component."""

    scheduler: PlainBridge | OvosScheduler
    component: OvosComponent


@contextlib.asynccontextmanager
async def ovos_stage(
    directory: Path, vintage: Vintage, component: OvosComponent, *, ours: bool
) -> AsyncIterator[OvosStage]:
    """Run a bus and on it the bridge, or the scheduler of the vintage; yield once it serves."""
    bus = OvosBus(vintage, directory / "bus")
    scheduler: PlainBridge | OvosScheduler = OvosScheduler(bus)
    if ours:
        scheduler = PlainBridge(directory / "bridge", {"ovos": {"enabled": True, "port": bus.port}})
    bus.start()
    try:
        async with component.connected(bus.url):
            scheduler.start()
            async with asyncio.timeout(WAIT_S):
                await component.up.wait()
            yield OvosStage(scheduler, component)
    finally:
        scheduler.stop()
        bus.kill()
