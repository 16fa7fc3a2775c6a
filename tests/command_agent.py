"""An agent as a program, for the command runner: does what its task says.

The task is a JSON object `{"do": ...}`; what each word does is a function below.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def echo(request: dict[str, object], task: dict[str, object]) -> None:
    say(type="progress", text="one")
    say(type="progress", text="two", seq=2, mood="good")
    say(type="result", text=json.dumps([request, sys.argv[1:], dict(os.environ), str(Path.cwd())]))


def error(request: dict[str, object], task: dict[str, object]) -> None:
    say(type="error", reason="no such shipment")


def leave(request: dict[str, object], task: dict[str, object]) -> None:
    sys.exit("Traceback: something broke")


def write(request: dict[str, object], task: dict[str, object]) -> None:
    print(task["text"], flush=True)
    time.sleep(60)


def flood(request: dict[str, object], task: dict[str, object]) -> None:
    while True:
        say(type="progress", text="x" * 100)


def one_line(request: dict[str, object], task: dict[str, object]) -> None:
    while True:
        sys.stdout.write("x" * 65_536)


def sleep(request: dict[str, object], task: dict[str, object]) -> None:
    say(type="progress", text=str(os.getpid()))
    time.sleep(60)


def stubborn(request: dict[str, object], task: dict[str, object]) -> None:
    """Ignore TERM; leave a child, a grandchild in a session of its own, and a daemon."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pids = [os.getpid()]
    pids += [subprocess.Popen(("sleep", "60")).pid]
    pids += [subprocess.Popen(("sleep", "60"), start_new_session=True).pid]
    read, write_end = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(write_end, str(os.getpid()).encode())
            time.sleep(60)
        os._exit(0)
    pids.append(int(os.read(read, 20)))
    say(type="progress", text=" ".join(map(str, pids)))
    if task.get("then") == "result":
        say(type="result", text="done")
        os._exit(0)
    time.sleep(60)


def tidy(request: dict[str, object], task: dict[str, object]) -> None:
    """Save something on TERM, as a well-behaved program does."""

    def save(*_: object) -> None:
        Path(str(task["mark"])).touch()
        sys.exit(0)

    signal.signal(signal.SIGTERM, save)
    say(type="progress", text="working")
    time.sleep(60)


def late_result(request: dict[str, object], task: dict[str, object]) -> None:
    def finish(*_: object) -> None:
        # Not print: the signal may come while the progress is being flushed.
        os.write(1, b'{"type": "result", "text": "finished all the same"}\n')
        os._exit(0)

    signal.signal(signal.SIGTERM, finish)
    say(type="progress", text="working")
    time.sleep(60)


def linger(request: dict[str, object], task: dict[str, object]) -> None:
    say(type="result", text="done")
    time.sleep(60)


if __name__ == "__main__":
    received = json.loads(sys.stdin.readline())
    assert sys.stdin.read() == ""
    wanted = json.loads(received["task"])
    globals()[wanted["do"]](received, wanted)
