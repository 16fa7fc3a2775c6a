"""flash.sh on a desk board, with the real mpremote and mpy-cross (issues 2 and 5)."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from desk_mpremote import echo_firmware
from flash_runs import (
    ROOT,
    FlashedBoard,
    checkout,
    content,
    flash,
    pointed,
    running_version,
    start_flash,
    stub,
)
from wakebridge.board import hello_check
from wakebridge.simboard import DeskBoard


async def test_fresh_board(flashed: FlashedBoard, desk_with_one: DeskBoard) -> None:
    """Precompiled, verified file by file, switched, restarted, confirmed by hello."""
    output = flashed.ran.output
    assert flashed.ran.code == 0, output
    target = pointed(desk_with_one, "active")
    assert target.startswith("1.0.0-")
    files = content(desk_with_one.flash / "wb" / target)
    assert "wakeboard/loop.mpy" in files
    assert "wakewire/framing.mpy" in files
    assert not [name for name in files if name.endswith(".py")]
    assert output.count(", verified\n") == len(files) - 1 + 1, "each file and the total"
    assert "wakeboard/ports/unix.mpy" in files
    assert "wakeboard/ports/esp32.mpy" not in files, "another port's file"
    assert "it answers: version 1.0.0" in output
    assert await running_version(desk_with_one) == "1.0.0"
    assert (desk_with_one.flash / "board.json").read_bytes() == b'{"pulse": "always"}\n'


async def test_update_with_a_backup_then_back_and_forth(
    desk_with_one: DeskBoard, version_two: Path, version_one: Path, tmp_path: Path
) -> None:
    first = pointed(desk_with_one, "active")
    configuration = b'{"pulse": "always", "pulse_ms": 33}'
    (desk_with_one.flash / "board.json").write_bytes(configuration)
    (desk_with_one.flash / "with space.bin").write_bytes(bytes(range(256)))
    versions = desk_with_one.flash / "wb"
    for name in ("0.9.0-00000000", "1.5.0-11111111.new"):
        (versions / name / "wakeboard").mkdir(parents=True)
        (versions / name / "wakeboard/old.mpy").write_bytes(b"old")
    before = content(desk_with_one.flash)
    kept = tmp_path / "kept"

    ran = await flash(version_two, "--port", desk_with_one.port, "--backup", str(kept))
    assert ran.code == 0, ran.output
    assert content(kept) == before
    second = pointed(desk_with_one, "active")
    assert second.startswith("2.0.0-rc1-")
    assert pointed(desk_with_one, "previous") == first
    assert {path.name for path in versions.iterdir()} == {first, second, "active", "previous"}
    assert await running_version(desk_with_one) == "2.0.0-rc1"
    assert (desk_with_one.flash / "board.json").read_bytes() == configuration

    for version in ("1.0.0", "2.0.0-rc1"):
        ran = await flash(version_one, "--port", desk_with_one.port, "--rollback")
        assert ran.code == 0, ran.output
        assert await running_version(desk_with_one) == version
    ran = await flash(version_one, "--port", desk_with_one.port)
    assert ran.code == 0, ran.output
    assert "is on the board already, every file verified" in ran.output
    assert await running_version(desk_with_one) == "1.0.0"


async def test_nothing_to_go_back_to(desk_with_one: DeskBoard, version_one: Path) -> None:
    ran = await flash(version_one, "--port", desk_with_one.port, "--rollback")
    assert ran.code == 10
    assert "no complete version before" in ran.output
    assert await running_version(desk_with_one) == "1.0.0", "it runs on"


async def test_dry_run_writes_nothing_and_does_not_stop_the_firmware(
    desk_with_one: DeskBoard, version_two: Path, tmp_path: Path
) -> None:
    assert await running_version(desk_with_one) == "1.0.0"
    before = content(desk_with_one.flash)
    ran = await flash(version_two, "--port", desk_with_one.port, "--dry-run", "--backup",
                      str(tmp_path / "kept"))  # fmt: skip
    assert ran.code == 0, ran.output
    assert "runs version 1.0.0" in ran.output
    assert "wakeboard/loop.mpy" in ran.output
    assert content(desk_with_one.flash) == before
    assert desk_with_one.boots == 1
    assert not desk_with_one.at_prompt
    assert not (tmp_path / "kept").exists()
    ran = await flash(version_two, "--port", desk_with_one.port, "--dry-run", "--rollback")
    assert ran.code == 0
    assert content(desk_with_one.flash) == before


async def test_plain_source_and_the_start_files_of_others(
    version_one: Path, tmp_path: Path
) -> None:
    """A board that takes no such .mpy gets source; a main.py that is not ours is kept."""
    firmware = echo_firmware(tmp_path / "fw")
    other = stub(tmp_path / "mpy-cross", "echo 'MicroPython v9; mpy-cross emitting mpy v7.0'")
    async with DeskBoard(tmp_path / "desk", firmware=firmware) as desk:
        ran = await flash(version_one, "--port", desk.port, MPY_CROSS=other)
        assert ran.code == 0, ran.output
        assert "plain source" in ran.output
        files = content(desk.flash / "wb" / pointed(desk, "active"))
        source = version_one / "firmware/wakeboard/loop.py"
        assert files["wakeboard/loop.py"] == source.read_bytes()
        for name in ("main.py", "boot.py"):
            ours = version_one / "firmware" / name
            assert (desk.flash / name).read_bytes() == ours.read_bytes()
            kept = desk.flash / f"{name}.before-wakebridge"
            assert kept.read_bytes() == (firmware / name).read_bytes()
        assert await running_version(desk) == "1.0.0"


UART = """
    def uart(self, number, baud):
        return open("uart%d" % number, "rb+", buffering=0)
