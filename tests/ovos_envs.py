"""Real OVOS software for tests: two vintages, each in a virtual environment of its own.

`python tests/ovos_envs.py` makes both, which needs a package index; the tests make what is missing.
An environment lies under `.cache/`, named after its pins, is made once and never changed.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parent.parent
_PINS: Final = Path(__file__).parent / "ovos"
INSTALL_TIMEOUT_S: Final = 900.0


@dataclass(frozen=True)
class Vintage:
    """One generation of OVOS. `pins` names every package and version it is made of."""

    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def pins(self) -> Path:
        return _PINS / f"requirements-{self.name}.txt"

    @property
    def directory(self) -> Path:
        """Where the environment is: another one for other pins or another Python."""
        made_of = hashlib.sha256(self.pins.read_bytes() + sys.version.encode()).hexdigest()
        return _ROOT / ".cache" / f"ovos-{self.name}-{made_of[:12]}"

    def python(self) -> Path:
        """Return the environment's interpreter, making the environment first when there is none."""
        directory = self.directory
        directory.parent.mkdir(exist_ok=True)
        with Path(f"{directory}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another test run may be making it
            finished = directory / "finished"
            if not finished.exists():
                shutil.rmtree(directory, ignore_errors=True)
                self._make(directory)
                finished.touch()
        return directory / "bin" / "python"

    def _make(self, directory: Path) -> None:
        print(f"making the OVOS environment {self.name} in {directory}", file=sys.stderr)
        python = str(directory / "bin" / "python")
        # The pins are complete, so nothing is to be resolved.
        install = ("-m", "pip", "install", "--quiet", "--no-deps", "--requirement", str(self.pins))
        for command in ((sys.executable, "-m", "venv", str(directory)), (python, *install)):
            subprocess.run(command, check=True, timeout=INSTALL_TIMEOUT_S)


STABLE: Final = Vintage("stable")
PRERELEASE: Final = Vintage("prerelease")
VINTAGES: Final = (STABLE, PRERELEASE)


if __name__ == "__main__":
    for each in VINTAGES:
        each.python()
