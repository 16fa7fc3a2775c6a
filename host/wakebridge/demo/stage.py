"""What stands on the desk: a board, an embedded broker, and the real bridge as a child process."""

import asyncio
import contextlib
import json
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
from amqtt.broker import Broker

from wakebridge.simboard import DeskBoard
from wakebridge.simboard.control import ControlSocket

Line = dict[str, object]

_START_S = 20.0


class StageError(Exception):
    """A part could not be started; the message is a sentence for a person."""


class Stage(msgspec.Struct):
    """The running parts. `board` is None when a real one is used."""

    mqtt_port: int
    http_port: int
    serial_port: str
    board: DeskBoard | None
    bridge: asyncio.subprocess.Process


@contextlib.asynccontextmanager
async def set_up(
    directory: Path,
    serial_port: str | None,
    on_line: Callable[[Line], None],
    control: Path | None = None,
) -> AsyncIterator[Stage]:
    """Start everything in `directory`; each line of the bridge's log goes to `on_line`.

    A board on the desk takes commands on the unix socket `control`. Raises `StageError` when a part
    does not come up.
    """
    async with contextlib.AsyncExitStack() as stack:
        board = None
        if serial_port is None:
            board = await stack.enter_async_context(DeskBoard(directory / "board"))
            serial_port = board.port
            if control is not None:
                await stack.enter_async_context(ControlSocket(board, control))
        mqtt_port, http_port = _free_port(), _free_port()
        await stack.enter_async_context(_broker(mqtt_port))
        path = directory / "wakebridge.toml"
        path.write_text(_config(directory, serial_port, mqtt_port, http_port), encoding="utf-8")
        bridge = await stack.enter_async_context(_bridge(path, on_line))
        yield Stage(mqtt_port, http_port, serial_port, board, bridge)


@contextlib.asynccontextmanager
async def _broker(port: int) -> AsyncIterator[None]:
    """An MQTT broker inside this process: it speaks 3.1.1, which the bridge is told."""
    broker = Broker(
        {
            "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
            "plugins": {
                "amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}
            },
        }
    )
    await broker.start()
    try:
        yield
    finally:
        await broker.shutdown()


@contextlib.asynccontextmanager
async def _bridge(
    config: Path, on_line: Callable[[Line], None]
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The bridge as it runs on a host, with its log as JSON."""
    command = [sys.executable, "-m", "wakebridge", "serve", "--config", str(config)]
    process = await asyncio.create_subprocess_exec(
        *command, "--log-format", "json", stderr=asyncio.subprocess.PIPE
    )
    ready = asyncio.Event()
    said: list[str] = []

    async def read() -> None:
        assert process.stderr is not None
        async for raw in process.stderr:
            line = _parse(raw)
            said.append(str(line.get("message", "")))
            if line.get("message") == "bridge ready":
                ready.set()
            on_line(line)
        ready.set()

    reading = asyncio.create_task(read())
    try:
        try:
            async with asyncio.timeout(_START_S):
                await ready.wait()
        except TimeoutError:
            raise StageError(f"the bridge was not ready within {_START_S:.0f} s") from None
        if process.returncode is not None or "bridge ready" not in said:
            raise StageError(f"the bridge did not start: {said[-1] if said else 'no word of why'}")
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        await reading


def _parse(raw: bytes) -> Line:
    try:
        line = json.loads(raw)
    except ValueError:
        line = {"message": raw.decode("utf-8", "replace").strip()}
    return line if isinstance(line, dict) else {"message": str(line)}


def _config(directory: Path, serial_port: str, mqtt_port: int, http_port: int) -> str:
    argv = [sys.executable, "-m", "wakebridge.demo.agent"]
    return f"""\
config_dir = {json.dumps(str(directory / "agent"))}
state_dir = {json.dumps(str(directory / "state"))}

[board]
port = {json.dumps(serial_port)}

[mqtt]
port = {mqtt_port}
protocol = "3.1.1"

[http]
port = {http_port}

[agent]
runner = "command"

[agent.command]
argv = {json.dumps(argv)}
"""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
