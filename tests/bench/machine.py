"""What the figures were measured on, and with which versions of everything."""

import os
import platform
import sqlite3
import subprocess
import textwrap
from importlib import metadata
from pathlib import Path

from brokers import MOSQUITTO

_ROOT = Path(__file__).parent.parent.parent


def describe(peers: dict[str, str]) -> list[str]:
    """Return lines for the head of a report; `peers` are the versions of the others."""
    load = " ".join(f"{each:.2f}" for each in os.getloadavg())
    versions = {
        "wakebridge": f"{metadata.version('wakebridge')} ({_commit()})",
        "CPython": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
        "mosquitto": _mosquitto(),
        "aiomqtt": metadata.version("aiomqtt"),
        **peers,
    }
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    wrapped = textwrap.wrap(named, 84, break_on_hyphens=False)
    return [
        f"machine   {_processor()}, {os.cpu_count()} cores, Linux {platform.release()}",
        f"disk      {_file_system(_ROOT)}; load before the run {load}",
        f"versions  {wrapped[0]}",
        *(f"          {line}" for line in wrapped[1:]),
    ]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"model name", "Model", "Hardware"}:
            return value.strip()
    return platform.machine()


def _file_system(path: Path) -> str:
    """Return the type of the file system that holds a path."""
    found = ("", "unknown")
    for line in Path("/proc/mounts").read_text().splitlines():
        _, where, kind, *_ = line.split()
        if path.is_relative_to(where) and len(where) >= len(found[0]):
            found = (where, kind)
    return found[1]


def _commit() -> str:
    said = subprocess.run(
        ("git", "-C", str(_ROOT), "rev-parse", "--short", "HEAD"),
        capture_output=True,
        text=True,
    )
    return said.stdout.strip() or "no commit"


def _mosquitto() -> str:
    said = subprocess.run((MOSQUITTO, "-h"), capture_output=True, text=True).stdout.split()
    return said[said.index("version") + 1]
