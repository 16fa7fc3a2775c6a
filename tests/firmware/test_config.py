"""The board's own settings: a wrong one is named, and costs the board nothing else."""

import json

import pytest
from wakeboard import config

DEFAULTS, _ = config.parse("{}")


def parse(**settings: object) -> tuple[dict[str, object], list[str]]:
    return config.parse(json.dumps(settings))


def test_defaults_are_safe() -> None:
    assert DEFAULTS == {
        "wake_pin": None,
        "wake_active": "low",
        "pulse": "asleep",
        "pulse_ms": 200,
        "awake_window_s": 60,
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
    ("name", "value"),
    [
        ("wake_pin", [15]),
        ("wake_pin", 1.5),
        ("wake_active", "LOW"),
        ("wake_active", None),
        ("pulse", True),
        ("pulse_ms", 9),
        ("pulse_ms", 3001),
        ("pulse_ms", "200"),
        ("pulse_ms", True),
        ("awake_window_s", 0),
        ("backup_interval_s", -1),
        ("stream", {"uart": 1}),
        ("sleep", "deep"),
        ("pluse_ms", 200),
    ],
)
def test_wrong_value_is_named_and_its_default_stands(name: str, value: object) -> None:
    settings, faults = parse(**{name: value})
    assert settings == DEFAULTS
    assert faults == [name + ": not usable"]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", '"pulse"', "\x00", "{'pulse': 1}"])
def test_file_that_is_no_object_is_one_fault(text: str) -> None:
    assert config.parse(text) == (DEFAULTS, ["board.json: no JSON object"])


def test_one_wrong_value_leaves_the_others() -> None:
    settings, faults = parse(pulse_ms=1, wake_pin=3, colour="red")
    assert settings["wake_pin"] == 3
    assert faults == ["colour: not usable", "pulse_ms: not usable"]


def test_name_of_any_length_stays_short() -> None:
    assert len(parse(**{"x" * 500: 1})[1][0]) <= 40
