"""The serial port itself: exclusive, non-blocking, bounded."""

import asyncio
import fcntl
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
import serial

from firmware_board import PtyBoard
from wakebridge.board.errors import LinkLost, PortBusy, PortMissing, PortUnavailable
from wakebridge.board.port_search import find_port, holders_of
from wakebridge.board.serial_port import BACKLOG_MAX, open_port

TIOCGEXCL = 0x80045440

HOLD = """
import serial, sys
line = serial.Serial(sys.argv[1], 115200, exclusive=True)
print("held", flush=True)
sys.stdin.read()
"""


async def test_the_port_is_ours_alone(pty_board: PtyBoard, link: Path) -> None:
    port = await open_port(str(link))
    with pytest.raises(serial.SerialException):
        serial.Serial(str(link), 115_200, exclusive=True)
    with pytest.raises(PortBusy):
        await open_port(str(link))
    port.close()
    (await open_port(str(link))).close()


async def test_a_pseudo_terminal_is_not_locked_beyond_the_life_of_its_user(
    pty_board: PtyBoard, link: Path
) -> None:
    """TIOCEXCL would stay after a `kill -9`, and nobody but root could open the port again."""
    port = await open_port(str(link))
    flag = fcntl.ioctl(port.line.fileno(), TIOCGEXCL, bytes(4))
    port.close()
    assert flag == bytes(4)


async def test_whoever_holds_the_port_is_named(pty_board: PtyBoard, link: Path) -> None:
    holder = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        HOLD,
        str(link),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"held\n"
    try:
        with pytest.raises(PortBusy, match=rf"{link} is held by .*python.*\(pid {holder.pid}\)"):
            await open_port(str(link))
    finally:
        await holder.communicate(b"")
    assert holders_of(str(link)) == []


async def test_whoever_locked_the_port_is_named_and_not_who_else_has_it_open(
    pty_board: PtyBoard, link: Path
) -> None:
    """As the desk board, which has the other side of its own port open."""
    bystander = await asyncio.create_subprocess_exec(
        "sh", "-c", 'exec 3<>"$0"; echo open; read line', str(link), stdin=PIPE, stdout=PIPE
    )
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLD, str(link), stdin=PIPE, stdout=PIPE
    )
    assert bystander.stdout is not None
    assert holder.stdout is not None
    try:
        assert await bystander.stdout.readline() == b"open\n"
        assert len(holders_of(str(link))) == 1
        assert await holder.stdout.readline() == b"held\n"
        (named,) = holders_of(str(link))
        assert named.endswith(f"(pid {holder.pid})")
    finally:
        await holder.communicate(b"")
        await bystander.communicate(b"\n")


@pytest.mark.parametrize("named", ["/dev/serial/by-id/none", "/nowhere"])
def test_a_port_that_is_not_there_is_missing(named: str) -> None:
    with pytest.raises(PortMissing, match=named):
        find_port(named)


def test_the_only_candidate_is_taken_and_none_is_missing(tmp_path: Path) -> None:
    pattern = f"{tmp_path}/usb-*"
    with pytest.raises(PortMissing):
        find_port(None, pattern)
    (tmp_path / "usb-one").touch()
    assert find_port(None, pattern) == f"{tmp_path}/usb-one"


async def test_what_is_no_terminal_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PortUnavailable, match="file"):
        await open_port(str(tmp_path / "file"))


async def test_1200_baud_is_refused(pty_board: PtyBoard, link: Path) -> None:
    with pytest.raises(PortUnavailable, match="bootloader"):
        await open_port(str(link), 1200)
    port = await open_port(str(link))
    with pytest.raises(ValueError, match="bootloader"):
        port.set_baudrate(1200)
    port.set_baudrate(9600)
    port.restore()
    assert port.line.baudrate == 115_200
    port.close()


async def test_the_loss_is_told_once(pty_board: PtyBoard, link: Path) -> None:
    port = await open_port(str(link))
    data: list[bytes] = []
    lost: list[str] = []
    port.attach(data.append, lost.append)
    pty_board.send(b"hello")
    await asyncio.sleep(0.05)
    pty_board.vanish()
    await asyncio.sleep(0.05)
    assert b"".join(data) == b"hello"
    assert len(lost) == 1
    assert str(link) in lost[0]
    with pytest.raises(LinkLost):
        port.write(b"x")
    with pytest.raises(LinkLost):
        await port.drained()
    port.close()
    assert len(lost) == 1


async def test_a_port_that_takes_nothing_is_given_up_without_blocking(
    tmp_path: Path,
) -> None:
    """Nobody reads the other end: the kernel's buffer fills, then the bounded backlog."""
    master, slave = os.openpty()
    port = await open_port(os.ttyname(slave))
    lost: list[str] = []
    port.attach(lambda data: None, lost.append)
    taken = 0
    for _ in range(10_000):
        try:
            port.write(b"x" * 100)
        except LinkLost:
            break
        taken += 100
    assert "does not take any bytes" in lost[0]
    assert taken < 65_536 + BACKLOG_MAX
    port.close()
    os.close(master)
    os.close(slave)


async def test_what_the_port_does_not_take_at_once_follows_in_order() -> None:
    master, slave = os.openpty()
    port = await open_port(os.ttyname(slave))
    port.attach(lambda data: None, lambda reason: None)
    sent = b""
    while port.backlog == 0:
        piece = bytes((len(sent) // 500 % 256,)) * 500
        port.write(piece)
        sent += piece
    received = b""
    while len(received) < len(sent):
        received += os.read(master, 4096)
        await asyncio.sleep(0)
    await port.drained()
    assert received == sent
    port.close()
    os.close(master)
    os.close(slave)
