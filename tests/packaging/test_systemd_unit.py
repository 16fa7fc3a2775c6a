"""The unit in `host/packaging/systemd`, judged by systemd's own tools."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "host/packaging/systemd/wakebridge.service"
SYSUSERS = ROOT / "host/packaging/systemd/wakebridge.sysusers"
HOW_TO = ROOT / "host/docs/how-to/install-as-a-service.md"
SECURITY = ROOT / "host/docs/explanation/security.md"

EXPOSURE_MAX = 2.5
"""systemd's scale goes from 0, closed, to 10. A change that opens more than this needs a reason."""


def settings() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        name, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that exists on this machine."""
    command = Path(sys.executable).with_name("wakebridge")
    text = re.sub(r"^ExecStart=\S+", f"ExecStart={command}", UNIT.read_text(), flags=re.MULTILINE)
    copy = tmp_path / "wakebridge.service"
    copy.write_text(text)
    return copy


def analyze(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ("systemd-analyze", "--no-pager", *arguments), capture_output=True, text=True, timeout=60
    )


def test_systemd_finds_nothing_to_complain_of(unit: Path) -> None:
    verified = analyze("verify", str(unit))
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")


@pytest.fixture
def exposure(unit: Path) -> float:
    judged = analyze("security", "--offline=true", str(unit))
    found = re.search(r"Overall exposure level for wakebridge.service: ([\d.]+)", judged.stdout)
    assert found is not None, judged.stdout + judged.stderr
    return float(found[1])


def test_the_service_is_closed_and_the_documents_say_how_far(exposure: float) -> None:
    assert exposure <= EXPOSURE_MAX
    for document in (HOW_TO, SECURITY):
        told = re.search(r"systemd\s+(\d+)\s+gives\s+it\s+(\d+\.\d)", document.read_text())
        assert told is not None, document
        # Each version of systemd knows more to ask; what one says is compared with that one.
        if told[1] == systemd_version():
            assert float(told[2]) == exposure


def systemd_version() -> str:
    return analyze("--version").stdout.split()[1]


def test_what_is_left_open_is_what_the_document_lists(unit: Path) -> None:
    judged = analyze("security", "--offline=true", "--json=short", str(unit))
    checks: list[dict[str, Any]] = json.loads(judged.stdout)
    # A check names one setting, or one with the value it looks for.
    left_open = {re.split("[=/]", check["name"])[0] for check in checks if check["exposure"]}
    told = set(re.findall(r"^\| `(\w+)=` \|", SECURITY.read_text(), flags=re.MULTILINE))
    if f"systemd {systemd_version()} gives it" in " ".join(SECURITY.read_text().split()):
        assert left_open == told


def test_the_service_manager_is_told_and_may_kill_a_bridge_that_hangs() -> None:
    unit = settings()
    assert unit["Type"] == ["notify"]
    assert unit["WatchdogSec"] == ["60s"]
    assert unit["Restart"] == ["on-failure"]


def test_it_starts_after_the_clock_is_set_and_stops_before_the_broker() -> None:
    """E71; and the retained `offline` needs a broker that is still there."""
    after = settings()["After"][0].split()
    assert {"time-sync.target", "mosquitto.service"} <= set(after)
    assert "Wants" not in settings()  # where nothing sets the clock, the bridge starts as well


def test_the_clock_can_be_asked_and_not_set() -> None:
    """`trust_kernel_sync` reads adjtimex(2), which ProtectClock= forbids; setting needs a right."""
    unit = settings()
    assert "ProtectClock" not in unit
    assert unit["CapabilityBoundingSet"] == [""]
    assert "adjtimex clock_adjtime clock_adjtime64" in unit["SystemCallFilter"]


def test_the_user_of_the_unit_is_the_one_that_sysusers_makes() -> None:
    lines = [line.split() for line in SYSUSERS.read_text().splitlines() if line[:1] in "um"]
    [user] = settings()["User"]
    [group] = settings()["SupplementaryGroups"]
    assert [line[:2] for line in lines] == [["u", user], ["m", user]]
    assert lines[1][2] == group
    checked = subprocess.run(
        ("systemd-sysusers", "--dry-run", "-"),
        input=SYSUSERS.read_text(),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert checked.returncode == 0, checked.stderr


def test_serial_ports_are_the_only_devices() -> None:
    unit = settings()
    assert unit["DevicePolicy"] == ["closed"]
    assert all(each.startswith("char-tty") for each in unit["DeviceAllow"])
