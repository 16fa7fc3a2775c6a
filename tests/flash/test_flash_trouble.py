"""Case A12 and other trouble: held ports, several boards, copies that fail, missing tools."""

import asyncio
import os
import sys
import time
from pathlib import Path

from flash_runs import content, flash, pointed, running_version, stub
from wakebridge.simboard import DeskBoard

HOLDER = """
import fcntl, os, sys, termios
fd = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
fcntl.flock(fd, fcntl.LOCK_EX)
fcntl.ioctl(fd, termios.TIOCEXCL)
print("held", flush=True)
sys.stdin.read()
"""


async def test_a12_r2_a_held_port_is_refused_at_once_and_its_holder_named(
    desk_with_one: DeskBoard, version_two: Path
) -> None:
    assert await running_version(desk_with_one) == "1.0.0"
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, desk_with_one.port, "wakebridge serve",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout is not None
    assert holder.stdin is not None
    await holder.stdout.readline()
    try:
        before = content(desk_with_one.flash)
        began = time.monotonic()
        ran = await flash(version_two, "--port", desk_with_one.port)
        assert time.monotonic() - began < 5
        assert ran.code == 5
        assert desk_with_one.port in ran.output
        assert "wakebridge serve" in ran.output
        assert f"(process {holder.pid})" in ran.output
        assert content(desk_with_one.flash) == before
        assert not desk_with_one.at_prompt, "the link is undisturbed"
        assert desk_with_one.boots == 1
    finally:
        holder.stdin.close()
        await holder.wait()


async def test_a12_r3_two_devices_and_none_named(
    desk_with_one: DeskBoard, version_two: Path, tmp_path: Path
) -> None:
    async with DeskBoard(tmp_path / "second") as second:
        before = content(desk_with_one.flash), content(second.flash)
        called = tmp_path / "called"
        ran = await flash(
            version_two,
            WAKEBRIDGE_SERIAL_GLOB=f"{tmp_path}/*/serial/by-id/*",
            MPREMOTE=stub(tmp_path / "mpremote", f"touch {called}"),
        )
        assert ran.code == 4
        assert desk_with_one.port in ran.output
        assert second.port in ran.output
        assert (content(desk_with_one.flash), content(second.flash)) == before
        assert not called.exists()


async def test_the_only_device_needs_no_name(
    desk_with_one: DeskBoard, version_one: Path, tmp_path: Path
) -> None:
    ran = await flash(version_one, WAKEBRIDGE_SERIAL_GLOB=f"{tmp_path}/*/serial/by-id/*")
    assert ran.code == 0, ran.output


async def test_no_device_at_all(version_one: Path, tmp_path: Path) -> None:
    ran = await flash(version_one, WAKEBRIDGE_SERIAL_GLOB=f"{tmp_path}/none*")
    assert ran.code == 3
    assert "no serial port found" in ran.output
    ran = await flash(version_one, "--port", str(tmp_path / "ttyUSB9"))
    assert ran.code == 3


COPY_FAILS_HALF_WAY = """
case "$*" in
*"fs cp"*)
    count=$(($(cat {dir}/count 2>/dev/null || echo 0) + 1))
    echo $count >{dir}/count
    if [ $count -eq 2 ]; then
        head -c 100 "$7" >{dir}/half
        "$real" connect "$2" resume fs cp {dir}/half "$8"
        exit 1
    fi
    ;;
esac
exec "$real" "$@"
"""


async def test_a12_r4_a_copy_that_fails_half_way(
    desk_with_one: DeskBoard, version_two: Path, tmp_path: Path
) -> None:
    """The second copy leaves half a file; no real name has it, the board boots what it had."""
    failing = stub(tmp_path / "mpremote", COPY_FAILS_HALF_WAY.format(dir=tmp_path))
    first = pointed(desk_with_one, "active")
    ran = await flash(version_two, "--port", desk_with_one.port, MPREMOTE=failing)
    assert ran.code == 8
    assert "cannot be copied" in ran.output
    assert await running_version(desk_with_one) == "1.0.0", "restarted by flash.sh"
    await desk_with_one.power_loss()
    assert await running_version(desk_with_one) == "1.0.0"
    assert pointed(desk_with_one, "active") == first
    directories = {path.name for path in (desk_with_one.flash / "wb").iterdir() if path.is_dir()}
    assert {name for name in directories if not name.endswith(".new")} == {first}


CORRUPTED = """
case "$*" in
*"fs cp"*loop.mpy*)
    count=$(($(cat {dir}/count 2>/dev/null || echo 0) + 1))
    echo $count >{dir}/count
    if [ $count -le {times} ]; then
        {{ cat "$7"; echo; }} >{dir}/longer
        "$real" connect "$2" resume fs cp {dir}/longer "$8" + fs sha256sum "$8"
        exit
    fi
    ;;
esac
exec "$real" "$@"
"""


async def test_a_file_that_arrives_wrong_is_sent_once_more(
    desk_with_one: DeskBoard, version_two: Path, tmp_path: Path
) -> None:
    once = stub(tmp_path / "mpremote", CORRUPTED.format(dir=tmp_path, times=1))
    ran = await flash(version_two, "--port", desk_with_one.port, MPREMOTE=once)
    assert ran.code == 0, ran.output
    assert "instead of" in ran.output
    assert await running_version(desk_with_one) == "2.0.0-rc1"


async def test_a_file_that_stays_wrong_is_never_switched_to(
    desk_with_one: DeskBoard, version_two: Path, tmp_path: Path
) -> None:
    always = stub(tmp_path / "mpremote", CORRUPTED.format(dir=tmp_path, times=99))
    first = pointed(desk_with_one, "active")
    ran = await flash(version_two, "--port", desk_with_one.port, MPREMOTE=always)
    assert ran.code == 8
    assert "does not arrive as it was sent" in ran.output
    assert pointed(desk_with_one, "active") == first
    assert await running_version(desk_with_one) == "1.0.0"


