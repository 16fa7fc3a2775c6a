"""`make fuzz`: every target for a bounded time, then the corpus again with what is new.

`fuzz_all.py SECONDS [TARGET...]`. An input that shows a fault becomes a file of the corpus at once,
named `crash-...`: it fails in `make test` until the fault is gone, and stays as its regression.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "fixtures")]

from fuzz.targets import CORPUS, TARGETS  # noqa: E402 - found through the path that is set above

# One input that takes longer is a fault by itself.
INPUT_LIMIT_S = 10
RSS_LIMIT_MB = 1024
AT_ONCE = 2


def fuzz(name: str, seconds: int) -> str:
    """Run one target; return a line that says how it went."""
    kept = CORPUS / name
    with tempfile.TemporaryDirectory() as directory:
        found, minimal = Path(directory) / "found", Path(directory) / "minimal"
        found.mkdir()
        minimal.mkdir()
        ran = _run(
            name,
            f"-max_total_time={seconds}",
            f"-timeout={INPUT_LIMIT_S}",
            f"-rss_limit_mb={RSS_LIMIT_MB}",
            f"-artifact_prefix={kept}/",
            str(found),
            str(kept),
        )
        if ran.returncode:
            fault = re.search(r"=== Uncaught Python exception: ===\n(.*)", ran.stderr)
            return f"{name}: FAULT {fault[1] if fault else ran.stderr[-400:]}"
        _run(name, "-merge=1", "-use_counters=0", str(minimal), str(kept), str(found))
        for each in kept.iterdir():
            if not each.name.startswith(("crash-", "timeout-", "oom-")):
                each.unlink()
        for each in minimal.iterdir():
            shutil.copy(each, kept / each.name)
    inputs = re.search(r"Done (\d+) runs", ran.stderr)
    edges = re.findall(r"cov: (\d+)", ran.stderr)
    return (
        f"{name}: {inputs[1] if inputs else '?'} inputs, {edges[-1] if edges else '?'} branches,"
        f" {len(list(kept.iterdir()))} kept"
    )


def _run(name: str, *options: str) -> "subprocess.CompletedProcess[str]":
    command = (sys.executable, str(HERE / "run_target.py"), name, *options)
    with tempfile.TemporaryDirectory() as directory:
        return subprocess.run(
            command, cwd=directory, capture_output=True, text=True, errors="replace"
        )


def main() -> int:
    seconds = int(sys.argv[1])
    names = sys.argv[2:] or list(TARGETS)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        lines = []
        for line in pool.map(lambda name: fuzz(name, seconds), names):
            print(line, flush=True)
            lines.append(line)
    return int(any("FAULT" in line for line in lines))


if __name__ == "__main__":
    sys.exit(main())
