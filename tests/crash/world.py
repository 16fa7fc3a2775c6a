"""Everything that can be hit: the daemon, a broker, a board, an agent, a disk, and the links.

All of them are real processes. The disk is a small tmpfs where this user may mount one; elsewhere
`has_disk` is False and the faults of a disk are left out.
"""

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Self

from bridges import BridgeProcess, Journal, Owner
from brokers import Mosquitto, MosquittoFactory, Relay
from wakebridge.store.errors import StateUnreadable
from wakebridge.store.routines_json import RoutinesJson
from wakebridge.store.schedules_sqlite import SchedulesSqlite

DISK_BYTES = 16 * 1024 * 1024
START_LIMIT_S = 30.0
_FIXTURES = Path(__file__).parents[1] / "fixtures"


class Board:
    """`python -m wakebridge.simboard` and its control socket."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._control = directory / "control"
        self._process: Process | None = None
        self.port = ""

    async def start(self) -> None:
        self._directory.mkdir(exist_ok=True)
        process = self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "wakebridge.simboard", "--dir", str(self._directory / "board")),
            *("--control", str(self._control)),
            stdout=PIPE,
        )
        assert process.stdout is not None
        async with asyncio.timeout(START_LIMIT_S):
            self.port = (await process.stdout.readline()).decode().strip()
        assert self.port, "the desk board did not start"

    async def kill(self) -> None:
        """End it as a power cut does: the interpreter with it."""
        process, self._process = self._process, None
        if process is None:
            return
        children = children_of(process.pid)
        process.kill()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        await process.wait()

    async def kill_firmware(self) -> None:
        """End the interpreter only: the desk starts it again as a watchdog would."""
        if self._process is not None:
            for child in children_of(self._process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)

    async def command(self, line: str) -> None:
        """Give one command; a board that is dead hears nothing."""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(START_LIMIT_S):
                reader, writer = await asyncio.open_unix_connection(str(self._control))
                writer.write(line.encode() + b"\n")
                await reader.readline()
                writer.close()


class Agent:
    """An agent over MQTT, or none where the command runner starts its own."""

    def __init__(self, broker_port: int) -> None:
        self._port = broker_port
        self._process: Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self.taken: list[str] = []
        """The runs that were taken, in all lives, in order."""

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(_FIXTURES / "mqtt_agent.py"), str(self._port)), stdout=PIPE
        )
        self._reader = asyncio.create_task(self._read(self._process))

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            word, _, run_id = line.decode().strip().partition(" ")
            if word == "taken":
                self.taken.append(run_id)

    async def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            assert self._reader is not None
            await self._reader


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [int(each) for each in found]


class Disk:
    """Where the state is; filled and made read-only where it is a file system of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_real = False

    def mount(self) -> None:
        self.path.mkdir(mode=0o700, exist_ok=True)
        options = f"size={DISK_BYTES},mode=0700"
        command = ("mount", "-t", "tmpfs", "-o", options, "wakebridge-crash", str(self.path))
        self.is_real = os.geteuid() == 0 and _succeeds(command)

    def unmount(self) -> None:
        if self.is_real:
            self.writable()
            _succeeds(("umount", "-l", str(self.path)))

    def fill(self) -> None:
        """Leave no byte free."""
        with (self.path / "ballast").open("ab", buffering=0) as ballast:
            for size in (1 << 16, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while True:
                        ballast.write(bytes(size))

    def empty(self) -> None:
        (self.path / "ballast").unlink(missing_ok=True)

    def read_only(self) -> bool:
        """Remount; return whether that was possible, which it is not while a file is written."""
        return _succeeds(("mount", "-o", "remount,ro", str(self.path)))

    def writable(self) -> None:
        _succeeds(("mount", "-o", f"remount,rw,size={DISK_BYTES}", str(self.path)))


def _succeeds(command: tuple[str, ...]) -> bool:
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EPERM, errno.EACCES):
            return False
        raise


class World:
    """One of each, connected. As a context it stands, and nothing of it is left afterwards."""

    def __init__(self, directory: Path, *, runner: str) -> None:
        self.runner = runner
        self._directory = directory
        self.disk = Disk(directory / "disk")
        self.board = Board(directory / "desk")
        self._brokers = MosquittoFactory(directory)
        self.journal = Journal(directory / "journal")
        self.unreadable: list[str] = []
        """What was wrong with the state on disk after a kill, which nothing may be."""
        self.refused_starts = 0

    async def __aenter__(self) -> Self:
        self.disk.mount()
        self.broker: Mosquitto = self._brokers(
            persistence=True, more="autosave_on_changes true\nautosave_interval 1"
        )
        await self.board.start()
        self.relay = await Relay(self.broker.port).__aenter__()
        self.agent = Agent(self.broker.port)
        over_mqtt = {"agent": "agent-1", "lease_s": 4.0, "offline_grace_s": 1.0}
        mqtt_section = {"runner": "mqtt", "mqtt": over_mqtt}
        self.bridge = BridgeProcess(
            self._directory / "bridge",
            port=self.board.port,
            mqtt_port=self.relay.port,
            agent=self.journal.runner if self.runner == "command" else mqtt_section,
        )
        self.bridge.state_dir = self.disk.path / "state"
        self.bridge.config_dir = self.disk.path / "config"
        self.bridge.config["state_dir"] = str(self.bridge.state_dir)
        self.bridge.config["config_dir"] = str(self.bridge.config_dir)
        if self.runner == "mqtt":
            await self.agent.start()
        await self.start_bridge()
        self.owner = await Owner(self.broker.port).__aenter__()
        await self.bridge.open_session("chat")
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(AttributeError):
            await self.owner.__aexit__()
        await self.bridge.kill()
        with contextlib.suppress(AttributeError):
            await self.bridge._http.close()  # type: ignore[union-attr]
        await self.agent.kill()
        await self.board.kill()
        await self.relay.__aexit__()
        self._brokers.stop()
        self.disk.unmount()

    async def start_bridge(self) -> None:
        """Start the daemon as a service manager does: again, until it serves."""
        give_up_s = time.monotonic() + START_LIMIT_S
        while not await self.try_start_bridge():
            assert time.monotonic() < give_up_s, self.bridge.transcript()
            await asyncio.sleep(0.2)

    async def try_start_bridge(self) -> bool:
        """Start the daemon; return whether it serves. One that refuses says why and ends."""
        try:
            await self.bridge.start()
        except AssertionError:
            await self.bridge.kill()
            self.refused_starts += 1
            return False
        return True

    async def kill_bridge(self) -> None:
        await self.bridge.kill()
        self._look_at_state()

    def _look_at_state(self) -> None:
        """Load a copy of what the dead daemon left: it must be the old state or the new one."""
        copy = self._directory / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.disk.path, copy, ignore=shutil.ignore_patterns("ballast"))
        try:
            RoutinesJson(copy / "config").load()
            store = SchedulesSqlite(copy / "state" / "schedules.db")
            try:
                store.load(time.time_ns())
            finally:
                store.close()
        except StateUnreadable as error:
            self.unreadable.append(str(error))