async def test_something_that_is_no_micropython(version_one: Path, tmp_path: Path) -> None:
    master, slave = os.openpty()
    link = tmp_path / "port"
    link.symlink_to(os.ttyname(slave))
    os.close(slave)
    ran = await flash(version_one, "--port", str(link), MPREMOTE=stub(tmp_path / "m", "exit 1"))
    assert ran.code == 7
    assert "does not answer as MicroPython does" in ran.output
    os.close(master)


async def test_missing_tools_are_named_with_their_remedy(version_one: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    python = stub(
        bare / "python-without-serial",
        f'case "$*" in *serial*) exit 1;; esac; exec {sys.executable} "$@"',
    )
    ran = await flash(version_one, PYTHON=python)
    assert ran.code == 6
    assert "pip install pyserial" in ran.output
    for tool in ("sh", "dirname", "sed", "cat"):
        (bare / tool).symlink_to(f"/usr/bin/{tool}")
    ran = await flash(version_one, MPREMOTE="", PATH=str(bare))
    assert ran.code == 6
    assert "pip install mpremote" in ran.output


async def test_pyserial_may_be_where_only_mpremote_finds_it(
    desk_with_one: DeskBoard, version_one: Path, tmp_path: Path
) -> None:
    """As pipx installs mpremote; only a Python that was named is not replaced."""
    stub(tmp_path / "python3", 'case "$*" in *serial*) exit 1;; esac; exit 3')
    path = f"{tmp_path}:{os.environ['PATH']}"
    options = ("--port", desk_with_one.port, "--dry-run")
    ran = await flash(version_one, *options, PYTHON="", PATH=path)
    assert ran.code == 0, ran.output
    assert "runs version 1.0.0" in ran.output
    no_script = stub(tmp_path / "mpremote", "exit 1")
    ran = await flash(version_one, *options, PYTHON="", PATH=path, MPREMOTE=no_script)
    assert ran.code == 6
    assert "python3 has no pyserial" in ran.output


async def test_micropython_as_uf2_goes_to_the_bootloader_drive(
    desk_with_one: DeskBoard, version_one: Path, tmp_path: Path
) -> None:
    drive = tmp_path / "media/RPI RP2"
    drive.mkdir(parents=True)
    image = tmp_path / "micropython.uf2"
    image.write_bytes(b"UF2\n" * 100)
    options = ("--port", desk_with_one.port, "--with-micropython", str(image))
    pattern = f"{tmp_path}/media/*"
    ran = await flash(version_one, "--dry-run", *options, WAKEBRIDGE_UF2_GLOB=pattern)
    assert "Would install MicroPython" in ran.output
    (drive / "INFO_UF2.TXT").write_text("UF2 Bootloader v3.0\n")
    ran = await flash(version_one, *options, WAKEBRIDGE_UF2_GLOB=pattern)
    assert ran.code == 0, ran.output
    assert (drive / "micropython.uf2").read_bytes() == image.read_bytes()
    assert await running_version(desk_with_one) == "1.0.0"


async def test_without_a_bootloader_drive_it_is_told_how_to_get_one(
    version_one: Path, tmp_path: Path
) -> None:
    image = tmp_path / "micropython.uf2"
    image.write_bytes(b"UF2\n")
    ran = await flash(
        version_one,
        "--with-micropython",
        str(image),
        WAKEBRIDGE_UF2_GLOB=f"{tmp_path}/none/*",
        WAKEBRIDGE_SERIAL_GLOB=f"{tmp_path}/none/*",
    )
    assert ran.code == 11
    assert "BOOTSEL" in ran.output


ESPTOOL_4 = """
echo "$@" >>{dir}/esptool-calls
case "$*" in chip-id*) exit 2;; *chip_id) echo "Chip is {chip} (revision v0.2)";; esac
"""
ESPTOOL_5 = """
echo "$@" >>{dir}/esptool-calls
case "$*" in *chip_id|*write_flash*) exit 2;; *chip-id) echo "Connected to {chip} on $2:";; esac
"""


async def test_micropython_as_bin_is_written_where_the_chip_looks_for_it(
    desk_with_one: DeskBoard, version_one: Path, tmp_path: Path
) -> None:
    """A stub esptool: there is no ESP chip on the desk."""
    image = tmp_path / "micropython.bin"
    image.write_bytes(b"\xe9 image")
    options = ("--port", desk_with_one.port, "--with-micropython", str(image))
    ran = await flash(version_one, *options)
    assert ran.code == 6
    assert "pip install esptool" in ran.output
    tools = tmp_path / "tools"
    tools.mkdir()
    path = f"{tools}:{os.environ['PATH']}"
    for esptool, chip, written in (
        (ESPTOOL_5, "ESP32-S3", f"write-flash 0x0 {image}"),
        (ESPTOOL_4, "ESP32-D0WDQ6", f"write_flash 0x1000 {image}"),
        (ESPTOOL_4, "ESP8266EX", ""),
    ):
        stub(tools / "esptool", esptool.format(dir=tools, chip=chip))
        ran = await flash(version_one, *options, PATH=path)
        calls = (tools / "esptool-calls").read_text().splitlines()
        if written:
            assert ran.code == 0, ran.output
            assert calls[-1] == f"--port {desk_with_one.port} {written}"
        else:
            assert ran.code == 11
            assert "no ESP32" in ran.output
            assert "chip_id" in calls[-1]
