"""Lending the port to a technician who uses the real mpremote (issue 5)."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from firmware_board import PtyBoard
from supervised import S, Supervised
from wakebridge.board.errors import LinkError
from wakebridge.board.lend import LendEnd
from wakebridge.board.lending import FirmwareAfter
from wakebridge.board.serial_port import SerialOpener
from wakebridge.simboard import DeskBoard

Supervise = Callable[[str | Path], Supervised]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[DeskBoard]:
    async with DeskBoard(tmp_path / "desk") as board:
        yield board


async def mpremote(url: str, *words: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "mpremote",
        "connect",
        url,
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(30):
        output, _ = await process.communicate()
    return process.returncode, output.decode()


async def test_a_technician_works_with_mpremote_and_the_bridge_takes_over_again(
    desk: DeskBoard, supervise: Supervise, tmp_path: Path
) -> None:
    supervised = supervise(desk.port)
    await supervised.up()
    due_ns = supervised.clock.now().wall_ns + 600 * S
    await supervised.bring_to(due_ns)
    lending = await supervised.supervisor.lend(60)
    assert supervised.downs == ["the port is lent to a technician"]
    note = tmp_path / "note.txt"
    note.write_text("from a technician\n" * 200)
    assert await mpremote(lending.url, "resume", "exec", "print(6 * 7)") == (0, "42\n")
    code, listing = await mpremote(lending.url, "exec", "print(1)", "+", "fs", "ls")
    assert code == 0
    assert "main.py" in listing
    code, output = await mpremote(lending.url, "fs", "cp", str(note), ":note.txt")
    assert code == 0, output
    assert (desk.flash / "note.txt").read_text() == note.read_text()
    async with asyncio.timeout(20):
        outcome = await lending.outcome()
    assert outcome.report.end is LendEnd.LEFT
    assert outcome.report.sessions == 3
    assert outcome.report.broke_in
    assert outcome.firmware is FirmwareAfter.RESTARTED
    await supervised.up(2)
    await supervised.bring_to(due_ns)
    assert await supervised.remaining_ms() > 500_000


async def test_mpremote_on_the_port_itself_is_turned_away_and_disturbs_nothing(
    desk: DeskBoard, supervise: Supervise
) -> None:
    """A12 r2."""
    supervised = supervise(desk.port)
    client = await supervised.up()
    async with asyncio.timeout(5):
        code, output = await mpremote(desk.port, "resume", "exec", "print(1)")
    assert code != 0
    assert desk.port in output
    await client.ping()
    assert supervised.downs == []
    assert client.counters().retries == 0


async def test_the_time_limit_ends_a_technician_who_stays_in_a_raw_prompt(
    desk: DeskBoard, supervise: Supervise
) -> None:
    supervised = supervise(desk.port)
    await supervised.up()
    lending = await supervised.supervisor.lend(2)
    working = asyncio.create_task(
        mpremote(lending.url, "resume", "exec", "import time; time.sleep(60)")
    )
    async with asyncio.timeout(30):
        outcome = await lending.outcome()
    assert outcome.report.end is LendEnd.LIMIT
    code, _ = await working
    assert code != 0
    assert outcome.firmware is FirmwareAfter.RESTARTED
    await supervised.up(2)


async def exchange(lending_port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", lending_port)


async def read_until(reader: asyncio.StreamReader, expected: bytes) -> None:
    data = b""
    async with asyncio.timeout(5):
        while expected not in data:
            piece = await reader.read(1000)
            assert piece, data
            data += piece


async def test_one_technician_at_a_time_and_nobody_from_outside(
    pty_board: PtyBoard, link: Path, supervise: Supervise
) -> None:
    supervised = supervise(link)
    await supervised.up()
    lending = await supervised.supervisor.lend(30)
    assert lending.url == f"rfc2217://127.0.0.1:{lending.tcp_port}"
    _, first = await exchange(lending.tcp_port)
    await asyncio.sleep(0.1)
    reader, second = await exchange(lending.tcp_port)
    assert await reader.read() == b""
    with pytest.raises(LinkError, match="lent already"):
        await supervised.supervisor.lend(30)
    for writer in (first, second):
        writer.close()
        await writer.wait_closed()
    lending.take_back()
    outcome = await lending.outcome()
    assert outcome.report.end is LendEnd.TAKEN_BACK
    assert outcome.report.sessions == 1
    assert not outcome.report.broke_in
    assert outcome.firmware is FirmwareAfter.RUNNING
    await supervised.up(2)


async def test_bytes_pass_both_ways_unchanged(
    pty_board: PtyBoard, link: Path, supervise: Supervise
) -> None:
    """Telnet doubles 0xFF on the way, and only there."""
    supervised = supervise(link)
    await supervised.up()
    lending = await supervised.supervisor.lend(30)
    pty_board.answering = False
    pty_board.received.clear()
    reader, writer = await exchange(lending.tcp_port)
    everything = bytes(range(256))
    writer.write(everything.replace(b"\xff", b"\xff\xff"))
    await writer.drain()
    async with asyncio.timeout(5):
        while everything not in pty_board.received:
            pty_board.arrived.clear()
            await pty_board.arrived.wait()
    pty_board.send(everything)
    await read_until(reader, everything.replace(b"\xff", b"\xff\xff"))
    pty_board.answering = True
    writer.close()
    await writer.wait_closed()
    outcome = await lending.outcome()
    assert outcome.report.to_board_bytes == 256
    assert outcome.report.broke_in


SUBNEGOTIATION = b"\xff\xfa"
END = b"\xff\xf0"


@pytest.mark.parametrize(
    "nonsense",
    [
        END,  # ends what never began
        SUBNEGOTIATION + b"\x2c\x01" + END,  # a baud rate of no bytes
        SUBNEGOTIATION + b"\x2c\x03\x63" + END,  # a parity that is none
        SUBNEGOTIATION + b"x" * 100_000,  # without end
    ],
)
async def test_a_client_that_speaks_nonsense_is_shown_out(
    pty_board: PtyBoard, link: Path, supervise: Supervise, nonsense: bytes
) -> None:
    supervised = supervise(link)
    await supervised.up()
    lending = await supervised.supervisor.lend(30)
    reader, writer = await exchange(lending.tcp_port)
    writer.write(nonsense)
    async with asyncio.timeout(5):
        while await _more(reader):
            pass
    writer.close()
    lending.take_back()
    await lending.outcome()
    await supervised.up(2)


async def _more(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(1000)
    except ConnectionError:
        return b""


async def test_the_bootloader_speed_is_refused_and_the_speed_is_restored(
    pty_board: PtyBoard, link: Path, supervise: Supervise
) -> None:
    supervised = supervise(link)
    await supervised.up()
    lending = await supervised.supervisor.lend(30)
    reader, writer = await exchange(lending.tcp_port)
    answer = SUBNEGOTIATION + b"\x2c\x65"  # COM_PORT_OPTION, SERVER_SET_BAUDRATE
    for asked, granted in ((1_200, 115_200), (57_600, 57_600)):
        writer.write(SUBNEGOTIATION + b"\x2c\x01" + asked.to_bytes(4, "big") + END)
        expected = answer + granted.to_bytes(4, "big") + END
        await read_until(reader, expected)
    writer.close()
    await writer.wait_closed()
    await lending.outcome()
    client = await supervised.up(2)
    await client.ping()


async def test_nobody_coming_ends_at_the_limit(
    pty_board: PtyBoard, link: Path, supervise: Supervise
) -> None:
    supervised = supervise(link)
    await supervised.up()
    lending = await supervised.supervisor.lend(0.3)
    outcome = await lending.outcome()
    assert outcome.report.end is LendEnd.UNUSED
    await supervised.up(2)


async def test_a_port_that_dies_while_it_is_lent_is_reported(
    pty_board: PtyBoard, link: Path, supervise: Supervise
) -> None:
    supervised = supervise(link)
    await supervised.up()
    lending = await supervised.supervisor.lend(30)
    pty_board.vanish()
    outcome = await lending.outcome()
    assert outcome.report.end is LendEnd.PORT_LOST
    assert outcome.firmware is FirmwareAfter.SILENT


async def test_a_silent_board_can_be_lent_as_well(
    pty_board: PtyBoard, link: Path, supervise: Supervise
) -> None:
    """A technician is needed most where the firmware does not answer."""
    pty_board.answering = False
    supervised = supervise(link)
    lending = await supervised.supervisor.lend(0.3)
    outcome = await lending.outcome()
    assert outcome.firmware is FirmwareAfter.SILENT
    assert supervised.ups == []


async def test_a_stopped_bridge_ends_the_lending(pty_board: PtyBoard, link: Path) -> None:
    supervised = Supervised(SerialOpener(str(link)))
    task = asyncio.create_task(supervised.supervisor.run())
    await supervised.up()
    lending = await supervised.supervisor.lend(30)
    task.cancel()
    await asyncio.wait((task,))
    with pytest.raises(LinkError, match="stopped"):
        await lending.outcome()
