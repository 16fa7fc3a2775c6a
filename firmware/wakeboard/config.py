"""The configuration of one board: what `board.json` says, and what is wrong with it.

Whatever is in the file, it never stops the board: the default stays in the place of what is wrong,
and hello and the diagnostics say what would be right. `firmware/README.md` explains each setting.
"""

import json

from micropython import const

# Each setting with its default; then the least and greatest number, or the other choice; with
# neither, the port says what fits. In one text, as its names would stay on a board's heap.
_SETTINGS = const("""{
"wake_pin": [null],
"wake_active": ["low", "high"],
"pulse": ["asleep", "always"],
"pulse_ms": [200, 10, 3000],
"awake_window_s": [90, 5, 600],
"backup_interval_s": [0, 0, 3600],
"stream": ["repl"],
"sleep": ["off", "light"]
}""")


def parse(text: str) -> tuple[dict[str, object], list[str]]:
    """The settings that a text asks for, all of them usable, and the faults found in it.

    A fault is ASCII of at most 40 characters, so that hello has room for it.
    """
    rules = json.loads(_SETTINGS)
    settings = {name: rules[name][0] for name in rules}
    try:
        given = json.loads(text)
    except (ValueError, MemoryError):
        given = None
    if type(given) is not dict:
        return settings, ["board.json: not a JSON object"]
    faults = []
    for name in given:  # MicroPython's JSON takes any value for a name
        rule = rules.get(name)
        if not rule:
            plain = [char if " " <= char <= "~" else "?" for char in str(name)[:20]]
            faults.append("".join(plain) + ": no such setting")
        elif _fits(given[name], rule):
            settings[name] = given[name]
        else:
            faults.append("%s: must be %s" % (name, _wanted(rule)))
    return settings, sorted(faults)


def _fits(value: object, rule: list[int]) -> bool:
    if len(rule) == 1:
        return type(value) is str or (rule[0] is None and (value is None or type(value) is int))
    if len(rule) == 2:
        return value in rule
    _, low, high = rule
    return type(value) is int and low <= value <= high


def _wanted(rule: list[int]) -> str:
    if len(rule) == 1:
        return "repl or uart:ID:BAUD" if rule[0] else "a number or a name"
    if len(rule) == 2:
        return "%s or %s" % tuple(rule)
    return "%d to %d" % tuple(rule[1:])
