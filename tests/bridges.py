"""The real bridge daemon as a child process, in a scratch directory.

`BridgeProcess` can be killed as a crash would, started again on the same state, and read by the
lines of its log.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp

from brokers import free_port
from owners import WAIT_S, Fired, Missed, Owner
from wakebridge.board.client import BoardClient
from wakebridge.board.serial_port import open_port
from wakebridge.clock import SystemClock
from wakebridge.wake.board_rate import BoardRate

__all__ = [
    "WAIT_S",
    "Answer",
    "BridgeProcess",
    "Ended",
    "Fired",
    "Journal",
    "Line",
    "Missed",
    "Owner",
    "ToolAnswer",
    "asking",
    "toml_of",
]

Line = dict[str, Any]
"""One line of the daemon's log. What is not JSON is under `raw`."""


@dataclass(frozen=True)
class Ended:
    """How a daemon that was to end by itself did so."""

    code: int
    text: str


@dataclass(frozen=True)
class Answer:
    """An HTTP answer."""

    status: int
    body: Any


@dataclass(frozen=True)
class ToolAnswer:
    """What the schedule tool said: its result or its error, and the state of the countdown."""

    is_error: bool
    output: Any

    @property
    def result(self) -> Any:
        assert not self.is_error, self.output
        return self.output["result"]

    @property
    def timer_error(self) -> str:
        assert not self.is_error, self.output
        return str(self.output["timer_error"])

    @property
    def error(self) -> Any:
        assert self.is_error, self.output
        return self.output["error"]


def toml_of(config: Mapping[str, Any], path: tuple[str, ...] = ()) -> str:
    """Return a TOML text of nested mappings; what is None is left out."""
    plain = {k: v for k, v in config.items() if v is not None and not isinstance(v, Mapping)}
    # A JSON string, number, boolean or array of those is one in TOML as well.
    lines = [f"{name} = {json.dumps(value)}" for name, value in plain.items()]
    text = (f"[{'.'.join(path)}]\n" if path else "") + "\n".join(lines) + "\n"
    tables = [(k, v) for k, v in config.items() if isinstance(v, Mapping)]
    return text + "".join(toml_of(table, (*path, name)) for name, table in tables)


