"""Type stubs of MicroPython's ports, for checking the firmware against each board's own modules.

`python tests/board_stubs.py` fetches them, which needs a package index; the tests fetch what is
missing. They lie under `.cache/`, away from the environment: each port has a `machine` of its own.
"""

import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Final

_TESTS: Final = Path(__file__).parent
_PINS: Final = _TESTS / "firmware/requirements-stubs.txt"
_PREFIX: Final = "micropython-"
_SUFFIX: Final = "-stubs"
INSTALL_TIMEOUT_S: Final = 300.0


def stubs() -> dict[str, Path]:
    """Return the directory of each port's stubs, and of `stdlib`'s; fetch what is missing."""
    text = _PINS.read_text()
    pins = [line for line in text.splitlines() if line.startswith(_PREFIX)]
    made_of = hashlib.sha256(text.encode()).hexdigest()[:12]
    root = _TESTS.parent / ".cache" / f"board-stubs-{made_of}"
    root.mkdir(parents=True, exist_ok=True)
    found = {}
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test run may be fetching them
        for pin in pins:
            name = pin.partition("==")[0].removeprefix(_PREFIX).removesuffix(_SUFFIX)
            found[name] = root / name
            finished = root / f"{name}.finished"
            if not finished.exists():
                _fetch(pin, found[name])
                finished.touch()
    return found


def _fetch(pin: str, target: Path) -> None:
    print(f"fetching {pin} into {target}", file=sys.stderr)
    options = ["--quiet", "--no-deps", "--upgrade", "--target", str(target)]
    command = [sys.executable, "-m", "pip", "install", *options, pin]
    subprocess.run(command, check=True, timeout=INSTALL_TIMEOUT_S)


if __name__ == "__main__":
    stubs()
