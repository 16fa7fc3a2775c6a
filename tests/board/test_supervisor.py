"""The supervisor against a board behind a pseudo-terminal."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from firmware_board import FirmwareBoard, PtyBoard
from supervised import Supervised
from wakebridge.board.errors import LinkError, PortAmbiguous, RequestTimeout
from wakebridge.board.serial_port import SerialOpener
from wakewire import codes, framing
from wakewire.messages import Answer

Supervise = Callable[[str | Path], Supervised]

PROMPT = b"\r\n>>> "


class DeadPrompt:
    """A board whose firmware stands still: it echoes what is typed, until Ctrl-D at an empty line.

    Then the firmware runs again, `starts` allowing.
    """

    def __init__(self, board: PtyBoard, *, raw: bool = False, starts: bool = True) -> None:
        self.board = board
        self.raw = raw
        self.starts = starts
        self.restarts = 0
        self.taken = 0
        self.line = b""

    def __call__(self, received: bytes) -> bytes:
        fresh, self.taken = received[self.taken :], len(received)
        sent = b""
        for byte in fresh:
            key = bytes((byte,))
            if key in b"\x02\x03\r":
                self.raw = self.raw and key != b"\x02"
                self.line = b""
                sent += b"" if self.raw else PROMPT
            elif key == b"\x04" and not self.line:
                self.restarts += 1
                if self.starts:
                    self.board.reply = None
                    self.board.board = FirmwareBoard(b"restart!")
                    return sent + b"\r\nMPY: soft reboot\r\n"
                sent += PROMPT
            elif 32 <= byte < 127 and not self.raw:
                self.line += key
                sent += key
        return sent


async def test_the_link_comes_up_and_stays_quiet(
    pty_board: PtyBoard, link: Path, supervise: Supervise
) -> None:
    """Issue 2: an idle bridge sends no more than one frame per 10 s; the supervisor sends none."""
    supervised = supervise(link)
    await supervised.up()
    assert supervised.supervisor.problem == ""
    assert supervised.ups[0][1].boot_id == b"bootboot"
    frames = len(pty_board.received)
    await asyncio.sleep(1)
    assert len(pty_board.received) == frames
    assert supervised.downs == []


async def test_a_hint_is_passed_on(pty_board: PtyBoard, link: Path, supervise: Supervise) -> None:
    supervised = supervise(link)
    client = await supervised.up()
    await client.timer_set(0x51AB_0001, 50)
    await supervised.until(lambda told: len(told.hints) == 1)
    assert supervised.hints[0].source == codes.SOURCE_RTC_TIMER
    log = await client.events_get(b"bootboot", 1)
    assert not isinstance(log, LinkError)
    assert supervised.hints[0] in getattr(log, "events", ())


async def test_a_board_that_falls_silent_is_noticed_by_the_next_request(
    pty_board: PtyBoard, link: Path, supervise: Supervise
) -> None:
    supervised = supervise(link)
    client = await supervised.up()
    pty_board.answering = False
    with pytest.raises(RequestTimeout):
        await client.timer_get()
    await supervised.until(lambda told: len(told.downs) == 1)
    assert client.closed
    with pytest.raises(LinkError):
        await client.timer_get()
    pty_board.answering = True
    await supervised.up(2)
    assert len(supervised.downs) == 1


async def test_ctrl_c_never_goes_to_a_board_that_does_not_echo(
    pty_board: PtyBoard, link: Path, supervise: Supervise
) -> None:
    """A silent board may be a living one that is busy."""
    pty_board.answering = False
    supervised = supervise(link)
    await supervised.problem("the board does not answer")
    assert supervised.ups == []
    assert b"\x03" not in pty_board.received
    assert b"\x04" not in pty_board.received


@pytest.mark.parametrize("raw", [False, True])
async def test_a_firmware_left_at_a_prompt_is_started(
    pty_board: PtyBoard, link: Path, supervise: Supervise, raw: bool
) -> None:
    prompt = DeadPrompt(pty_board, raw=raw)
    pty_board.reply = prompt
    supervised = supervise(link)
    await supervised.up()
    assert supervised.ups[0][1].boot_id == b"restart!"
    assert prompt.restarts == 1
    assert b"\x03" not in bytes(pty_board.received).split(b"\x7e")[0]


async def test_a_firmware_that_is_stopped_while_the_link_is_up_is_started(
    pty_board: PtyBoard, link: Path, supervise: Supervise
) -> None:
    supervised = supervise(link)
    await supervised.up()
    pty_board.reply = DeadPrompt(pty_board)
    pty_board.reply.taken = len(pty_board.received)
    pty_board.send(b"Traceback (most recent call last):\r\n" + PROMPT)
    await supervised.up(2, within_s=3)
    assert supervised.downs == ["the firmware was stopped"]


async def test_a_firmware_that_does_not_start_is_given_up_for_a_person(
    pty_board: PtyBoard, link: Path, supervise: Supervise
) -> None:
    pty_board.reply = prompt = DeadPrompt(pty_board, starts=False)
    supervised = supervise(link)
    await supervised.problem("does not start")
    assert prompt.restarts == 2
    assert supervised.supervisor.open_attempts == 1


async def test_a_prompt_that_a_living_firmware_prints_is_no_alarm(
    pty_board: PtyBoard, link: Path, supervise: Supervise
) -> None:
    supervised = supervise(link)
    client = await supervised.up()
    for _ in range(20):
        pty_board.send(PROMPT)
        await client.ping()
    assert not client.closed
    assert supervised.downs == []
    assert b"\x03" not in pty_board.received
    assert pty_board.board.asked.count(codes.OP_PING) == 21


async def test_a_board_that_restarts_behind_the_same_port_gets_a_new_client(
    pty_board: PtyBoard, link: Path, supervise: Supervise
) -> None:
    """R49: a power loss that the port survives is noticed by the boot id."""
    supervised = supervise(link)
    client = await supervised.up()
    pty_board.board = FirmwareBoard(b"newboot!")
    await client.timer_get()
    second = await supervised.up(2)
    assert second is not client
    assert supervised.downs == ["the board restarted"]
    assert supervised.ups[1][1].boot_id == b"newboot!"
    assert supervised.supervisor.open_attempts == 1


async def test_the_boot_event_alone_tells_of_a_restart(
    pty_board: PtyBoard, link: Path, supervise: Supervise
) -> None:
    supervised = supervise(link)
    await supervised.up()
    pty_board.board = FirmwareBoard(b"newboot!")
    pty_board.send(framing.encode(pty_board.board.dispatcher.latest_event()))
    await supervised.up(2, within_s=2)


async def test_another_protocol_version_is_for_a_person(
    pty_board: PtyBoard, link: Path, supervise: Supervise
) -> None:
    pty_board.reply = lambda received: b"".join(
        framing.encode(Answer(number, codes.STATUS_UNSUPPORTED_VERSION, []).encode())
        for number in _ids(received)
    )
    supervised = supervise(link)
    await supervised.problem("protocol version")
    assert supervised.ups == []
    assert supervised.supervisor.open_attempts == 1


def _ids(received: bytes) -> list[int]:
    board = FirmwareBoard()
    numbers = []
    for byte in received:
        payload = board.decoder.push(byte)
        if payload is not None:
            numbers.append(int.from_bytes(bytes(payload)[3:5], "big"))
    return numbers


async def test_a_flooding_board_costs_little_and_stops_nothing(
    pty_board: PtyBoard, link: Path, supervise: Supervise
) -> None:
    """A13: frames, garbage and text without end; the process stays responsive."""
    supervised = supervise(link)
    client = await supervised.up()
    flood = os.urandom(2_000) + b"\x7e" * 50 + b">>> log " * 100
    stop_at_s = asyncio.get_running_loop().time() + 1.5
    cpu_s = time.process_time()
    worst_s = 0.0
    while (now_s := asyncio.get_running_loop().time()) < stop_at_s:
        pty_board.send(flood)
        await asyncio.sleep(0.01)
        worst_s = max(worst_s, asyncio.get_running_loop().time() - now_s)
    assert time.process_time() - cpu_s < 0.75
    assert worst_s < 0.25
    if client.closed:
        await supervised.up(2)
    await supervised.client.timer_get()


async def test_several_candidates_and_none_named_are_listed(tmp_path: Path) -> None:
    boards = [PtyBoard(tmp_path / name) for name in ("usb-one", "usb-two")]
    try:
        supervised = Supervised(SerialOpener(None, pattern=f"{tmp_path}/usb-*"))
        with pytest.raises(PortAmbiguous, match=r"usb-one, .*usb-two"):
            await supervised.supervisor.claim()
    finally:
        for board in boards:
            board.vanish()


async def test_a_claimed_port_is_the_one_that_is_used(
    pty_board: PtyBoard, link: Path, supervise: Supervise
) -> None:
    supervised = Supervised(SerialOpener(str(link)))
    await supervised.supervisor.claim()
    task = asyncio.create_task(supervised.supervisor.run())
    await supervised.up()
    assert supervised.supervisor.open_attempts == 1
    task.cancel()
    await asyncio.wait((task,))
    assert supervised.downs == ["the bridge stopped"]
    assert pty_board.board.asked == [codes.OP_HELLO]
