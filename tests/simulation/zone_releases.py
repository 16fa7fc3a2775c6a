"""Releases of the time-zone rules, as a host finds them on its disk."""

import importlib.resources
import shutil
from pathlib import Path


def zone_releases(folder: Path) -> list[Path]:
    """Return two releases of the zone rules: the installed one, and one with other rules."""
    installed_rules = Path(str(importlib.resources.files("tzdata"))) / "zoneinfo"
    other = folder / "zones"
    other.mkdir(parents=True)
    index = (installed_rules / "tzdata.zi").read_text().splitlines()
    (other / "tzdata.zi").write_text("\n".join(["# version 2099z", *index[1:]]))
    for name, rules in {
        "Europe/Lisbon": "Europe/Madrid",
        "America/New_York": "America/Bogota",
        "Australia/Lord_Howe": "Australia/Lord_Howe",
        "America/Nuuk": "America/Nuuk",
        "UTC": "UTC",
    }.items():
        (other / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(installed_rules / rules, other / name)
    return [installed_rules, other]


def zone_version(directory: Path) -> str:
    with (directory / "tzdata.zi").open() as index:
        return index.readline().split()[-1]
