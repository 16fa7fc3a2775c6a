"""An agent for the command runner that notes every request, and its reader `Notes`.

`noting_agent.py NOTES`: does what the task says. `wait PATH` says so as its partial result and goes
on when somebody opens the FIFO at PATH, `fail` and `die` do that, `schedule PORT TASK` creates a
schedule in its own session as an agent with tools does, anything else is done at once.
"""

import json
import os
import signal
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Notes:
    """What the agents of one bridge have noted, and the FIFO at which some of them wait."""

    directory: Path

    @property
    def path(self) -> Path:
        return self.directory / "notes"

    @property
    def runner(self) -> dict[str, Any]:
        """The `agent` section that has a bridge run such agents."""
        argv = [sys.executable, "-I", "-S", __file__, str(self.path)]
        return {"runner": "command", "command": {"argv": argv, "stop_grace_s": 1.0}}

    def gate(self, name: str = "go") -> str:
        """Return a new FIFO; a task `wait <it>` ends when it is opened."""
        path = self.directory / name
        os.mkfifo(path)
        return str(path)

    def open(self, gate: str) -> None:
        """Let the agent that waits at this FIFO go on."""
        Path(gate).write_bytes(b"")

    def all(self, what: str = "start") -> list[dict[str, Any]]:
        """Return the requests that agents began with, or came to the `end` of, in order."""
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        lines = [json.loads(line) for line in text.splitlines()]
        return [line["request"] for line in lines if line["what"] == what]

    def tasks(self, what: str = "start") -> list[str]:
        """Return their tasks only."""
        return [request["task"] for request in self.all(what)]


def schedule(port: str, task: str, session_id: str) -> str:
    """Call the tool over HTTP; return its output."""
    call = {"input": {"action": "create", "task": task, "delay_s": 600}, "session_id": session_id}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/tools/schedule", json.dumps(call).encode()
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return str(json.load(answer)["output"])


def note(path: str, what: str, request: dict[str, Any]) -> None:
    """Append one line in one write, so that no two agents can mix theirs."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, json.dumps({"what": what, "request": request}).encode() + b"\n")
    finally:
        os.close(descriptor)


def say(**message: str) -> None:
    print(json.dumps(message), flush=True)


def main() -> None:
    notes, request = sys.argv[1], json.loads(sys.stdin.readline())
    note(notes, "start", request)
    verb, _, argument = request["task"].partition(" ")
    if verb == "wait":
        say(type="progress", text="half of it")
        Path(argument).read_bytes()
    elif verb == "fail":
        say(type="error", reason="no such shipment")
        return
    elif verb == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    result = f"done: {request['task']}"
    if verb == "schedule":
        port, _, task = argument.partition(" ")
        result = schedule(port, task, request["session_id"])
    note(notes, "end", request)
    say(type="result", text=result)


if __name__ == "__main__":
    main()
