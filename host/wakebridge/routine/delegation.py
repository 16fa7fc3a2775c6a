"""The input of `create_agent_task`, with which a realtime foreground delegates work (R11)."""

from typing import Annotated, Any

import msgspec

from wakebridge.routine.change import Code, Refusal
from wakebridge.routine.limits import TASK_MAX_CHARS, TASK_PATTERN, TASK_RULE

DESCRIPTION = (
    "Hand a task over to the backend agent, which works in this conversation with all its tools. "
    "Scheduling is such a task."
)


class AgentTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the backend agent should do, in words."""

    task: Annotated[
        str, msgspec.Meta(min_length=1, max_length=TASK_MAX_CHARS, pattern=TASK_PATTERN)
    ]


def parse(value: object) -> AgentTask | Refusal:
    """Return the task in a decoded JSON value, or a refusal that names the field."""
    try:
        return msgspec.convert(value, AgentTask)
    except msgspec.ValidationError:
        reason = f'the input is {{"task": "..."}} and nothing else; the task is {TASK_RULE}'
        return Refusal(Code.INVALID, reason, "task")


def _args_schema() -> dict[str, Any]:
    _, components = msgspec.json.schema_components([AgentTask])
    schema: dict[str, Any] = components["AgentTask"]
    del schema["title"]
    return schema


ARGS_SCHEMA = _args_schema()
"""JSON Schema (2020-12) of the tool's input."""