"""


async def test_a_board_whose_host_is_on_a_uart_is_updated_through_its_console(
    tmp_path: Path,
) -> None:
    """Its firmware hears nothing on the console; the desk's UART is a FIFO in its flash."""
    first = checkout(tmp_path / "first", "1.0.0", whole=True)
    with (first / "firmware/wakeboard/ports/unix.py").open("a") as port:
        port.write(UART)
    second = shutil.copytree(first, tmp_path / "second", symlinks=True)
    init = second / "firmware/wakeboard/__init__.py"
    init.write_text(init.read_text().replace("1.0.0", "2.0.0"))
    async with DeskBoard(tmp_path / "desk", firmware=echo_firmware(tmp_path / "fw")) as desk:
        os.mkfifo(desk.flash / "uart1")
        (desk.flash / "board.json").write_text('{"stream": "uart:1:115200", "pulse_ms": 1}')
        for version, source in (("1.0.0", first), ("2.0.0", second)):
            ran = await flash(source, "--port", desk.port)
            assert ran.code == 0, ran.output
            assert f"it answers: version {version}, boot " in ran.output
            assert "its board.json has faults: pulse_ms: must be 10 to 3000" in ran.output
            assert await asyncio.to_thread(hello_check.ask, desk.port, 0.5) == "no answer to hello"
            assert not desk.at_prompt
        ran = await flash(second, "--port", desk.port, "--rollback")
        assert ran.code == 0, ran.output
        assert pointed(desk, "active").startswith("1.0.0-")


NO_VFS = """\
import builtins
real = builtins.__import__
def import_as_before_1_23(name, *rest):
    if name == "vfs":
        raise ImportError
    return real(name, *rest)
builtins.__import__ = import_as_before_1_23
"""


async def test_a_backup_needs_nothing_that_older_micropythons_lack(
    version_one: Path, tmp_path: Path
) -> None:
    firmware = echo_firmware(tmp_path / "fw")
    (firmware / "boot.py").write_text(NO_VFS)
    async with DeskBoard(tmp_path / "desk", firmware=firmware) as desk:
        before = content(desk.flash)
        kept = tmp_path / "kept"
        ran = await flash(version_one, "--port", desk.port, "--backup", str(kept))
        assert ran.code == 0, ran.output
        assert content(kept) == before


async def test_a_version_that_does_not_start_is_taken_back(
    desk_with_one: DeskBoard, tmp_path: Path
) -> None:
    broken = checkout(tmp_path / "broken", "3.0.0")
    loop = broken / "firmware/wakeboard/loop.py"
    loop.write_text(loop.read_text() + "\nraise ValueError('a bug')\n")
    first = pointed(desk_with_one, "active")
    ran = await flash(broken, "--port", desk_with_one.port)
    assert ran.code == 9
    assert f"sent back to {first}" in ran.output
    assert pointed(desk_with_one, "active") == first
    assert await running_version(desk_with_one) == "1.0.0"


async def test_a_damaged_version_is_copied_anew(
    desk_with_one: DeskBoard, version_one: Path
) -> None:
    first = pointed(desk_with_one, "active")
    (desk_with_one.flash / "wb" / first / "wakeboard/link.mpy").write_bytes(b"rotten")
    ran = await flash(version_one, "--port", desk_with_one.port)
    assert ran.code == 0, ran.output
    assert pointed(desk_with_one, "active") != first, "never written into while it may run"
    assert pointed(desk_with_one, "previous") == first
    assert await running_version(desk_with_one) == "1.0.0"


async def test_another_board_than_named_is_refused(
    desk_with_one: DeskBoard, version_two: Path
) -> None:
    before = content(desk_with_one.flash)
    for dry in ((), ("--dry-run",)):
        ran = await flash(version_two, "--port", desk_with_one.port, "--board", "rp2", *dry)
        assert ran.code == 7
        assert "is a unix, not a rp2" in ran.output
    assert content(desk_with_one.flash) == before
    assert await running_version(desk_with_one) == "1.0.0", "it was started again"


async def test_interrupted_by_its_user_it_starts_the_board_again(
    desk_with_one: DeskBoard, version_two: Path
) -> None:
    process = await start_flash(version_two, "--port", desk_with_one.port)
    assert process.stdout is not None
    while b"[ 2/" not in await process.stdout.readline():
        pass
    os.killpg(process.pid, signal.SIGTERM)
    output, _ = await process.communicate()
    assert process.returncode == 130, output
    assert b"Traceback" not in output
    assert await running_version(desk_with_one) == "1.0.0"


def test_the_script_is_portable_shell() -> None:
    """POSIX sh: parsed by dash, checked by shellcheck."""
    subprocess.run(["dash", "-n", str(ROOT / "flash.sh")], check=True)
    subprocess.run(["shellcheck", str(ROOT / "flash.sh")], check=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--frobnicate"], "what is --frobnicate"),
        (["--port"], "--port needs a value"),
        (["--board", "z80"], "--board is esp32"),
        (["--with-micropython", "x.hex"], "comes as .uf2 or .bin"),
        (["--with-micropython", "absent.uf2"], "there is no file absent.uf2"),
        (["--rollback", "--backup", "x"], "--rollback goes with"),
        (["--backup", str(ROOT)], "is not empty"),
    ],
)
async def test_wrong_usage(version_one: Path, options: list[str], words: str) -> None:
    ran = await flash(version_one, *options)
    assert ran.code == 2
    assert words in ran.output


async def test_help_lists_every_exit_code(version_one: Path) -> None:
    ran = await flash(version_one, "--help")
    assert ran.code == 0
    script = (ROOT / "flash.sh").read_text()
    for code in re.findall(r"\bfail (\d+)", script):
        assert f"\n{code:>3}  " in ran.output, f"exit code {code} is not documented"
