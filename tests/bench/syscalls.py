"""What the bridge asks of the disk, counted or slowed down by strace.

strace runs the bridge and steps aside (`-D`): the bridge stays our own child, and no privilege is
needed. Only the calls that are looked at take longer (`--seccomp-bpf`).
"""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.stage import WAIT_S, Stage, mqtt_stage

_STRACE: Final = ("strace", "-D", "-f", "--seccomp-bpf")
_SYNCS: Final = ("fsync", "fdatasync")
_CALLS: Final = (*_SYNCS, "write", "pwrite64", "writev", "pwritev")

# 1234 1700000000.123456 pwrite64(5</state/schedules.db-wal>, ""..., 4096, 32) = 4096
_LINE: Final = re.compile(r"(\d+) +(\d+\.\d+) (?:<\.\.\. )?(\w+)")
_PATH: Final = re.compile(r"\(\d+<([^>]*)>")
_RESULT: Final = re.compile(r"= (-?\d+)")


@dataclass
class Writes:
    """Counts over the time of a `counting` block, known when the trace has ended."""

    began_s: float
    ended_s: float = 0.0
    fsyncs: int = 0
    calls: int = 0
    bytes: int = 0


@dataclass
class Trace:
    """A bridge whose writes to its state directory are counted."""

    stage: Stage
    counts: list[Writes] = field(default_factory=list)

    @contextlib.contextmanager
    def counting(self) -> Iterator[Writes]:
        """Count what is written while the block runs."""
        counted = Writes(time.time())
        self.counts.append(counted)
        yield counted
        counted.ended_s = time.time()


@contextlib.asynccontextmanager
async def traced(directory: Path) -> AsyncIterator[Trace]:
    """Run a bridge whose writes are counted; the counts are filled in at the end."""
    output = directory / "trace"
    options = ("-y", "-ttt", "-s", "0", "-e", f"trace={','.join(_CALLS)}", "-o", str(output))
    async with mqtt_stage(directory, *_STRACE, *options) as stage:
        trace = Trace(stage)
        yield trace
        stage.bridge.stop()
        text = await _whole(output)
    _count(text, str(stage.bridge.state_dir), trace.counts)


async def _whole(output: Path) -> str:
    """Return a trace once it is complete: strace goes on for a moment after the bridge."""
    async with asyncio.timeout(WAIT_S):
        while True:
            text = await asyncio.to_thread(output.read_text)
            if "+++ exited with 0 +++" in text:
                return text
            await asyncio.sleep(0.05)


def slow_fsyncs(delay_ms: int) -> tuple[str, ...]:
    """Return what to run a bridge under so that every fsync takes longer."""
    calls = ",".join(_SYNCS)
    inject = f"inject={calls}:delay_exit={delay_ms * 1000}"
    return (*_STRACE, "-e", f"trace={calls}", "-e", inject, "-o", "/dev/null")


def _count(text: str, directory: str, counts: list[Writes]) -> None:
    unfinished: dict[str, bool] = {}
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        thread, at_s, call = found.groups()
        path = _PATH.search(line)
        ours = path[1].startswith(directory) if path else unfinished.pop(thread, False)
        if "<unfinished ...>" in line:
            unfinished[thread] = ours
        elif ours and call in _CALLS:
            result = _RESULT.search(line)
            _add(counts, float(at_s), call, int(result[1]) if result else 0)


def _add(counts: list[Writes], at_s: float, call: str, result: int) -> None:
    for counted in counts:
        if counted.began_s <= at_s <= counted.ended_s:
            if call in _SYNCS:
                counted.fsyncs += 1
            else:
                counted.calls += 1
                counted.bytes += max(result, 0)
