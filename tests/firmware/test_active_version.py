"""boot.py and main.py: the active version runs, and the one before it when that cannot."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from micropython_runner import FIRMWARE, PROTOCOL, executable

# The firmware would serve its host; the version that it would run is what matters here.
RUN: Final = "wakeboard.run()"
TELL: Final = "print('runs', wakeboard.__version__)"


@pytest.fixture
def flash(tmp_path: Path) -> Path:
    """A board's flash with two complete versions, 2 active and 1 before it."""
    for version in ("1", "2"):
        put(tmp_path / "wb" / version, version)
        (tmp_path / "wb" / version / "complete").touch()
    (tmp_path / "wb/active").write_text("2\n")
    (tmp_path / "wb/previous").write_text("1\n")
    shutil.copy(FIRMWARE / "boot.py", tmp_path / "boot.py")
    main = (FIRMWARE / "main.py").read_text()
    assert main.rstrip().endswith(RUN)
    (tmp_path / "main.py").write_text(main.replace(RUN, TELL))
    return tmp_path


def put(target: Path, version: str) -> None:
    shutil.copytree(FIRMWARE / "wakeboard", target / "wakeboard")
    shutil.copytree(PROTOCOL / "wakewire", target / "wakewire")
    package = target / "wakeboard/__init__.py"
    text = package.read_text().replace('__version__ = "0.1.0"', f'__version__ = "{version}"')
    package.write_text(text)


def boot(flash: Path) -> str:
    """Start main.py as a board does; what it says in the end."""
    ended = subprocess.run(
        [executable("micropython"), "main.py"],
        cwd=flash,
        capture_output=True,
        text=True,
        timeout=30,
    )
    return (ended.stdout + ended.stderr).strip().splitlines()[-1]


def test_active_version_runs(flash: Path) -> None:
    assert boot(flash) == "runs 2"


@pytest.mark.parametrize("pointer", [b"3\n", b"", b"\xff\xff\xff\xff", b"2\0", b"../wb"], ids=repr)
def test_pointer_to_nothing_falls_back(flash: Path, pointer: bytes) -> None:
    """A12 r4: a version that was never finished is not under a real name."""
    (flash / "wb/active").write_bytes(pointer)
    assert boot(flash) == "runs 1"


def test_version_without_its_mark_is_not_whole(flash: Path) -> None:
    (flash / "wb/2/complete").unlink()
    assert boot(flash) == "runs 1"


@pytest.mark.parametrize("name", ["loop.py", "start.py", "countdown.py", "ports/__init__.py"])
@pytest.mark.parametrize("content", ["rotten", "import nothing_of_the_kind", "raise OSError"])
def test_version_that_does_not_load_falls_back(flash: Path, name: str, content: str) -> None:
    (flash / "wb/2/wakeboard" / name).write_text(content)
    assert boot(flash) == "runs 1"


def test_wire_comes_from_the_same_version(flash: Path) -> None:
    shutil.rmtree(flash / "wb/2/wakewire")
    assert boot(flash) == "runs 1"


def test_without_pointers_the_installed_one_runs(flash: Path) -> None:
    """As `mip` leaves it, in /lib, or as in a checkout."""
    shutil.rmtree(flash / "wb")
    put(flash, "9")
    assert boot(flash) == "runs 9"


def test_nothing_to_run_is_said(flash: Path) -> None:
    shutil.rmtree(flash / "wb")
    assert "ImportError" in boot(flash)
