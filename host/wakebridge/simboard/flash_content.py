"""The factory content of the desk board's flash: the firmware of this checkout or wheel."""

import json
import shutil
from pathlib import Path

import wakewire
from wakebridge.simboard.errors import FirmwareMissingError

_START_FILES = ("main.py", "boot.py")
_PACKAGE = "package.json"
_CONFIGURATION = "board.json"
# The host of a desk board never sleeps, so the wake line is pulsed whether it answers or not.
_DESK_CONFIGURATION = '{"pulse": "always"}\n'


def firmware_directory() -> Path:
    """Return where the firmware's sources are: in the installed package, else in the checkout."""
    package = Path(__file__).resolve().parent
    for candidate in (package / "firmware", package.parents[2] / "firmware"):
        if (candidate / "main.py").is_file():
            return candidate
    raise FirmwareMissingError(f"no firmware/main.py beside {package} or in {package.parents[2]}")


def fill(flash: Path, firmware: Path | None = None) -> bool:
    """Put the factory content into an empty flash; return whether there was anything to do."""
    flash.mkdir(parents=True, exist_ok=True)
    if any(flash.iterdir()):
        return False
    source = firmware or firmware_directory()
    if not (source / "main.py").is_file():
        raise FirmwareMissingError(f"there is no main.py in {source}")
    for name in _START_FILES:
        if (source / name).is_file():
            shutil.copy2(source / name, flash / name)
    _copy_package(source, flash)
    (flash / _CONFIGURATION).write_text(_DESK_CONFIGURATION, encoding="ascii")
    return True


def _copy_package(source: Path, flash: Path) -> None:
    """Copy what the firmware's package lists, as mip would; a firmware without one is main.py."""
    if not (source / _PACKAGE).is_file():
        return
    wire = Path(next(iter(wakewire.__path__))).parent
    for name, place in json.loads((source / _PACKAGE).read_text(encoding="utf-8"))["urls"]:
        # Beside the sources in a checkout; in a wheel the wire package lies where it is installed.
        file = source / place if (source / place).is_file() else wire / name
        (flash / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, flash / name)
