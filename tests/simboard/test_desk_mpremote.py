"""Issue 2: the real mpremote works against the desk board as against a board."""

import asyncio
import hashlib
import os
import pty
import tty
from pathlib import Path

from desk_host_end import HostEnd
from desk_mpremote import MPREMOTE, mpremote
from wakebridge.simboard import DeskBoard


async def test_resume_exec_breaks_into_the_loop_and_keeps_its_memory(echo_desk: DeskBoard) -> None:
    ran = await mpremote(echo_desk.port, "resume", "exec", "print(turns >= 0)")
    assert (ran.code, ran.output) == (0, "True\n")
    assert echo_desk.at_prompt
    assert echo_desk.boots == 1


async def test_exec_soft_resets_and_does_not_restart_main(echo_desk: DeskBoard) -> None:
    ran = await mpremote(echo_desk.port, "exec", "print('turns' in globals(), 'os' in globals())")
    assert (ran.code, ran.output) == (0, "False True\n"), "boot.py has run, main.py has not"
    assert echo_desk.at_prompt


async def test_files_go_there_and_back(echo_desk: DeskBoard, tmp_path: Path) -> None:
    content = bytes(range(256)) * 20
    (tmp_path / "data.bin").write_bytes(content)
    ran = await mpremote(echo_desk.port, "fs", "cp", str(tmp_path / "data.bin"), ":/data.bin")
    assert ran.code == 0
    assert (echo_desk.flash / "data.bin").read_bytes() == content
    ran = await mpremote(echo_desk.port, "fs", "sha256sum", ":data.bin")
    assert hashlib.sha256(content).hexdigest() in ran.output
    ran = await mpremote(echo_desk.port, "resume", "fs", "ls", ":/")
    assert {"boot.py", "data.bin", "main.py"} <= set(ran.output.split())
    await mpremote(echo_desk.port, "resume", "fs", "cp", ":data.bin", str(tmp_path / "back.bin"))
    assert (tmp_path / "back.bin").read_bytes() == content
    ran = await mpremote(echo_desk.port, "resume", "fs", "cp", str(tmp_path / "data.bin"), ":")
    assert "Up to date" in ran.output


async def test_the_board_cannot_reach_the_files_of_the_host(echo_desk: DeskBoard) -> None:
    ran = await mpremote(echo_desk.port, "exec", "import os; print(sorted(os.listdir('/')))")
    assert ran.output == "['board.json', 'boot.py', 'desk', 'main.py']\n"


async def test_mip_installs_a_package_from_a_checkout(echo_desk: DeskBoard) -> None:
    package = Path(__file__).parents[2] / "firmware/package.json"
    ran = await mpremote(echo_desk.port, "mip", "install", str(package))
    assert ran.code == 0, ran.output
    assert (echo_desk.flash / "lib/wakewire/framing.py").is_file()
    ran = await mpremote(echo_desk.port, "exec", "import wakeboard; print(wakeboard.__version__)")
    assert ran.code == 0, ran.output


async def test_soft_reset_leaves_the_prompt_and_reset_starts_main(echo_desk: DeskBoard) -> None:
    assert (await mpremote(echo_desk.port, "soft-reset")).code == 0
    assert echo_desk.at_prompt
    boots = echo_desk.boots
    assert (await mpremote(echo_desk.port, "resume", "reset")).code == 0
    await echo_desk.until_boot(boots + 1)
    end = HostEnd(echo_desk.port)
    end.write(b"\xff")  # which a REPL would not echo
    await end.until(b"\xff")
    end.close()


async def test_a_command_right_after_reset_finds_the_board(echo_desk: DeskBoard) -> None:
    for command in (("exec",), ("resume", "exec")):
        await mpremote(echo_desk.port, "reset")
        ran = await mpremote(echo_desk.port, *command, "print(6 * 7)")
        assert ran.output.endswith("42\n")


async def test_ctrl_d_in_the_repl_starts_boot_and_main(echo_desk: DeskBoard) -> None:
    """As on a board: the friendly REPL soft-reboots into main.py, the raw REPL does not."""
    terminal, other = pty.openpty()
    tty.setraw(other)  # mpremote does, too, but only after it has said that it is there
    process = await asyncio.create_subprocess_exec(
        MPREMOTE, "connect", echo_desk.port, "repl", stdin=other, stdout=other, stderr=other
    )
    os.close(other)
    seen = b""
    loop = asyncio.get_running_loop()

    async def until(text: bytes) -> None:
        nonlocal seen
        try:
            async with asyncio.timeout(10):
                while text not in seen:
                    seen += await loop.run_in_executor(None, os.read, terminal, 4096)
        except TimeoutError:
            raise AssertionError(f"no {text!r} in {seen!r}; {echo_desk.status()}") from None
        seen = seen.partition(text)[2]

    await until(b"to exit this shell")
    os.write(terminal, b"\x03")
    await until(b">>> ")
    os.write(terminal, b"\x04")
    await until(b"MPY: soft reboot")
    await until(b"boot runs, soft")
    await until(b"main runs")
    os.write(terminal, b"\x1d")
    await process.wait()
    os.close(terminal)


async def test_break_in_reaches_code_that_came_by_raw_paste(echo_desk: DeskBoard) -> None:
    await mpremote(echo_desk.port, "exec", "--no-follow", "while True: pass")
    ran = await mpremote(echo_desk.port, "resume", "exec", "print('back')")
    assert ran.output == "back\n"


async def test_exit_codes_and_soft_resets_of_programs(echo_desk: DeskBoard) -> None:
    assert (await mpremote(echo_desk.port, "exec", "raise ValueError")).code == 1
    boots = echo_desk.boots
    assert (await mpremote(echo_desk.port, "exec", "import sys; sys.exit()")).code == 0
    await mpremote(echo_desk.port, "exec", "import machine; machine.soft_reset()")
    assert echo_desk.boots > boots
    assert (await mpremote(echo_desk.port, "eval", "1 + 1")).output == "2\n"


async def test_what_the_unix_port_lacks_is_there(echo_desk: DeskBoard) -> None:
    for command in (("rtc",), ("df",), ("exec", "import machine; print(machine.unique_id())")):
        ran = await mpremote(echo_desk.port, *command)
        assert ran.code == 0, ran.output


async def test_a_program_that_ends_itself_is_started_again(echo_desk: DeskBoard) -> None:
    (echo_desk.flash / "main.py").write_text(
        "import os\n"
        "if os.getenv('WAKEBOARD_RESET_CAUSE') == 'soft': print('after')\n"
        "else: raise SystemExit\n"
    )
    end = HostEnd(echo_desk.port)
    await echo_desk.power_loss(keep_port=True)
    await end.until(b"MPY: soft reboot\r\n")
    await end.until(b"after")
    end.close()
