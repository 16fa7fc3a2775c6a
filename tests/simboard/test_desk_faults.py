"""Issue 2: what the desk board can be told to suffer, and what the host sees of it."""

import asyncio
import fcntl
import os
from pathlib import Path

from desk_host_end import HostEnd, device_behind
from desk_mpremote import mpremote
from wakebridge.simboard import DeskBoard

TIOCEXCL = 0x540C  # tty_ioctl(4); the termios module names no TIOCGEXCL
TIOCGEXCL = 0x80045440


def reset_cause(desk: DeskBoard) -> str:
    """What the running boot was told; the interpreter's environment is the desk's word to it."""
    environment = Path(f"/proc/{desk.pid}/environ").read_bytes().split(b"\0")
    prefix = b"WAKEBOARD_RESET_CAUSE="
    return next(entry for entry in environment if entry.startswith(prefix))[len(prefix) :].decode()


async def test_power_loss_takes_the_port_and_the_backup_memory(
    echo_desk: DeskBoard, host_end: HostEnd
) -> None:
    backup = echo_desk.directory / "desk/backup"
    backup.write_bytes(b"countdown")
    await echo_desk.power_loss(off_s=0.05)
    await host_end.until_error()
    assert not backup.exists()
    assert echo_desk.boots == 2
    assert reset_cause(echo_desk) == "power_on"
    again = HostEnd(echo_desk.port)
    again.write(b"!")
    await again.until(b"!")
    again.close()


async def test_power_loss_behind_a_fed_adapter_keeps_the_port(
    echo_desk: DeskBoard, host_end: HostEnd
) -> None:
    await echo_desk.power_loss(keep_port=True)
    await host_end.until(b"boot runs, power_on")
    await host_end.until(b"main runs")
    assert host_end.error is None


async def test_unplug_and_replug_behind_the_same_link(
    echo_desk: DeskBoard, host_end: HostEnd
) -> None:
    """Case A11: the port disappears, the host sees an error; another comes; the board ran on."""
    await echo_desk.unplug()
    await host_end.until_error()
    assert device_behind(echo_desk.port) is None
    await echo_desk.replug()
    assert device_behind(echo_desk.port) is not None
    again = HostEnd(echo_desk.port)
    again.write(b"!")
    assert await again.until(b"!") == b"!", "no stale byte, no restart"
    assert echo_desk.boots == 1
    again.close()


async def test_output_without_a_host_is_lost_as_on_usb(echo_desk: DeskBoard) -> None:
    first = HostEnd(echo_desk.port)
    first.write(b"1")
    await first.until(b"1")
    first.write(b"lost")
    first.close()
    await answered(echo_desk)
    second = HostEnd(echo_desk.port)
    second.write(b"2")
    assert (await second.until(b"2"))[-1:] == b"2"
    second.close()


async def test_soft_reset_keeps_the_backup_memory(echo_desk: DeskBoard, host_end: HostEnd) -> None:
    backup = echo_desk.directory / "desk/backup"
    backup.write_bytes(b"countdown")
    await echo_desk.soft_reset()
    await host_end.until(b"MPY: soft reboot\r\n")
    await host_end.until(b"boot runs, soft")
    await host_end.until(b"main runs")
    assert backup.read_bytes() == b"countdown"


async def test_soft_reset_works_on_a_board_that_does_not_listen(
    echo_desk: DeskBoard, host_end: HostEnd
) -> None:
    stubborn = "while True:\n try:\n  while True: pass\n except KeyboardInterrupt: pass\n"
    (echo_desk.flash / "main.py").write_text(stubborn)
    await echo_desk.soft_reset()
    await host_end.until(b"boot runs, soft")
    (echo_desk.flash / "main.py").write_text("print('at last')\n")
    await echo_desk.soft_reset()
    await host_end.until(b"at last")


async def test_the_reset_button(echo_desk: DeskBoard, host_end: HostEnd) -> None:
    await echo_desk.hard_reset()
    await host_end.until(b"boot runs, hard")
    await host_end.until(b"main runs")
    assert host_end.error is None


