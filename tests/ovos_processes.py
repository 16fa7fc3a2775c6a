"""Real OVOS processes for tests: a message bus on a loopback port, and skills on it."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp

from brokers import free_port
from ovos_envs import Vintage

START_TIMEOUT_S: Final = 30.0
ANSWER_TIMEOUT_S: Final = 10.0
_SKILL_HOST: Final = Path(__file__).parent / "ovos" / "skill_host.py"


def _environment(home: Path) -> dict[str, str]:
    """Return an environment in which OVOS keeps all its files in `home`."""
    directories = {
        f"XDG_{kind}_HOME": str(home / kind.lower())
        for kind in ("CONFIG", "DATA", "CACHE", "STATE")
    }
    return {"PATH": os.environ["PATH"], "HOME": str(home), **directories}


def _spawn(
    command: tuple[str, ...], home: Path, log_name: str, *descriptors: int
) -> subprocess.Popen[bytes]:
    with (home / log_name).open("ab") as log:
        return subprocess.Popen(
            command,
            env=_environment(home),
            cwd=home,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=descriptors,
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()


class OvosBus:
    """One `ovos-messagebus` that can be stopped, killed and started again on its port."""

    def __init__(self, vintage: Vintage, home: Path) -> None:
        self.vintage = vintage
        self.home = home
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        config = home / "config" / "mycroft"
        config.mkdir(parents=True)
        websocket = {"host": "127.0.0.1", "port": self.port, "route": "/core", "ssl": False}
        (config / "mycroft.conf").write_text(json.dumps({"websocket": websocket, "lang": "en-us"}))

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/core"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the process and return when it takes connections. Blocks."""
        command = (str(self.vintage.python()), "-m", "ovos_messagebus")
        self._process = _spawn(command, self.home, "bus.log")
        give_up_at = time.monotonic() + START_TIMEOUT_S
        while not _listens(self.port):
            assert self._process.poll() is None, (self.home / "bus.log").read_text()
            assert time.monotonic() < give_up_at, "the bus does not listen"
            time.sleep(0.02)

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        if self._process is not None:
            _end(self._process)
            self._process = None

    def pause(self) -> None:
        """Let the process hang: it takes bytes, and does nothing with them."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)  # the signal alone is on its way for a moment

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Listener:
    """A plain websocket on the bus: what it hears is in the order of the wire."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._frames: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.heard: list[dict[str, Any]] = []

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession()
        self._socket = await self._session.ws_connect(self._url, max_msg_size=0)
        self._reading = asyncio.get_running_loop().create_task(self._read())
        await self.next("connected")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._reading.cancel()
        await self._socket.close()
        await self._session.close()

    async def _read(self) -> None:
        tcp = self._socket.get_extra_info("socket")
        async for frame in self._socket:
            # Without it the bus would hold the next frame back for 40 ms.
            tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            try:
                message = json.loads(frame.data)
            except (ValueError, RecursionError):
                continue  # the bus relays back what no reader of JSON takes
            self.heard.append(message)
            self._frames.put_nowait(message)

    async def say(
        self, message_type: str, data: object = None, context: Mapping[str, object] | None = None
    ) -> None:
        message = {"type": message_type, "data": {} if data is None else data}
        await self.say_text(json.dumps(message | {"context": context or {}}))

    async def say_text(self, text: str) -> None:
        await self._socket.send_str(text)

    async def next(self, *types: str, timeout_s: float = ANSWER_TIMEOUT_S) -> dict[str, Any]:
        """Return the next message of one of these types, skipping all others before it."""
        async with asyncio.timeout(timeout_s):
            while True:
                message = await self._frames.get()
                if message["type"] in types:
                    return message

    async def ask(
        self,
        message_type: str,
        data: object = None,
        context: Mapping[str, object] | None = None,
        answer_type: str | None = None,
    ) -> dict[str, Any]:
        """Send a request and return the whole answer."""
        await self.say(message_type, data, context)
        return await self.next(answer_type or f"{message_type}.response")

    def heard_types(self) -> list[str]:
        return [message["type"] for message in self.heard]


class Skill:
    """A real OVOSSkill in a process of the bus's vintage."""

    def __init__(self, bus: OvosBus, skill_id: str = "demo.skill") -> None:
        self._bus = bus
        self._skill_id = skill_id
        self._told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.fires: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        reading, telling = os.pipe()
        host = (str(self._bus.vintage.python()), str(_SKILL_HOST))
        command = (*host, str(self._bus.port), self._skill_id, str(telling))
        self._process = _spawn(command, self._bus.home, "skill.log", telling)
        os.close(telling)
        self._reading = asyncio.get_running_loop().create_task(self._read(reading))
        async with asyncio.timeout(START_TIMEOUT_S):
            assert await self._told.get() == {"ready": True}
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _end(self._process)
        await self._reading

    async def _read(self, descriptor: int) -> None:
        async with _lines(descriptor) as reader:
            while line := await reader.readline():
                told = json.loads(line)
                (self.fires if "fired" in told else self._told).put_nowait(told)

    async def call(self, method: str, **arguments: object) -> Any:
        """Call a method of the skill and return what it returned; raises what it raised."""
        assert self._process.stdin is not None
        order = json.dumps({"call": method, "arguments": arguments})
        self._process.stdin.write(order.encode() + b"\n")
        self._process.stdin.flush()
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            told = await self._told.get()
        if "raised" in told:
            raise SkillRaised(told["raised"])
        return told["returned"]

    async def fired(self, timeout_s: float = ANSWER_TIMEOUT_S) -> dict[str, Any]:
        """Return the next event that reached a handler of the skill."""
        async with asyncio.timeout(timeout_s):
            return await self.fires.get()


class SkillRaised(Exception):  # noqa: N818 - it reports what the skill did
    """A method of the skill raised."""


@contextlib.asynccontextmanager
async def _lines(descriptor: int) -> AsyncIterator[asyncio.StreamReader]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    try:
        yield reader
    finally:
        transport.close()
