"""Agents as processes, one kind for each runner, each with the part of the configuration it needs.

They are the agents of the runners' own tests: a program, an HTTP server, a client of a broker.
"""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

from bridges import WAIT_S
from brokers import free_port

HERE = Path(__file__).parent
TOKEN = "the-agents-token"


class AgentProcess:
    """An agent that can be killed, paused and started again."""

    def __init__(self, *argv: str) -> None:
        self._argv = argv
        self._process: Process | None = None

    async def start(self) -> str:
        """Start it; return its first line, which says that it is ready."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, *self._argv, stdout=PIPE
        )
        return await self.line()

    async def line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        async with asyncio.timeout(WAIT_S):
            return (await self._process.stdout.readline()).decode().strip()

    async def until(self, beginning: str) -> str:
        """Return the first line that begins like this."""
        while not (line := await self.line()).startswith(beginning):
            assert line, f"the agent ended before {beginning!r}"
        return line

    async def kill(self) -> None:
        """End it as a crash does; that it has ended already is all right."""
        process, self._process = self._process, None
        if process is not None:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    def pause(self) -> None:
        """Let it hear and say nothing, as a process that hangs."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)


def command_agent() -> dict[str, Any]:
    """Return the configuration of a runner whose program is started for each run."""
    argv = [sys.executable, "-I", "-S", str(HERE / "command_agent.py")]
    return {"runner": "command", "command": {"argv": argv, "stop_grace_s": 0.5}}


def http_agent(port: int, bridge_port: int, token_file: Path) -> dict[str, Any]:
    """Return the configuration of a runner for the agent at that port."""
    token_file.write_text(TOKEN)
    return {
        "runner": "http",
        "http": {
            "url": f"http://127.0.0.1:{port}/runs",
            "callback_url": f"http://127.0.0.1:{bridge_port}/api/runs",
            "token_file": str(token_file),
            "cancel_limit_s": 0.5,
        },
    }


def mqtt_agent() -> dict[str, Any]:
    """Return the configuration of a runner for the agent on the bridge's own broker."""
    patience = {"lease_s": 1.0, "offline_grace_s": 0.2, "cancel_limit_s": 0.5}
    return {"runner": "mqtt", "mqtt": {"agent": "agent-1", **patience}}


def task(do: str, **more: object) -> str:
    """Return a task as these agents understand them."""
    return json.dumps({"do": do, **more})


__all__ = ["AgentProcess", "command_agent", "free_port", "http_agent", "mqtt_agent", "task"]
