"""The tools of agents (R7, R11)."""

from typing import Final

from aiohttp import web

from wakebridge.adapters.http import bodies
from wakebridge.adapters.http.operation import (
    SERVICES,
    Header,
    Operation,
    Refused,
    answer_json,
    bad,
    body_of,
    refuse_with,
)
from wakebridge.routine import envelope, modes
from wakebridge.routine.change import Code, Refusal
from wakebridge.routine.limits import SESSION_ID_RULE
from wakebridge.routine.lineage import is_session_id

_AGENT: Final = Header(
    name="X-Agent",
    description="Which agent calls: `backend` if absent. In realtime mode the two differ (R11).",
    kind=modes.Caller,
)
_SESSION_ID: Final = Header(
    name="X-Session-Id",
    description="The caller's backend session; `session_id` in the body goes before.",
    kind=bodies.SessionId,
)


async def _tools(request: web.Request) -> web.Response:
    return answer_json(request.app[SERVICES].tools.tools(_caller(request)))


async def _tool(request: web.Request) -> web.Response:
    tools = request.app[SERVICES].tools
    name = request.match_info["name"]
    if name not in (modes.SCHEDULE, modes.CREATE_AGENT_TASK):
        raise Refused(404, "unknown_tool", f"there is no tool {name!r}: see GET /api/tools")
    if tools.unavailable is not None:
        raise Refused(404, Code.INTERNAL, f"the tool is off: {tools.unavailable}")
    caller, session_id = _caller(request), _session_of(request)
    call = envelope.read_call(await body_of(request))
    if isinstance(call, Refusal):
        return refuse_with(call)
    return answer_json(await tools.call(call, tool_name=name, session_id=session_id, caller=caller))


def _caller(request: web.Request) -> modes.Caller:
    """Return which agent calls: the backend unless the header says otherwise."""
    named = request.headers.get(_AGENT.name, modes.Caller.BACKEND.value)
    try:
        return modes.Caller(named)
    except ValueError:
        raise bad(f"{_AGENT.name} is foreground or backend", _AGENT.name) from None


def _session_of(request: web.Request) -> str | None:
    session_id = request.headers.get(_SESSION_ID.name)
    if session_id is not None and not (is_session_id(session_id) and session_id.isprintable()):
        raise bad(f"{_SESSION_ID.name} is {SESSION_ID_RULE}", _SESSION_ID.name)
    return session_id


_EXAMPLES: Final = {
    "list": {"input": {"action": "list"}},
    "create": {
        "input": {"action": "create", "task": "Check the shipment.", "delay_s": 600},
        "session_id": "conversation-1",
    },
    "create a routine": {
        "input": {
            "action": "create",
            "task": "Check the order status and report any changes.",
            "run_at": "2126-10-23T09:00:00+02:00",
            "interval_s": 86_400,
        },
        "session_id": "conversation-1",
    },
    "update": {"input": {"action": "update", "id": "r-1", "task": "Check again.", "delay_s": 60}},
    "cancel": {"input": {"action": "cancel", "id": "r-1"}},
    "as text": {"raw_input": '{"action": "list"}'},
}

OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/api/tools",
        summary="The tools the caller has, with the JSON Schema of their input",
        handler=_tools,
        answer=list[envelope.ToolInfo],
        headers=(_AGENT,),
        refusals=(400,),
    ),
    Operation(
        method="POST",
        path="/api/tools/{name}",
        summary="Call a tool; a call that the tool refuses is an answer that says is_error",
        handler=_tool,
        body=bodies.ToolCall,
        answer=envelope.ToolAnswer,
        headers=(_AGENT, _SESSION_ID),
        refusals=(404,),
        examples=_EXAMPLES,
    ),
)
