"""What the wire costs a board: no allocation per byte, little heap, nothing of the host's."""

import ast
import json
from pathlib import Path
from typing import Final

import pytest

from micropython_runner import BUILDS, PROTOCOL, TESTS, WASM, Build, compile_tree, run

WIRE: Final = PROTOCOL / "wakewire"
BOARD_MODULES: Final = ("cbor", "framing")

# Bytes on a 32-bit build, a decoder and its buffer included; the whole firmware may take 12 KB.
BOARD_HEAP_MAX: Final = 4200

# Everything a run can hold but its end: plain bytes, escapes, passed over bytes, more than fits.
PUSH_SCRIPT = """
import gc
from wakewire.framing import Decoder
decoder = Decoder()
push = decoder.push
stream = b"~" + bytes(range(32)) + b"}]}}a\\x7f\\xff" * 200
for byte in stream:
    push(byte)
gc.collect()
before = gc.mem_alloc()
for byte in stream[1:]:
    push(byte)
print(gc.mem_alloc() - before)
"""


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
def test_pushing_bytes_allocates_nothing(build: Build) -> None:
    # The slice of the stream is the one allocation: its bytes, its object.
    assert int(run(build, PUSH_SCRIPT, path=[PROTOCOL])) < 32 + 7 * 200 + 128


def test_heap_of_the_board_modules(tmp_path: Path) -> None:
    """On a 32-bit build, from .mpy. Names enough to fill the interned pool's next doubling come
    first: how much room a doubling leaves over is chance, and all modules share it.
    """
    compile_tree(WIRE, tmp_path / "wakewire")
    names = "\n".join(f"hasattr(sys, 'spare_name_{at}')" for at in range(130))
    imports = "\n".join(f"import wakewire.{name}" for name in BOARD_MODULES)
    output = run(
        WASM,
        "import gc, sys, binascii",
        names,
        "gc.collect()",
        "before = gc.mem_alloc()",
        f"{imports}\ndecoder = wakewire.framing.Decoder()",
        "gc.collect()",
        "print(gc.mem_alloc() - before)",
        path=[tmp_path],
    )
    assert int(output) <= BOARD_HEAP_MAX


@pytest.mark.parametrize("name", [*BOARD_MODULES, "codes"])
def test_board_modules_import_each_other_alone(name: str) -> None:
    imported = set()
    for node in ast.walk(ast.parse((WIRE / f"{name}.py").read_text())):
        if isinstance(node, ast.ImportFrom):
            imported.add(node.module)
        elif isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
    assert imported <= {
        "binascii",
        "wakewire",
        *(f"wakewire.{module}" for module in (*BOARD_MODULES, "text", "errors")),
    }


def test_lock_file_names_no_registry() -> None:
    """So that it installs from whichever registry is at hand, checked by its hash."""
    lock = json.loads((TESTS / "package-lock.json").read_text())
    package = lock["packages"]["node_modules/@micropython/micropython-webassembly-pyscript"]
    assert package["integrity"].startswith("sha512-")
    assert not any("resolved" in entry for entry in lock["packages"].values())
