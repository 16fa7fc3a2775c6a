"""The real mpremote against a serial port, and the small programs that desk boards run in tests."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

MPREMOTE = str(Path(sys.executable).with_name("mpremote"))

ECHO_MAIN = """\
import os, sys, select
print("main runs")
turns = 0
poller = select.poll()
poller.register(sys.stdin, select.POLLIN)
one = bytearray(1)
while True:
    if poller.poll(1000):
        sys.stdin.buffer.readinto(one)
        turns += 1
        sys.stdout.buffer.write(one)
"""
ECHO_BOOT = 'import os\nprint("boot runs,", os.getenv("WAKEBOARD_RESET_CAUSE"))\n'


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended; `output` has both its streams."""

    code: int
    output: str


def echo_firmware(directory: Path) -> Path:
    """Write a firmware that echoes what it reads, and return its directory."""
    directory.mkdir()
    (directory / "main.py").write_text(ECHO_MAIN)
    (directory / "boot.py").write_text(ECHO_BOOT)
    return directory


async def mpremote(port: str, *arguments: str, timeout_s: float = 20) -> Ran:
    """Run mpremote on `port`; on a pseudo-terminal its own time limits do not work."""
    process = await asyncio.create_subprocess_exec(
        MPREMOTE,
        "connect",
        port,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(timeout_s):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        output, _ = await process.communicate()
        raise AssertionError(f"mpremote {arguments} hangs; so far: {output!r}") from None
    assert process.returncode is not None
    return Ran(process.returncode, output.decode())
