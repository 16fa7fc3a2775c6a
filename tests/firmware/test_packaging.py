"""What `mip` installs and what a build freezes: all a board needs, and nothing of the host's."""

import json
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from desk_mpremote import mpremote
from desk_requests import DeskLink
from micropython_runner import FIRMWARE, PROTOCOL, ROOT
from wakebridge.simboard import DeskBoard

WIRE: Final = {"__init__", "cbor", "codes", "errors", "framing", "limits", "text"}
PACKAGE: Final[dict[str, Any]] = json.loads((FIRMWARE / "package.json").read_text())


@pytest.fixture
async def bare_desk(tmp_path: Path) -> AsyncIterator[DeskBoard]:
    """A board with a main.py as integrators write it, and nothing else."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "main.py").write_text("import wakeboard\nwakeboard.run()\n")
    async with DeskBoard(tmp_path / "desk", firmware=source) as board:
        shutil.rmtree(board.flash / "wakewire", ignore_errors=True)
        yield board


def test_package_lists_every_file_of_a_board() -> None:
    listed = dict(PACKAGE["urls"])
    firmware = {str(path.relative_to(FIRMWARE)) for path in (FIRMWARE / "wakeboard").rglob("*.py")}
    assert listed == {name: name for name in firmware} | {
        f"wakewire/{name}.py": f"../protocol/wakewire/{name}.py" for name in WIRE
    }


def test_manifest_freezes_the_same() -> None:
    frozen: list[tuple[object, ...]] = []
    words = {
        "metadata": lambda **words: frozen.append(("version", words["version"])),
        "package": lambda name, files=None, base_path=".", opt=None: frozen.append(
            (name, files, base_path, opt)
        ),
    }
    exec((FIRMWARE / "manifest.py").read_text(), words)
    wire = tuple(f"{name}.py" for name in sorted(WIRE))
    assert frozen == [
        ("version", PACKAGE["version"]),
        ("wakeboard", None, ".", 3),
        ("wakewire", wire, "../protocol", 3),
    ]
    assert all((PROTOCOL / "wakewire" / name).exists() for name in wire)


def test_one_version_everywhere() -> None:
    package = (FIRMWARE / "wakeboard/__init__.py").read_text()
    project = (ROOT / "pyproject.toml").read_text()
    version = re.search(r'^version = "(.+)"', project, re.MULTILINE)
    assert version is not None
    assert f'__version__ = "{version[1]}"' in package
    assert PACKAGE["version"] == version[1]


async def test_mip_installs_from_a_checkout_and_the_board_runs(bare_desk: DeskBoard) -> None:
    ran = await mpremote(
        bare_desk.port, "mip", "install", str(FIRMWARE / "package.json"), timeout_s=90
    )
    assert ran.code == 0, ran.output
    installed = {
        str(path.relative_to(bare_desk.flash / "lib"))
        for path in (bare_desk.flash / "lib").rglob("*.*")
    }
    assert installed == {target for target, _ in PACKAGE["urls"]}
    await bare_desk.hard_reset()
    with DeskLink(bare_desk.port) as link:
        assert (await link.hello()).firmware_version == PACKAGE["version"]