async def test_a_firmware_left_at_the_prompt_echoes_frames_and_can_be_recovered(
    echo_desk: DeskBoard, host_end: HostEnd
) -> None:
    await echo_desk.stop_at_prompt()
    await host_end.until(b">>> ")
    assert echo_desk.at_prompt
    host_end.write(b"~}#frame~")
    await host_end.until(b"~}#frame~")
    host_end.write(b"\x03\x02\x04")
    await host_end.until(b"MPY: soft reboot\r\n")
    await host_end.until(b"main runs")
    assert not echo_desk.at_prompt


async def test_recovery_works_from_the_raw_repl_too(echo_desk: DeskBoard) -> None:
    await mpremote(echo_desk.port, "exec", "--no-follow", "pass")
    end = HostEnd(echo_desk.port)
    end.write(b"\x03\x01")
    await end.until(b"raw REPL; CTRL-B to exit\r\n>")
    end.write(b"\x03\x02\x04")
    await end.until(b"main runs")
    end.close()


async def test_a_crashed_interpreter_starts_again(echo_desk: DeskBoard, host_end: HostEnd) -> None:
    assert echo_desk.pid is not None
    os.kill(echo_desk.pid, 9)
    await host_end.until(b"boot runs, watchdog")


async def test_a_bad_line(echo_desk: DeskBoard, host_end: HostEnd) -> None:
    echo_desk.line("to_host").garble(1)
    host_end.write(b"ab")
    assert await host_end.until(b"b") == b"`b"
    echo_desk.line("to_board").cut(1)
    host_end.write(b"cd")
    assert await host_end.until(b"d") == b"d"
    echo_desk.line("to_host").muted = True
    host_end.write(b"e")
    await answered(echo_desk)
    echo_desk.line("to_host").muted = False
    echo_desk.inject("to_host", b"noise")
    assert await host_end.until(b"noise") == b"noise"


async def answered(desk: DeskBoard) -> None:
    """Give the board the time of several answers; there is nothing else to see of a lost one."""
    for _ in range(5):
        await asyncio.sleep(0.01)
    assert desk.powered


async def test_a_host_that_does_not_read_does_not_stop_the_board(
    echo_desk: DeskBoard, host_end: HostEnd
) -> None:
    """As a board's USB stack does, the desk drops what nobody takes for half a second."""
    (echo_desk.flash / "main.py").write_text(
        "for i in range(3000): print('x' * 100)\n"
        "with open('/desk/wake_line', 'wb') as line: line.write(b'1\\n')\n"
    )
    host_end.close()
    silent = os.open(echo_desk.port, os.O_RDWR | os.O_NOCTTY)
    stream = echo_desk.wake_pulses()
    await echo_desk.power_loss(keep_port=True)
    await stream.pulse(10)
    os.close(silent)


async def test_exclusive_use_ends_with_the_last_close(echo_desk: DeskBoard) -> None:
    """A bridge that was killed leaves no pseudo-terminal that only root can open."""
    first = os.open(echo_desk.port, os.O_RDWR | os.O_NOCTTY)
    fcntl.ioctl(first, TIOCEXCL)
    os.close(first)
    assert "0 host(s)" in echo_desk.status()
    end = HostEnd(echo_desk.port)
    end.write(b"x")
    await end.until(b"x")
    assert fcntl.ioctl(end.fileno(), TIOCGEXCL, b"\0\0\0\0") == b"\0\0\0\0"
    end.close()


async def test_the_wake_line_can_be_watched(echo_desk: DeskBoard) -> None:
    stream = echo_desk.wake_pulses()
    ran = await mpremote(
        echo_desk.port,
        "exec",
        "import os\nwith open(os.getenv('WAKEBOARD_WAKE_LINE'), 'wb') as line: line.write(b'1\\n')"
        "\nwith open(os.getenv('WAKEBOARD_WAKE_LINE'), 'wb') as line: line.write(b'0\\n')",
    )
    assert ran.code == 0, ran.output
    up = await anext(stream)
    down = await anext(stream)
    assert (up.level, down.level) == (1, 0)
    assert up.boot_ns <= down.boot_ns
    assert [change.level for change in echo_desk.wake_history] == [1, 0]


async def test_the_clock_can_be_changed_at_run_time(echo_desk: DeskBoard) -> None:
    echo_desk.set_clock_ppm(-20000)
    ran = await mpremote(
        echo_desk.port,
        "exec",
        "import os; print(open(os.getenv('WAKEBOARD_CLOCK_PPM_FILE')).read())",
    )
    assert float(ran.output) == -20000
