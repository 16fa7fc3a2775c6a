"""E7, E7c, E7d: where zone rules come from, and what happens when they change."""

import importlib
import importlib.resources
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import whenever

from wakebridge.schedule import zones
from wakebridge.schedule.errors import UnknownZone
from wakebridge.schedule.instants import format_instant_in, parse_instant
from wakebridge.schedule.rules import ALL_DAYS, Local

_INSTALLED = Path(str(importlib.resources.files("tzdata"))) / "zoneinfo"


@pytest.fixture(autouse=True)
def _installed_rules_again() -> Iterator[None]:
    yield
    zones.refresh_zone_rules()


def _release(directory: Path, version: str, lisbon_like: str) -> Path:
    """Make a tz database in which Europe/Lisbon follows the rules of another zone."""
    (directory / "Europe").mkdir(parents=True)
    (directory / "tzdata.zi").write_text(f"# version {version}\nZ Europe/Lisbon -0:36:45\n")
    shutil.copy(_INSTALLED / lisbon_like, directory / "Europe" / "Lisbon")
    return directory


def test_e7c_new_zone_rules_change_future_occurrences(tmp_path: Path) -> None:
    """E7c: the same rule value, asked again after an update, follows the new rules."""
    alarm = Local(7 * 3600, ALL_DAYS, "Europe/Lisbon")
    after_ns = parse_instant("2026-07-01T00:00:00Z")
    zones.refresh_zone_rules(_release(tmp_path / "a", "2026z", "Europe/Lisbon"))
    assert alarm.next_after(after_ns) == parse_instant("2026-07-01T06:00:00Z")
    assert zones.refresh_zone_rules(_release(tmp_path / "b", "2027a", "Atlantic/Azores"))
    assert zones.zone_rules_version() == "2027a"
    assert alarm.next_after(after_ns) == parse_instant("2026-07-01T07:00:00Z")
    assert format_instant_in(after_ns, "Europe/Lisbon") == "2026-07-01T00:00:00+00:00"


def test_e7c_the_same_release_is_not_news(tmp_path: Path) -> None:
    """E7c: only another release means that stored next occurrences are to be computed again."""
    zones.refresh_zone_rules()
    assert not zones.refresh_zone_rules()
    assert zones.refresh_zone_rules(_release(tmp_path, "1999a", "Europe/Lisbon"))


def test_e7c_a_zone_that_an_update_took_away_is_an_error(tmp_path: Path) -> None:
    """E7c: it must not look like a rule without occurrences, which would be deleted."""
    zones.refresh_zone_rules(_release(tmp_path, "2027a", "Europe/Lisbon"))
    with pytest.raises(UnknownZone):
        Local(0, ALL_DAYS, "Europe/Paris").next_after(0)


def test_e7c_a_zone_whose_rules_are_missing_or_broken_is_an_error(tmp_path: Path) -> None:
    """E7c, E35: a damaged installation refuses that zone and keeps the others."""
    release = _release(tmp_path, "2027a", "Europe/Lisbon")
    with (release / "tzdata.zi").open("a") as index:
        index.write("Z Europe/Missing 0 - X\nL Europe/Lisbon Europe/Broken\n")
    (release / "Europe" / "Broken").write_bytes(b"TZif2 and nothing after it")
    zones.refresh_zone_rules(release)
    for name in ("Europe/Missing", "Europe/Broken"):
        with pytest.raises(UnknownZone, match="cannot be read"):
            zones.table(name)
    assert zones.table("Europe/Lisbon").offset_s(0) == 3600


def test_e7d_the_device_and_its_environment_mean_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E7d: neither TZ nor a search path of the environment or of the process is looked at."""
    elsewhere = _release(tmp_path, "2027a", "Atlantic/Azores")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("PYTHONTZPATH", str(elsewhere))
    whenever.reset_tzpath([str(elsewhere)])
    try:
        zones.refresh_zone_rules()
        due_ns = Local(7 * 3600, ALL_DAYS, "Europe/Lisbon").next_after(
            parse_instant("2026-07-01T00:00:00Z")
        )
        assert due_ns == parse_instant("2026-07-01T06:00:00Z")
        assert whenever.get_tzpath() == (str(elsewhere),)
    finally:
        monkeypatch.undo()
        whenever.reset_tzpath()
        whenever.clear_tzcache()


def test_e7_the_version_is_that_of_the_installed_package() -> None:
    """E7c: the release is named, for a store to compare."""
    package = importlib.import_module("tzdata")
    assert zones.zone_rules_version() == package.IANA_VERSION
    listed = (_INSTALLED.parent / "zones").read_text().split()
    assert set(listed) == zones.zone_names() | {"Factory"}


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("europe/lisbon", "Europe/Lisbon"),
        ("Europe/Lisbom", "Europe/Lisbon"),
        ("Lisbon", "Europe/Lisbon"),
        ("new york", "America/New_York"),
        ("Buenos Aires", "Buenos_Aires"),
        ("utc", "UTC"),
    ],
)
def test_e7_an_unknown_zone_gets_the_nearest_name(name: str, suggestion: str) -> None:
    """E7, E12."""
    with pytest.raises(UnknownZone) as refused:
        zones.table(name)
    assert f"{suggestion}'" in refused.value.reason


@pytest.mark.parametrize(
    "name",
    [
        *("", "localtime", "Factory", "posixrules", "posix/Europe/Paris", "right/Europe/Paris"),
        *(
            "../../etc/passwd",
            "/etc/localtime",
            "Europe/../Europe/Paris",
            "Europe/Paris/",
            "tzdata.zi",
        ),
        *(
            "Europe",
            "Europe/Paris\0",
            " Europe/Paris",
            "\ud800",
            "A" * 100_000,
            "EST5EDT,M3.2.0,M11.1.0",
        ),
    ],
)
def test_e7_names_that_are_no_zone_are_refused_unread(name: str) -> None:
    """E7: only a name of the tz database's own index reaches the file system."""
    with pytest.raises(UnknownZone) as refused:
        zones.table(name)
    assert refused.value.reason.isprintable()
    assert len(refused.value.reason) < 160
