"""The bodies of requests and answers: what is read is checked, what is written is documented."""

from typing import Annotated, Any, Literal

import msgspec

from wakebridge.routine.limits import (
    BUSY_LEASE_MAX_S,
    DELAY_MAX_S,
    ID_MAX_CHARS,
    SESSION_ID_PATTERN,
    SESSION_ID_RULE,
    TASK_MAX_CHARS,
    TASK_PATTERN,
    TASK_RULE,
)
from wakebridge.runner.messages import Report

__all__ = ["Report"]

# A description is what a client is told that sends something else: see `operation.read`.
SessionId = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=ID_MAX_CHARS,
        pattern=SESSION_ID_PATTERN,
        description=SESSION_ID_RULE,
    ),
]
Task = Annotated[
    str,
    msgspec.Meta(
        min_length=1, max_length=TASK_MAX_CHARS, pattern=TASK_PATTERN, description=TASK_RULE
    ),
]
Reason = Annotated[
    str, msgspec.Meta(max_length=1000, description="text of at most 1000 characters")
]

Object = Annotated[dict[str, Any], msgspec.Meta(description="a JSON object")]


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the request bodies: an unknown field is an error."""


class _ToolCall(Body, frozen=True, kw_only=True):
    """One call of a tool: exactly one of `input` and `raw_input`, its JSON text."""

    input: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    raw_input: str | msgspec.UnsetType = msgspec.UNSET
    session_id: SessionId | msgspec.UnsetType = msgspec.UNSET


ToolCall = Annotated[
    _ToolCall,
    msgspec.Meta(
        extra_json_schema={"oneOf": [{"required": ["input"]}, {"required": ["raw_input"]}]}
    ),
]


class OpenSession(Body, frozen=True, kw_only=True):
    """Enter a new backend session."""

    session_id: SessionId


class ReviseSession(Body, frozen=True, kw_only=True):
    """The revision that compaction made."""

    new_session_id: SessionId


class ReplaceSession(Body, frozen=True, kw_only=True):
    """The new root that a configuration change started."""

    new_session_id: SessionId
    reason: Reason | None = None


class ClearSession(Body, frozen=True, kw_only=True):
    """Why the history was cleared."""

    reason: Reason | None = None


class SubmitRun(Body, frozen=True, kw_only=True):
    """An interactive request or background work for a session.

    `interrupts` lets an interactive request stop scheduled or background work.
    """

    kind: Literal["interactive", "background"]
    task: Task
    interrupts: bool = False


class Busy(Body, frozen=True, kw_only=True):
    """For how long the backend works in a session without the bridge; say it again to go on.

    With `interrupts` it is an interactive request that is worked on, which asks scheduled or
    background work that is active in the session to stop.
    """

    lease_s: Annotated[
        float,
        msgspec.Meta(
            gt=0,
            le=BUSY_LEASE_MAX_S,
            description=f"a number of seconds, more than 0 and at most {BUSY_LEASE_MAX_S}",
        ),
    ]
    interrupts: bool = False


class SetTimer(Body, frozen=True, kw_only=True):
    """A countdown set by hand, to the millisecond."""

    duration_s: Annotated[
        float,
        msgspec.Meta(
            ge=1, le=DELAY_MAX_S, description=f"a number of seconds from 1 to {DELAY_MAX_S}"
        ),
    ]


class LendPort(Body, frozen=True, kw_only=True):
    """For how long a technician may have the port, and on which TCP port (0: a free one)."""

    limit_s: Annotated[
        float,
        msgspec.Meta(ge=1, le=86_400, description="a number of seconds from 1 to 86400"),
    ] = 1800.0
    tcp_port: Annotated[
        float,
        msgspec.Meta(ge=0, le=65_535, multiple_of=1, description="a whole number from 0 to 65535"),
    ] = 0


class SchedulerRequest(Body, frozen=True, kw_only=True):
    """A request of OVOS-SCHEDULER-1; fires go to the bus that `route` names."""

    data: Object
    context: Object
    route: Literal["mqtt", "ovos"] = "mqtt"


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """It is done, and durable."""

    ok: bool = True


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """The work is queued, and durable. `run_id` is what it has in the session's transcript."""

    run_id: str


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """No new run starts in the session. `active_run` is the bridge's run that works in it now."""

    active_run: str | None


class Timer(msgspec.Struct, frozen=True, kw_only=True):
    """The live countdown. `approximate`: the board restored it from a checkpoint."""

    state: str
    remaining_s: float | None
    token: int | None
    approximate: bool


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """What was wrong, in one sentence. `field` names the field to blame, where there is one."""

    code: str
    reason: str
    field: str | None = None


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """The body of every error."""

    error: Fault
