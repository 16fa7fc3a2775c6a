"""The input of the `schedule` tool: its types, its JSON Schema, its refusals (R1 to R4).

`parse` is the only reader of what an agent wrote. `ARGS_SCHEMA` is generated from the same types,
so that what the schema allows is what `parse` accepts, but for the date of `run_at`.
"""

import re
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from wakebridge.routine.change import Code, Refusal
from wakebridge.routine.limits import (
    DELAY_MAX_S,
    ID_MAX_CHARS,
    INTERVAL_MAX_S,
    RUN_AT_MAX_CHARS,
    TASK_MAX_CHARS,
    TASK_PATTERN,
    TASK_RULE,
)
from wakebridge.routine.routine import Definition
from wakebridge.schedule.errors import BadInstant
from wakebridge.schedule.instants import parse_instant

DESCRIPTION = (
    "Continue this conversation later, once or again and again, also while the device sleeps in "
    "between. List before you create. A task runs in this conversation as a new input. When "
    "timer_error is not empty, the schedule is saved but its wake-up is not confirmed yet."
)

_RULES = {
    "action": "action is one of create, list, update, cancel",
    "id": f"id is the id of a routine, text of 1 to {ID_MAX_CHARS} characters",
    "task": f"task is {TASK_RULE}",
    "delay_s": f"delay_s is a whole number of seconds from 1 to {DELAY_MAX_S}",
    "run_at": "run_at is an RFC 3339 instant with a zone, such as 2026-10-23T09:00:00+02:00",
    "interval_s": (
        f"interval_s is a whole number of seconds from 1 to {INTERVAL_MAX_S}, or 0 for once"
    ),
}

_Task = Annotated[
    str,
    Meta(min_length=1, max_length=TASK_MAX_CHARS, pattern=TASK_PATTERN, description=_RULES["task"]),
]
_DelayS = Annotated[int, Meta(ge=1, le=DELAY_MAX_S, description=_RULES["delay_s"])]
_RunAt = Annotated[
    str,
    Meta(
        max_length=RUN_AT_MAX_CHARS,
        description=_RULES["run_at"],
        extra_json_schema={"format": "date-time"},
    ),
]
_IntervalS = Annotated[int, Meta(ge=0, le=INTERVAL_MAX_S, description=_RULES["interval_s"])]
_RoutineId = Annotated[str, Meta(min_length=1, max_length=ID_MAX_CHARS, description=_RULES["id"])]


class _Create(msgspec.Struct, tag_field="action", tag="create", forbid_unknown_fields=True):
    task: _Task
    delay_s: _DelayS | UnsetType = UNSET
    run_at: _RunAt | UnsetType = UNSET
    interval_s: _IntervalS = 0


class _Update(msgspec.Struct, tag_field="action", tag="update", forbid_unknown_fields=True):
    id: _RoutineId
    task: _Task
    delay_s: _DelayS | UnsetType = UNSET
    run_at: _RunAt | UnsetType = UNSET
    interval_s: _IntervalS = 0


class _List(msgspec.Struct, tag_field="action", tag="list", forbid_unknown_fields=True):
    pass


class _Cancel(msgspec.Struct, tag_field="action", tag="cancel", forbid_unknown_fields=True):
    id: _RoutineId


class Create(msgspec.Struct, frozen=True):
    """Save a task in the caller's conversation."""

    definition: Definition


class Update(msgspec.Struct, frozen=True):
    """Replace a stopped or pending routine."""

    id: str
    definition: Definition


class List(msgspec.Struct, frozen=True):
    """Show every routine."""


class Cancel(msgspec.Struct, frozen=True):
    """Cancel future runs and ask a running one to stop."""

    id: str


Request = Create | Update | List | Cancel


def parse(value: object) -> Request | Refusal:
    """Return the request in a decoded JSON value, or a refusal that names the field."""
    try:
        read = msgspec.convert(value, type=_Create | _Update | _List | _Cancel)
    except msgspec.ValidationError as error:
        return _refused(str(error))
    match read:
        case _List():
            return List()
        case _Cancel(id=routine_id):
            return Cancel(routine_id)
    definition = _definition(read)
    if isinstance(definition, Refusal):
        return definition
    if isinstance(read, _Update):
        return Update(read.id, definition)
    return Create(definition)


def _definition(read: _Create | _Update) -> Definition | Refusal:
    if read.delay_s is not UNSET and read.run_at is not UNSET:
        reason = "delay_s and run_at exclude each other: give exactly one of them"
        return Refusal(Code.INVALID, reason, "run_at")
    if read.delay_s is not UNSET:
        return Definition(task=read.task, delay_s=read.delay_s, interval_s=read.interval_s)
    if read.run_at is UNSET:
        reason = "neither delay_s nor run_at is given: give exactly one of them"
        return Refusal(Code.INVALID, reason, "delay_s")
    try:
        run_at_ns = parse_instant(read.run_at)
    except BadInstant as error:
        return Refusal(Code.INVALID, f"run_at: {error}", "run_at")
    return Definition(task=read.task, run_at_ns=run_at_ns, interval_s=read.interval_s)


def _refused(message: str) -> Refusal:
    """Turn a validation message into a sentence that names the field and its rule."""
    unknown = re.search(r"unknown field `(.*)`", message, re.DOTALL)
    if unknown is not None:
        name = unknown[1][:40]
        return Refusal(Code.INVALID, f"there is no field {name!r} in this action", name)
    missing = re.search(r"missing required field `(\w+)`", message)
    if missing is not None:
        rule = _RULES[missing[1]]
        return Refusal(Code.INVALID, f"{missing[1]} is missing: {rule}", missing[1])
    at = re.search(r"at `\$\.(\w+)`$", message)
    if at is None or at[1] not in _RULES:
        return Refusal(Code.INVALID, "the input is a JSON object with an action", "input")
    got = re.search(r"got `(\w+)`", message)
    detail = f", not {got[1]}" if got is not None else ""
    return Refusal(Code.INVALID, _RULES[at[1]] + detail, at[1])


def _args_schema() -> dict[str, Any]:
    """Return one object schema with one alternative per action, without references."""
    kinds = (_Create, _List, _Update, _Cancel)
    _, components = msgspec.json.schema_components(kinds)
    actions = []
    for kind in kinds:
        schema = components[kind.__name__]
        del schema["title"]
        if "delay_s" in schema["properties"]:
            schema["oneOf"] = [{"required": ["delay_s"]}, {"required": ["run_at"]}]
        actions.append(schema)
    names = [schema["properties"]["action"]["enum"][0] for schema in actions]
    action = {"type": "string", "enum": names, "description": _RULES["action"]}
    return {
        "type": "object",
        "properties": {"action": action},
        "required": ["action"],
        "oneOf": actions,
    }


ARGS_SCHEMA = _args_schema()
"""JSON Schema (2020-12) of the tool's input."""
