"""The documented diagnostics, run with the real mpremote against the real firmware."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from desk_mpremote import Ran, mpremote
from desk_requests import DeskLink
from micropython_runner import FIRMWARE
from wakebridge.simboard import DeskBoard
from wakewire import codes, messages

DIAG: Final = ("resume", "exec", "import wakeboard.diag")
SELFTEST: Final = ("resume", "exec", "import wakeboard.selftest")
TOKEN: Final = 0x1234ABCD
WIDTH: Final = 80


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[DeskBoard]:
    async with DeskBoard(tmp_path / "desk") as board:
        yield board


def check_report(ran: Ran) -> None:
    assert ran.code == 0, ran.output
    assert max(map(len, ran.output.splitlines())) <= WIDTH
    for word in ("firmware", "board", "boot", "countdown", "wake", "link in", "clock", "heap"):
        assert re.search(f"^{word} ", ran.output, re.MULTILINE), word


async def test_a12_looking_costs_the_countdown_nothing(desk: DeskBoard) -> None:
    """A12 r1, ten times as fast: armed, looked at, and due when it was due."""
    with DeskLink(desk.port) as link:
        hello = await link.hello()
        await link.timer(messages.timer_set, TOKEN, 12_000)
        armed_s = time.monotonic()
    await asyncio.sleep(1)
    ran = await mpremote(desk.port, *DIAG)
    check_report(ran)
    assert "armed, " in ran.output
    assert f"token 0x{TOKEN:08x} of bridge {TOKEN >> 16:04x}" in ran.output
    assert hello.boot_id.hex() in ran.output
    assert "looks healthy" in ran.output
    with DeskLink(desk.port) as link:
        assert not desk.at_prompt
        state = await link.timer(messages.timer_get)
        left_s = 12 - (time.monotonic() - armed_s)
        assert abs(state.remaining_ms / 1000 - left_s) < 0.2
        assert (state.boot_id, state.flags) == (hello.boot_id, 0)
        await link.until(lambda: any(event.token == TOKEN for event in link.events), 15)
        assert abs(time.monotonic() - armed_s - 12) < 0.2
        assert (await link.log()).events[-1].source == codes.SOURCE_RTC_TIMER


async def test_it_prints_each_time_and_ctrl_c_still_works(desk: DeskBoard) -> None:
    with DeskLink(desk.port) as link:
        boot_id = (await link.hello()).boot_id
    for _ in range(3):
        check_report(await mpremote(desk.port, *DIAG))
    ran = await mpremote(desk.port, "resume", "exec", "print(6 * 7)")
    assert (ran.code, ran.output.strip()) == (0, "42")
    assert desk.at_prompt
    check_report(await mpremote(desk.port, *DIAG))
    with DeskLink(desk.port) as link:
        assert (await link.hello()).boot_id == boot_id


async def test_selftest_pulses_measures_and_leaves_the_countdown_alone(desk: DeskBoard) -> None:
    with DeskLink(desk.port) as link:
        await link.timer(messages.timer_set, TOKEN, 60_000)
    began_s = time.monotonic()
    ran = await mpremote(desk.port, *SELFTEST)
    assert ran.code == 0, ran.output
    assert "selftest passed" in ran.output
    measured = re.search(r"2000 ms took ([+-][0-9.]+) ms more", ran.output)
    assert measured is not None
    assert abs(float(measured[1])) <= 20
    assert [change.level for change in desk.wake_history][-2:] == [1, 0]
    with DeskLink(desk.port) as link:
        state = await link.timer(messages.timer_get)
        assert state.state == codes.STATE_ARMED
        assert 60_000 - (time.monotonic() - began_s + 2) * 1000 < state.remaining_ms < 58_000


async def test_selftest_by_its_other_name(desk: DeskBoard) -> None:
    check_report(await mpremote(desk.port, *DIAG))
    ran = await mpremote(desk.port, "resume", "exec", "wakeboard.diag.selftest()")
    assert "selftest passed" in ran.output
    with DeskLink(desk.port) as link:
        assert (await link.ask(messages.ping)).ok


async def test_a_countdown_that_ends_amid_the_selftest_is_logged_and_pushed(
    desk: DeskBoard,
) -> None:
    with DeskLink(desk.port) as link:
        await link.timer(messages.timer_set, TOKEN, 1500)
    ran = await mpremote(desk.port, *SELFTEST)
    assert "selftest passed" in ran.output
    assert "expired, " in ran.output
    with DeskLink(desk.port) as link:
        events = (await link.log()).events
        assert [(event.source, event.token) for event in events[1:]] == [(4, TOKEN)]


async def test_without_resume_it_says_what_it_did_and_starts_the_firmware(
    desk: DeskBoard,
) -> None:
    """A plain exec resets the board: the countdown comes back, marked as approximate."""
    with DeskLink(desk.port) as link:
        boot_id = (await link.hello()).boot_id
        await link.timer(messages.timer_set, TOKEN, 60_000)
    ran = await mpremote(desk.port, "exec", "import wakeboard.diag")
    check_report(ran)
    assert "this command reset the board" in ran.output
    assert "armed, about " in ran.output
    with DeskLink(desk.port) as link:
        state = await link.timer(messages.timer_get)
        assert state.boot_id != boot_id
        assert (state.token, state.flags) == (TOKEN, codes.FLAG_APPROXIMATE)
        assert 50_000 < state.remaining_ms <= 60_000


async def test_a_board_that_cannot_wake_its_host_is_not_healthy(desk: DeskBoard) -> None:
    take_the_line = "from wakeboard.loop import Firmware; Firmware.live.line.level = None"
    assert (await mpremote(desk.port, "resume", "exec", take_the_line)).code == 0
    ran = await mpremote(desk.port, *DIAG)
    check_report(ran)
    assert "wake line   none: wake_pin is not set" in ran.output
    assert "to do       set wake_pin in board.json" in ran.output
    assert "looks healthy" not in ran.output
    assert "selftest FAILED: there is no wake line" in (await mpremote(desk.port, *SELFTEST)).output


async def test_a_host_that_does_not_answer_the_pulse_is_told(desk: DeskBoard) -> None:
    """The usual reason why a device slept through its alarm."""
    with DeskLink(desk.port) as link:
        await link.timer(messages.timer_set, TOKEN, 50)
        await link.until(lambda: any(event.token == TOKEN for event in link.events), 5)
    ran = await mpremote(desk.port, *DIAG)
    check_report(ran)
    assert "check wire, pin and polarity" in ran.output
    assert "looks healthy" not in ran.output
    with DeskLink(desk.port) as link:
        await link.log()
    assert "looks healthy" in (await mpremote(desk.port, *DIAG)).output


async def test_a_bridge_that_was_never_heard_is_told(desk: DeskBoard) -> None:
    an_hour = "from wakeboard.loop import Firmware; Firmware.live.countdown.s += 3600"
    assert (await mpremote(desk.port, "resume", "exec", an_hour)).code == 0
    ran = await mpremote(desk.port, *DIAG)
    check_report(ran)
    assert "to do       check that the bridge runs" in ran.output
    with DeskLink(desk.port) as link:
        await link.hello()
    assert "looks healthy" in (await mpremote(desk.port, *DIAG)).output


async def test_configuration_faults_are_told_and_the_board_answers(tmp_path: Path) -> None:
    async with DeskBoard(tmp_path / "desk") as desk:
        settings = '{"pulse_ms": 5, "wake_pin": 99, "stream": "uart:7:9600", "pluse": 1}'
        (desk.flash / "board.json").write_text(settings)
        await desk.hard_reset()
        with DeskLink(desk.port) as link:
            faults = (await link.hello()).config_faults
            assert set(faults) == {
                "pluse: no such setting",
                "pulse_ms: must be 10 to 3000",
                "stream: not on this board",
            }
        ran = await mpremote(desk.port, *DIAG)
        check_report(ran)
        for fault in faults:
            assert fault in ran.output
        assert "to do       correct board.json" in ran.output
        assert "looks healthy" not in ran.output


@pytest.mark.parametrize(
    "content", [b'{"pulse": "\xff"}', b'{15: "wake_pin"}', b"{" * 4096, None], ids=repr
)
async def test_a_board_answers_whatever_its_configuration_is(
    content: bytes | None, tmp_path: Path
) -> None:
    async with DeskBoard(tmp_path / "desk") as desk:
        path = desk.flash / "board.json"
        path.unlink()
        if content is None:
            path.mkdir()
        else:
            path.write_bytes(content)
        await desk.hard_reset()
        with DeskLink(desk.port) as link:
            faults = (await link.hello()).config_faults
            assert len(faults) == 1
        ran = await mpremote(desk.port, *DIAG)
        check_report(ran)
        assert faults[0] in ran.output


async def test_documented_commands_are_the_tested_ones() -> None:
    text = (FIRMWARE / "README.md").read_text()
    for command in (DIAG, SELFTEST):
        assert f'mpremote {command[0]} {command[1]} "{command[2]}"' in text


def shape(line: str) -> str:
    """A line of the report without its numbers; of a line of names, its first column alone."""
    column = line[:12].strip()
    if column in ("firmware", "board", "boot", "countdown", "wake", "clock"):
        return column
    return re.sub(r"[0-9]+", "#", line)


async def test_the_readme_shows_what_is_printed(desk: DeskBoard) -> None:
    text = (FIRMWARE / "README.md").read_text()
    shown = text.split('$ mpremote resume exec "import wakeboard.diag"\n')[1].split("\n\n")[0]
    (desk.flash / "board.json").unlink()
    await desk.hard_reset()
    with DeskLink(desk.port) as link:
        await link.timer(messages.timer_set, TOKEN, 10)
        await link.until(lambda: any(event.token == TOKEN for event in link.events), 5)
        await link.timer(messages.timer_set, TOKEN, 60_000)
    ran = await mpremote(desk.port, *DIAG)
    assert list(map(shape, ran.output.splitlines())) == [
        shape(line.removeprefix("    ")) for line in shown.splitlines()
    ]


async def test_settings_are_copied_as_the_readme_says(desk: DeskBoard, tmp_path: Path) -> None:
    command = "mpremote fs cp board.json :board.json + reset"
    assert f"    {command}\n" in (FIRMWARE / "README.md").read_text()
    (tmp_path / "board.json").write_text('{"pulse_ms": 20}')
    boots = desk.boots
    arguments = command.replace("board.json :", f"{tmp_path}/board.json :").split()[1:]
    assert (await mpremote(desk.port, *arguments)).code == 0
    await desk.until_boot(boots + 2)  # mpremote resets the board before the first command
    assert "wake line   20 ms" in (await mpremote(desk.port, *DIAG)).output
