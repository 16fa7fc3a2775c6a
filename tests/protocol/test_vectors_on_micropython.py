"""The golden vectors under real MicroPython: 64-bit unix port and a build with 32-bit words."""

from pathlib import Path

import pytest

from micropython_runner import BUILDS, PROTOCOL, Build, compile_tree, run
from wire_vectors import MESSAGES, REFUSED_MESSAGES, REFUSED_PAYLOADS, STREAMS, VECTORS

SCRIPT = (Path(__file__).parent / "board_vectors.py").read_text()
COUNT = len(MESSAGES) + len(REFUSED_MESSAGES) + len(REFUSED_PAYLOADS) + len(STREAMS)

over_builds = pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)


@over_builds
def test_vectors_hold(build: Build) -> None:
    """Case A13 is among them: no MemoryError and no RuntimeError escapes the board's decoder."""
    output = run(build, SCRIPT, path=[PROTOCOL], files={"v1.json": VECTORS.read_bytes()})
    assert output == f"passed {COUNT}\n"


@over_builds
def test_vectors_hold_for_precompiled_modules(build: Build, tmp_path: Path) -> None:
    compile_tree(PROTOCOL / "wakewire", tmp_path / "wakewire")
    output = run(build, SCRIPT, path=[tmp_path], files={"v1.json": VECTORS.read_bytes()})
    assert output == f"passed {COUNT}\n"


def test_the_builds_differ_in_their_words() -> None:
    words = [run(build, "import sys; print(sys.maxsize)") for build in BUILDS]
    assert words == [f"{2**63 - 1}\n", f"{2**31 - 1}\n"]
