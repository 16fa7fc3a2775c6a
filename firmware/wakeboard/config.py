"""The configuration of one board: what `board.json` says, and what is wrong with it.

A value that is wrong or unknown never stops the board: the default stays in its place and the
fault is reported in hello and by the diagnostics. `firmware/README.md` explains each setting.
"""

import json

from micropython import const

# Each setting with its default; then the least and greatest number, or the other choices; with
# neither, the port says what fits. In one text, as its names would stay on a board's heap.
_SETTINGS = const("""{
"wake_pin": [null],
"wake_active": ["low", "high"],
"pulse": ["asleep", "always"],
"pulse_ms": [200, 10, 3000],
"awake_window_s": [60, 5, 600],
"backup_interval_s": [0, 0, 3600],
"stream": ["repl"],
"sleep": ["off", "light"]
}""")


def parse(text: str) -> tuple[dict[str, object], list[str]]:
    """The settings that a text asks for, all of them usable, and the faults found in it."""
    rules = json.loads(_SETTINGS)
    settings = {name: rules[name][0] for name in rules}
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if type(given) is not dict:
        return settings, ["board.json: no JSON object"]
    faults = []
    for name in sorted(given):
        if name in rules and _fits(given[name], rules[name]):
            settings[name] = given[name]
        else:
            faults.append(name[:20] + ": not usable")
    return settings, faults


def _fits(value: object, rule: list[int]) -> bool:
    if len(rule) == 1:
        return value is None or type(value) in (int, str)
    if len(rule) == 2:
        return value in rule
    _, low, high = rule
    return type(value) is int and low <= value <= high
