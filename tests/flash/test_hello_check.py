"""The question that flash.sh ends with: who is the board?"""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from wakebridge.board import hello_check
from wakebridge.simboard import DeskBoard


async def test_a_running_board_says_who_it_is(
    desk_with_one: DeskBoard, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await asyncio.to_thread(hello_check.main, [desk_with_one.port]) == 0
    answer = dict(line.split("=", 1) for line in capsys.readouterr().out.splitlines())
    assert answer["version"] == "1.0.0"
    assert answer["port"] == "unix"
    assert answer["unique_id"] == desk_with_one.unique_id.hex()


async def test_a_firmware_stopped_at_the_prompt_is_told_from_silence(
    desk_with_one: DeskBoard,
) -> None:
    await desk_with_one.stop_at_prompt()
    answer = await asyncio.to_thread(hello_check.ask, desk_with_one.port, 0.5)
    assert answer == "the firmware is stopped at a prompt"
    await desk_with_one.soft_reset()
    desk_with_one.line("to_host").muted = True
    answer = await asyncio.to_thread(hello_check.ask, desk_with_one.port, 0.5)
    assert answer == "no answer to hello"


async def test_it_waits_for_a_port_that_comes_back(desk_with_one: DeskBoard) -> None:
    await desk_with_one.unplug()
    asking = asyncio.create_task(asyncio.to_thread(hello_check.ask, desk_with_one.port, 10))
    await asyncio.sleep(0.3)  # it meets the missing port
    await desk_with_one.replug()
    assert not isinstance(await asking, str)


def test_without_a_port_there_is_a_reason_and_no_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hello_check.main([str(tmp_path / "none"), "0.1"]) == 1
    assert "none" in capsys.readouterr().err
    assert hello_check.main([]) == 2


def test_it_runs_from_a_bare_checkout() -> None:
    """flash.sh needs pyserial and what is in the checkout, nothing else of the bridge."""
    code = (
        "import sys, wakebridge.board.hello_check\n"
        "extra = {'aiohttp', 'aiomqtt', 'cbor2', 'click', 'msgspec'} & set(sys.modules)\n"
        "sys.exit(str(extra) if extra else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
