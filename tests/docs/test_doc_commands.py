"""The commands of the documents, run as they stand there, and what they print."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bridges import BridgeProcess
from brokers import MosquittoFactory, free_port, mosquitto
from documents import DOCS, PAGES, Block, blocks, fits
from wakebridge.simboard import DeskBoard

__all__ = ["mosquitto"]

pytestmark = pytest.mark.timeout(90)

BIN = Path(sys.executable).parent
END = "\x1e"
"""Printed between the blocks of a page."""

HTTP_PORT = 8377
MQTT_PORT = 1883
"""What the documents have, and a reader too; here others may be using them."""


@dataclass(frozen=True)
class Reader:
    """Somebody who follows a page: a directory, a configuration, programs that find the parts."""

    directory: Path
    config: Path
    http_port: int
    mqtt_port: int

    @property
    def environment(self) -> dict[str, str]:
        home = self.directory / "home"
        home.mkdir(exist_ok=True)
        for program in ("mosquitto_pub", "mosquitto_sub", "mosquitto_rr"):
            (home / program).write_text(f"-p {self.mqtt_port}\n")
        (home / ".curlrc").write_text(
            f'connect-to = "127.0.0.1:{HTTP_PORT}:127.0.0.1:{self.http_port}"\n'
        )
        return {
            **os.environ,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "WAKEBRIDGE_CONFIG": str(self.config),
            "XDG_CONFIG_HOME": str(home),
            "CURL_HOME": str(home),
        }

    async def run(self, *command: str) -> str:
        """Run a program; return what it prints on both streams."""
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=self.directory,
            env=self.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(60):
                printed, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return printed.decode()

    async def follow(self, page: Path) -> None:
        """Do what the page says, and compare what it shows."""
        shell = [block for block in blocks(page) if block.runs and block.language == "sh"]
        if shell:
            script = "".join(f"{block.text}\nprintf '{END}'\n" for block in shell)
            printed = (await self.run("bash", "-c", script)).split(END)
            for block, text in zip(shell, printed, strict=False):
                check(block, text)
        for block in blocks(page):
            if block.runs and block.language == "python":
                text = block.text.replace(f"port={MQTT_PORT}", f"port={self.mqtt_port}")
                (self.directory / "example.py").write_text(text)
                check(block, await self.run(sys.executable, "example.py"))


def check(block: Block, printed: str) -> None:
    assert block.printed is not None, f"what does this print?\n{block.text}"
    if not fits(block.printed, printed):
        raise AssertionError(f"{block.text}\nprints\n{printed}\ninstead of\n{block.printed}")


def agent_of(page: Path, directory: Path) -> list[str]:
    """Return the agent that a page has its reader save, else the one of the demo."""
    programs = [block for block in blocks(page) if block.info == "python"]
    if not programs:
        return [sys.executable, "-m", "wakebridge.demo.agent"]
    (directory / "agent.py").write_text(programs[0].text)
    return [sys.executable, str(directory / "agent.py")]


RUN_BY_A_READER = [
    page
    for page in PAGES
    if any(block.runs for block in blocks(page)) and page.parent.name != "tutorial"
]


@pytest.mark.parametrize("page", RUN_BY_A_READER, ids=lambda page: str(page.relative_to(DOCS)))
async def test_a_page_is_followed(page: Path, mosquitto: MosquittoFactory, tmp_path: Path) -> None:
    broker = mosquitto()
    async with DeskBoard(tmp_path / "board") as board:
        bridge = BridgeProcess(
            tmp_path / "bridge",
            port=board.port,
            mqtt_port=broker.port,
            agent={"runner": "command", "command": {"argv": agent_of(page, tmp_path)}},
        )
        async with bridge:
            await bridge.said("countdown")
            reader = Reader(
                tmp_path, bridge.directory / "bridge.toml", bridge.http_port, broker.port
            )
            await reader.follow(page)


@contextlib.asynccontextmanager
async def make_run(directory: Path) -> AsyncIterator[Path]:
    """Do what `make run` does, in another directory; yield the configuration when it serves."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "wakebridge.demo", "--serve"),
        cwd=directory,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            while b"countdown state=idle" not in (line := await process.stdout.readline()):
                assert line, "make run has ended"
        reading = asyncio.create_task(process.stdout.read())
        yield directory / ".run" / "wakebridge.toml"
    finally:
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(30):
            await process.wait()
            await reading


async def test_the_tutorial_is_followed_beside_make_run(tmp_path: Path) -> None:
    async with make_run(tmp_path) as config:
        reader = Reader(tmp_path, config, free_port(), free_port())
        await reader.follow(DOCS / "tutorial" / "first-wake.md")
