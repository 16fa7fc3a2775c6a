"""What the firmware costs a board: heap on 32 bits, bytes of .mpy, and nothing while idle."""

import shutil
from pathlib import Path
from typing import Final

import pytest

from micropython_runner import FIRMWARE, PROTOCOL, TESTS, UNIX, WASM, compile_tree, run

PORTS: Final = ("esp32", "mimxrt", "rp2", "samd", "stm32")
ON_DEMAND: Final = ("diag", "report", "selftest", "sleeping")
HOST_ONLY: Final = ("codes", "errors", "fields", "host_limits", "limits", "messages", "readings",
                    "stream", "text")  # fmt: skip

# Of heap on a 32-bit build, buffers included; issue 5.
HEAP_MAX: Final = 12 * 1024
# From source the names of local variables and the line numbers stay behind as well.
HEAP_FROM_SOURCE_MAX: Final = 21 * 1024
# Of `.mpy` that the firmware brings to a board beside the wire, without what is loaded on demand.
MPY_MAX: Final = 10 * 1024

START: Final = """
from wakeboard import ports
from wakeboard.ports import {port}
_port = {port}.Port()
_port.name = "{port}"
ports.find = lambda: _port
del ports, {port}
from wakeboard.start import start
live = start()
del _port, start
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The firmware and the wire as flashing precompiles them."""
    target = tmp_path_factory.mktemp("mpy")
    compile_tree(FIRMWARE / "wakeboard", target / "wakeboard")
    compile_tree(PROTOCOL / "wakewire", target / "wakewire")
    return target


def heap_of_a_started_board(port: str, path: list[Path]) -> int:
    machine = (TESTS / "firmware/stub_machine.py").read_text()
    output = run(
        WASM,
        "import gc, json, struct, binascii, time\n" + machine,
        "gc.collect()",
        "before = gc.mem_alloc()",
        START.format(port=port),
        "gc.collect()",
        "print(gc.mem_alloc() - before)",
        "print(live.identity[1], live.boot_id)",
        path=path,
        files={"board.json": b"{}"},
    )
    size, identity = output.split("\n", 1)
    assert identity.strip() == f"{port} b'bootboot'"
    return int(size)


@pytest.mark.parametrize("port", PORTS)
def test_module_and_buffers_take_12_kb(port: str, compiled: Path) -> None:
    """From .mpy, in a fresh interpreter: code, names, buffers, and objects of a started board."""
    assert heap_of_a_started_board(port, [compiled]) <= HEAP_MAX


def test_module_and_buffers_from_source() -> None:
    """Which a board with heap to spare may run, and why flashing precompiles."""
    assert heap_of_a_started_board("rp2", [FIRMWARE, PROTOCOL]) <= HEAP_FROM_SOURCE_MAX


@pytest.mark.parametrize("port", PORTS)
def test_mpy_files_take_10_kb(port: str, compiled: Path) -> None:
    """Those of the firmware, with its one port, without what is loaded on demand."""
    root = compiled / "wakeboard"
    sizes = {
        str(path.relative_to(root)): path.stat().st_size
        for path in root.rglob("*.mpy")
        if path.stem not in ON_DEMAND
    }
    others = {f"ports/{other}.mpy" for other in (*PORTS, "unix")} - {f"ports/{port}.mpy"}
    assert sum(size for name, size in sizes.items() if name not in others) <= MPY_MAX


def test_imports_from_mpy_on_unix(compiled: Path) -> None:
    output = run(
        UNIX,
        "from wakeboard.start import start\nlive = start()\nimport sys\n"
        "print(live.identity[1], 'wakeboard.ports' in sys.modules)",
        path=[compiled],
        heap_bytes=96 * 1024,
    )
    assert output.split() == ["unix", "False"]


def test_a_board_loads_no_module_of_the_host(compiled: Path, tmp_path: Path) -> None:
    target = tmp_path / "board"
    shutil.copytree(compiled, target)
    for name in HOST_ONLY:
        (target / "wakewire" / f"{name}.mpy").unlink()
    script = (
        "from wakeboard.start import start\nlive = start()\n"
        "from wakewire import cbor\n"
        "print(live.answer(cbor.encode([0, 1, 1]))[:3])"
    )
    assert run(UNIX, script, path=[target]).strip() == r"b'\x84\x01\x01'"


def test_an_idle_pass_allocates_nothing() -> None:
    """R of issue 5, on the build with small ints of 31 bits, armed and not."""
    machine = (TESTS / "firmware/stub_machine.py").read_text()
    script = """
def passes(live):
    before = gc.mem_alloc()
    for _ in range(200):
        live.link.receive(live.tick())
    return gc.mem_alloc() - before

live.save_every_ms = 1000000
print(passes(live), end=" ")
live.countdown.set(1, 604800000, 0)
live.save()
print(passes(live))
"""
    output = run(
        WASM,
        "import gc, json, struct, binascii, time\n" + machine,
        START.format(port="rp2"),
        "gc.collect()",
        script,
        path=[FIRMWARE, PROTOCOL],
    )
    assert output.split() == ["0", "0"]
