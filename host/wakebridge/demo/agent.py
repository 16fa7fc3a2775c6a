"""A small agent for the demo: one task on standard input, one result on standard output.

It speaks the protocol of the command runner: the request as one line of JSON, answers as lines.
"""

import json
import sys


def main() -> None:
    """Do the one task that was asked for."""
    request = json.loads(sys.stdin.readline())
    say("progress", "looking at it")
    say("result", f"done: {request['task']}")


def say(kind: str, text: str) -> None:
    """Answer one line."""
    sys.stdout.write(json.dumps({"type": kind, "text": text}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
