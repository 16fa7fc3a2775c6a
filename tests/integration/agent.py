"""An agent for the command runner: notes in a file what it starts and what it finishes.

Usage: agent.py JOURNAL. The task's text says how: `work SECONDS` takes that long, `wait PATH` says
so as its partial result and goes on when the FIFO at PATH is opened, anything else is done at once.
"""

import json
import os
import sys
import time
from pathlib import Path


def note(journal: str, what: str, request: dict[str, str]) -> None:
    """Append one line in one write, so that no two agents can mix theirs."""
    line = f"{what} {request['routine_id']} {request['run_id']} {request['due']}\n"
    descriptor = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def say(**message: str) -> None:
    print(json.dumps(message), flush=True)


def main() -> None:
    journal = sys.argv[1]
    request = json.loads(sys.stdin.readline())
    note(journal, "start", request)
    verb, _, argument = request["task"].partition(" ")
    if verb == "work":
        time.sleep(float(argument))
    elif verb == "wait":
        say(type="progress", text="half of it")
        Path(argument).read_bytes()
    note(journal, "end", request)
    say(type="result", text=f"done: {request['task']}")


if __name__ == "__main__":
    main()