class BridgeProcess:
    """`wakebridge serve` in a scratch directory. As a context it is started, and killed at the end.

    `config` may be changed while the daemon does not run.
    """

    def __init__(
        self, directory: Path, *, port: str, mqtt_port: int | None = None, **sections: Any
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.state_dir = directory / "state"
        self.config_dir = directory / "config"
        self.http_port = free_port()
        self.config: dict[str, Any] = {
            "config_dir": str(self.config_dir),
            "state_dir": str(self.state_dir),
            "board": {"port": port},
            "http": {"port": self.http_port},
            "mqtt": None if mqtt_port is None else {"port": mqtt_port},
            **sections,
        }
        self.umask = -1
        """What it is started with; -1: our own."""
        self.program = ["-m", "wakebridge"]
        """The arguments of Python that make it a bridge."""
        self.environment: dict[str, str] = {}
        """What is added to our own environment for it."""
        self.lines: list[Line] = []
        """Everything it has said, in all of its lives."""
        self._began = 0
        self._process: Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._news = asyncio.Condition()
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.kill()
        if self._http is not None:
            await self._http.close()
            self._http = None
        if error is None:
            assert self.faults() == [], self.transcript()

    @property
    def state_file(self) -> Path:
        """Where the routines are kept."""
        return self.config_dir / "routines" / "state.json"

    # -- its life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start it; return when it serves."""
        await self._spawn()
        await self.said("bridge ready")

    async def _spawn(self) -> None:
        assert self._process is None
        path = self.directory / "bridge.toml"
        path.write_text(toml_of(self.config), encoding="utf-8")
        self._began = len(self.lines)
        process = self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, *self.program, "serve"),
            *("--config", str(path), "--log-format", "json"),
            env={**os.environ, **self.environment},
            stdin=asyncio.subprocess.DEVNULL,
            stderr=PIPE,
            umask=self.umask,
            limit=2**20,
        )
        self._reader = asyncio.create_task(self._read(process))

    async def _read(self, process: Process) -> None:
        assert process.stderr is not None
        async for raw in process.stderr:
            text = raw.decode(errors="replace").rstrip("\n")
            try:
                line = json.loads(text)
            except ValueError:
                line = {"raw": text}
            async with self._news:
                self.lines.append(line)
                self._news.notify_all()
        await process.wait()  # or who waits for a last word would not be told that there is none
        async with self._news:
            self._news.notify_all()

    @property
    def pid(self) -> int:
        """The daemon's process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process is not None and self._process.returncode is None

    async def kill(self) -> None:
        """End it as a power cut would: kill -9."""
        if self.running:
            assert self._process is not None
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._ended()
        self._process = None

    async def stop(self) -> int:
        """End it in order with SIGTERM; return its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = await self._ended()
        self._process = None
        return code

    async def died(self) -> int:
        """Wait until it has ended by itself; return its exit code, negative for a signal."""
        code = await self._ended()
        self._process = None
        return code

    async def run_to_end(self) -> Ended:
        """Start it although it must refuse; return how it ended."""
        await self._spawn()
        code = await self._ended()
        self._process = None
        lines = self.lines[self._began :]
        return Ended(code, "\n".join(line["raw"] for line in lines if "raw" in line))

    async def _ended(self) -> int:
        assert self._process is not None
        assert self._reader is not None
        async with asyncio.timeout(WAIT_S):
            code = await self._process.wait()
            await self._reader
        return code

    # -- what it says -----------------------------------------------------------------------------

    def mark(self) -> int:
        """Return a place in the log, for `after`."""
        return len(self.lines)

    async def said(self, message: str, *, after: int | None = None, **fields: Any) -> Line:
        """Return the first line of this life, or after a mark, that says this; wait for it."""
        wanted = {"message": message, **fields}
        found: list[Line] = []

        def look() -> bool:
            found[:] = self.all_said(**wanted, after=self._began if after is None else after)
            return bool(found) or not self.running

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S), self._news:
                await self._news.wait_for(look)
        assert found, f"the bridge has not said {wanted}:\n{self.transcript()}"
        return found[0]

    def transcript(self) -> str:
        """Return what this life has said, for a failing test."""
        return "\n".join(map(str, self.lines[self._began :]))

    def all_said(self, message: str, *, after: int = 0, **fields: Any) -> list[Line]:
        """Return the lines that say this, so far."""
        wanted = {"message": message, **fields}
        return [line for line in self.lines[after:] if wanted.items() <= line.items()]

    def faults(self) -> list[Line]:
        """Return the lines that only a defect can have written."""
        return [
            line
            for line in self.lines
            if "exception" in line or "Traceback" in str(line.get("raw"))
        ]

    # -- HTTP -------------------------------------------------------------------------------------

    async def http(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        """Make one request. Raises `aiohttp.ClientError` when the daemon is not there."""
        if self._http is None:
            # Kept connections would die with each life of the daemon.
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=True),
                timeout=aiohttp.ClientTimeout(total=WAIT_S),
            )
        url = f"http://127.0.0.1:{self.http_port}{path}"
        async with self._http.request(method, url, json=body, headers=headers) as response:
            return Answer(response.status, await response.json())

    async def tool(self, session: str | None = None, **arguments: object) -> ToolAnswer:
        """Call the schedule tool."""
        headers = {} if session is None else {"X-Session-Id": session}
        answer = await self.http("POST", "/api/tools/schedule", {"input": arguments}, **headers)
        assert answer.status == 200, answer
        return ToolAnswer(answer.body["is_error"], json.loads(answer.body["output"]))

    async def routine(self, routine_id: str) -> Any:
        """Return a routine as `list` shows it."""
        listed = (await self.tool(action="list")).result
        return next(each for each in listed if each["id"] == routine_id)

    async def open_session(self, session: str) -> None:
        """Make a conversation known."""
        answer = await self.http("POST", "/api/sessions", {"session_id": session})
        assert answer.status == 200, answer

    async def health(self) -> Any:
        """Return the whole of `/api/health`."""
        return (await self.http("GET", "/api/health")).body

    async def at_rest(self) -> Any:
        """Return the health of a bridge that has nothing left to do: it stays the same."""
        async with asyncio.timeout(WAIT_S):
            before, now = None, await self.health()
            while now != before:
                await asyncio.sleep(0.1)
                before, now = now, await self.health()
            return now

    async def timer(self) -> Any:
        """Return the live countdown as `/api/mcu/timer` reads it."""
        answer = await self.http("GET", "/api/mcu/timer")
        assert answer.status == 200, answer
        return answer.body


class _Unwatched:
    """A watcher of a link who looks at nothing."""

    def hinted(self, event: object) -> None: ...
    def printed(self, text: str) -> None: ...
    def prompted(self, evidence: object) -> None: ...
    def rebooted(self) -> None: ...
    def silent(self, reason: str) -> None: ...
    def lost(self, reason: str) -> None: ...


@contextlib.asynccontextmanager
async def asking(port: str) -> AsyncIterator[BoardClient]:
    """Ask a board that no bridge holds, as another program would."""
    client = BoardClient(
        await open_port(port), SystemClock(), BoardRate(), _Unwatched(), first_id=1
    )
    try:
        await client.hello()
        yield client
    finally:
        client.close()


@dataclass(frozen=True)
class Journal:
    """What the agents of a command runner wrote down; see `integration/agent.py`."""

    path: Path

    @property
    def runner(self) -> dict[str, Any]:
        """The `agent` section that has this bridge run such agents."""
        program = Path(__file__).parent / "integration" / "agent.py"
        argv = [sys.executable, "-I", "-S", str(program), str(self.path)]
        return {"runner": "command", "command": {"argv": argv, "stop_grace_s": 1.0}}

    def runs(self, what: str = "start") -> list[str]:
        """Return the routines whose runs were started, or came to their `end`, in order."""
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        lines = [line.split() for line in text.splitlines()]
        return [words[1] for words in lines if words[0] == what]
