"""The factory content of the desk board's flash: the firmware of this checkout or wheel."""

import shutil
from pathlib import Path

import wakewire
from wakebridge.simboard.errors import FirmwareMissingError

_START_FILES = ("main.py", "boot.py")
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
    if (source / "wakeboard").is_dir():
        _copy_package(source / "wakeboard", flash / "wakeboard")
    _copy_package(Path(next(iter(wakewire.__path__))), flash / "wakewire")
    (flash / _CONFIGURATION).write_text(_DESK_CONFIGURATION, encoding="ascii")
    return True


def _copy_package(source: Path, target: Path) -> None:
    for file in sorted(source.rglob("*.py")):
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, copy)
