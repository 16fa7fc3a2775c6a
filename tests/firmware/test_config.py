"""The board's own settings: a wrong one is named, and costs the board nothing else."""

import json
import re

import pytest
from wakeboard import config

from micropython_runner import BUILDS, FIRMWARE, Build, run

DEFAULTS, _ = config.parse("{}")


def parse(**settings: object) -> tuple[dict[str, object], list[str]]:
    return config.parse(json.dumps(settings))


def test_defaults_are_safe() -> None:
    assert DEFAULTS == {
        "wake_pin": None,
        "wake_active": "low",
        "pulse": "asleep",
        "pulse_ms": 200,
        "awake_window_s": 90,
        "backup_interval_s": 0,
        "stream": "repl",
        "sleep": "off",
    }


def test_every_setting_can_be_set() -> None:
    wanted: dict[str, object] = {
        "wake_pin": "GP15",
        "wake_active": "high",
        "pulse": "always",
        "pulse_ms": 3000,
        "awake_window_s": 5,
        "backup_interval_s": 3600,
        "stream": "uart:1:115200:4:5",
        "sleep": "light",
    }
    assert parse(**wanted) == (wanted, [])
    assert wanted.keys() == DEFAULTS.keys()
    assert parse(wake_pin=15)[0]["wake_pin"] == 15


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("wake_pin", [15], "a number or a name"),
        ("wake_pin", 1.5, "a number or a name"),
        ("wake_active", "LOW", "low or high"),
        ("wake_active", None, "low or high"),
        ("pulse", True, "asleep or always"),
        ("pulse_ms", 9, "10 to 3000"),
        ("pulse_ms", 3001, "10 to 3000"),
        ("pulse_ms", "200", "10 to 3000"),
        ("pulse_ms", True, "10 to 3000"),
        ("awake_window_s", 0, "5 to 600"),
        ("backup_interval_s", -1, "0 to 3600"),
        ("stream", {"uart": 1}, "repl or uart:ID:BAUD"),
        ("stream", 1, "repl or uart:ID:BAUD"),
        ("sleep", "deep", "off or light"),
    ],
)
def test_wrong_value_is_named_with_what_would_be_right(
    name: str, value: object, wanted: str
) -> None:
    settings, faults = parse(**{name: value})
    assert settings == DEFAULTS
    assert faults == [f"{name}: must be {wanted}"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", '"pulse"', "\x00", "{'pulse': 1}"])
def test_file_that_is_no_object_is_one_fault(text: str) -> None:
    assert config.parse(text) == (DEFAULTS, ["board.json: not a JSON object"])


def test_one_wrong_value_leaves_the_others() -> None:
    settings, faults = parse(pulse_ms=1, wake_pin=3, colour="red")
    assert settings["wake_pin"] == 3
    assert faults == ["colour: no such setting", "pulse_ms: must be 10 to 3000"]


NAMES = [
    *('"pluse_ms"', '"%s"' % ("x" * 500), '"%s"' % ("\U0001d11e" * 30), '"\\u0007\\n"', '""'),
    *("15", "null", "1.5", "false", '"\\ud800"'),
]


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
def test_any_name_is_one_short_fault_for_hello(build: Build) -> None:
    """On a board, whose JSON takes numbers for names and half a surrogate pair for text."""
    script = (
        "from wakeboard import config\n"
        f"for name in {NAMES!r}:\n"
        "    settings, faults = config.parse('{%s: 1, \"pulse_ms\": 300}' % name)\n"
        "    print(settings['pulse_ms'], faults)"
    )
    printed = run(build, script, path=[FIRMWARE]).splitlines()
    for name, line in zip(NAMES, printed, strict=True):
        fault = re.fullmatch(r"300 \['([ -~]{0,20}): no such setting'\]", line)
        assert fault is not None, (name, line)
