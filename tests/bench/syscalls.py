"""What a process writes to a directory, as strace sees it."""

import asyncio
import contextlib
import re
import signal
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CALLS: Final = "fsync,fdatasync,write,pwrite64,writev,pwritev,sync_file_range"
_ATTACH_TIMEOUT_S: Final = 10.0

# 1234 pwrite64(5</state/schedules.db-wal>, "..."..., 4096, 32) = 4096
_LINE: Final = re.compile(r"^\d+\s+(?:<\.\.\. )?(\w+)[( ].*?(?:= (-?\d+))?$")
_PATH: Final = re.compile(r"\(\d+<([^>]*)>")


@dataclass
class Writes:
    """Counts over the time that was traced; complete when the block has ended."""

    fsyncs: int = 0
    calls: int = 0
    bytes: int = 0


@contextlib.asynccontextmanager
async def traced_writes(pid: int, directory: Path) -> AsyncIterator[Writes]:
    """Count the writes of a process to files in a directory while the block runs."""
    counted = Writes()
    with tempfile.NamedTemporaryFile(prefix="strace-") as output:
        strace = await asyncio.create_subprocess_exec(
            *("strace", "-f", "-y", "-s", "0", "-e", f"trace={_CALLS}"),
            *("-o", output.name, "-p", str(pid)),
            stderr=asyncio.subprocess.PIPE,
        )
        assert strace.stderr is not None
        async with asyncio.timeout(_ATTACH_TIMEOUT_S):
            said = await strace.stderr.readline()
        assert b"attached" in said, said
        try:
            yield counted
        finally:
            strace.send_signal(signal.SIGINT)
            await strace.wait()
        _count(output.read().decode(), str(directory), counted)


def _count(text: str, directory: str, counted: Writes) -> None:
    unfinished: dict[str, bool] = {}
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        thread, call = line.split(maxsplit=1)[0], found[1]
        path = _PATH.search(line)
        if path is not None:
            ours = path[1].startswith(directory)
            if "<unfinished ...>" in line:
                unfinished[thread] = ours
                continue
        else:
            ours = unfinished.pop(thread, False)
        if not ours:
            continue
        if call in {"fsync", "fdatasync"}:
            counted.fsyncs += 1
        else:
            counted.calls += 1
            counted.bytes += max(int(found[2] or 0), 0)
