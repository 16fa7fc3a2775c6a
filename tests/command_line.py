"""The real command line in a process of its own, as a person types it."""

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WAKEBRIDGE = (sys.executable, "-m", "wakebridge")
WIDTH = 80
TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Said:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return the decoded output of a command that went well."""
        assert self.code == 0, self
        return json.loads(self.out)

    @property
    def reason(self) -> str:
        """Return the error in one line, wherever it was wrapped."""
        return " ".join(self.err.split())

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    def check(self) -> "Said":
        """Assert what holds for everything that people read: it fits, and is no traceback."""
        assert "Traceback" not in self.err, self.err
        for line in (self.out + self.err).splitlines():
            # A word that is too long, such as a path, stands alone so that it can be copied.
            assert len(line) <= WIDTH or " " not in line.strip(), line
        return self


@dataclass(frozen=True)
class CommandLine:
    """`wakebridge` with the configuration of one bridge."""

    config: Path

    async def __call__(self, *words: str, code: int = 0) -> Said:
        """Run a command, check its code and the form of what it printed, and return that."""
        said = await run("--config", str(self.config), *words)
        assert said.code == code, said
        return said if "--json" in words else said.check()

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        """Start a command that goes on by itself."""
        return await asyncio.create_subprocess_exec(
            *WAKEBRIDGE,
            *("--config", str(self.config)),
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )


async def run(*words: str) -> Said:
    """Run `wakebridge` with these words to its end."""
    process = await asyncio.create_subprocess_exec(
        *WAKEBRIDGE,
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    return await _finish(process)


async def _finish(process: asyncio.subprocess.Process) -> Said:
    async with asyncio.timeout(TIMEOUT_S):
        out, err = await process.communicate()
    assert process.returncode is not None
    return Said(process.returncode, out.decode(), err.decode())
