"""An agent for the command runner that writes down how it was started: `witness_agent.py FILE`."""

import json
import os
import sys
from pathlib import Path


def main() -> None:
    path = Path(sys.argv[1])
    line = sys.stdin.readline()
    seen = {
        "argv": sys.argv,
        "environment": dict(os.environ),
        "directory": str(Path.cwd()),
        "request": json.loads(line),
        "parent": Path(f"/proc/{os.getppid()}/cmdline").read_bytes().decode().split("\0")[:-1],
        "open_files": len(list(Path("/proc/self/fd").iterdir())),
    }
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(seen) + "\n")
    print(json.dumps({"type": "result", "text": "seen"}), flush=True)


if __name__ == "__main__":
    main()
