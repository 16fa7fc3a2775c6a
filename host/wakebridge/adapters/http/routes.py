"""One row per operation: method, path, what it takes and gives, and the handler that translates."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web

from wakebridge.adapters.http import bodies
from wakebridge.adapters.http.ports import Services
from wakebridge.routine import envelope, modes
from wakebridge.routine.change import Change, Code, Entry, Refusal
from wakebridge.routine.limits import ID_MAX_CHARS
from wakebridge.routine.state import Lineage
from wakebridge.service.board_desk import Lent
from wakebridge.timeline import Feed
from wakebridge.wake.reconciler import CountdownState, TimerReading

# The largest input is a task of 16 384 characters: 64 kB of UTF-8, more when it is escaped.
BODY_MAX_BYTES: Final = 256 * 1024

# How long a body may take to arrive: a client on this host needs milliseconds.
BODY_TIMEOUT_S: Final = 10.0

# Where agents report about a run that they were called for over HTTP. The run's token, which came
# with the call, goes into this header and takes the place of the interface's own token.
RUNS_PREFIX: Final = "/api/runs/"
RUN_TOKEN_HEADER: Final = "X-Run-Token"  # noqa: S105 - the name of a header

SERVICES: Final = web.AppKey("services", Services)

T = TypeVar("T")

_STATUS_OF: Final = {
    Code.INVALID: 400,
    Code.UNKNOWN_ID: 404,
    Code.NO_SESSION: 404,
    Code.SESSION_ENDED: 409,
    Code.SESSION_EXISTS: 409,
    Code.WRONG_STATUS: 409,
    Code.MCU_TAKEN: 409,
    Code.FULL: 503,
    Code.INTERNAL: 503,
    Code.MCU_UNAVAILABLE: 503,
}


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation. `body` and `answer` are the types of what comes in and goes out.

    `refusals` are the status codes, beside those every operation has, that a client must expect.
    """

    method: str
    path: str
    summary: str
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    answer: Any
    body: Any = None
    refusals: tuple[int, ...] = ()


# -- tools -----------------------------------------------------------------------------------------


async def _health(request: web.Request) -> web.Response:
    return answer_json(request.app[SERVICES].health())


async def _tools(request: web.Request) -> web.Response:
    return answer_json(request.app[SERVICES].routines.tools(_caller(request)))


async def _tool(request: web.Request) -> web.Response:
    routines = request.app[SERVICES].routines
    name = request.match_info["name"]
    if name not in (modes.SCHEDULE, modes.CREATE_AGENT_TASK):
        return refuse(404, "unknown_tool", f"there is no tool {name!r}: see GET /api/tools")
    if routines.unavailable is not None:
        return refuse(404, Code.INTERNAL, f"the tool is off: {routines.unavailable}")
    answer = await routines.call(
        await _body(request),
        tool_name=name,
        session_id=_session_of(request),
        caller=_caller(request),
    )
    return answer_json(answer)


def _caller(request: web.Request) -> modes.Caller:
    """Return which agent calls: the backend unless the header says otherwise (R11)."""
    named = request.headers.get("X-Agent", modes.Caller.BACKEND.value)
    try:
        return modes.Caller(named)
    except ValueError:
        raise _bad("X-Agent is foreground or backend", "X-Agent") from None


def _session_of(request: web.Request) -> str | None:
    session_id = request.headers.get("X-Session-Id")
    if session_id is not None and not 0 < len(session_id) <= ID_MAX_CHARS:
        raise _bad(f"X-Session-Id is text of 1 to {ID_MAX_CHARS} characters", "X-Session-Id")
    return session_id


async def _timeline(request: web.Request) -> web.StreamResponse:
    """Send the time line as it happens, one JSON object a line, until the client leaves."""
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
    with Feed() as feed:
        await response.prepare(request)
        while True:
            await response.write(await feed.next())


# -- the MCU timer ---------------------------------------------------------------------------------


async def _timer_get(request: web.Request) -> web.Response:
    return _timer(await request.app[SERVICES].timer.reading())


async def _timer_put(request: web.Request) -> web.Response:
    wanted = await _read(request, bodies.SetTimer)
    return _timer(await request.app[SERVICES].timer.set_by_hand(wanted.duration_s * 1000))


async def _timer_delete(request: web.Request) -> web.Response:
    return _timer(await request.app[SERVICES].timer.cancel_by_hand())


def _timer(reading: TimerReading) -> web.Response:
    armed = reading.state is CountdownState.ARMED
    return answer_json(
        bodies.Timer(
            state=reading.state.name.lower(),
            remaining_s=reading.remaining_ms / 1000 if armed else None,
            token=reading.token if armed else None,
            approximate=reading.approximate,
        )
    )


# -- the board -------------------------------------------------------------------------------------


async def _board(request: web.Request) -> web.Response:
    services = request.app[SERVICES]
    return answer_json(await services.board.info(services.timer.hello))


async def _board_events(request: web.Request) -> web.Response:
    return answer_json(await request.app[SERVICES].board.events())


async def _board_lend(request: web.Request) -> web.Response:
    wanted = await _read(request, bodies.LendPort)
    return answer_json(await request.app[SERVICES].board.lend(wanted.limit_s, wanted.tcp_port))


async def _board_take_back(request: web.Request) -> web.Response:
    return answer_json(await request.app[SERVICES].board.take_back())


# -- sessions --------------------------------------------------------------------------------------


async def _sessions(request: web.Request) -> web.Response:
    return answer_json(request.app[SERVICES].routines.state.lineages)


async def _session_open(request: web.Request) -> web.Response:
    wanted = await _read(request, bodies.OpenSession)
    return _changed(await request.app[SERVICES].routines.open_session(wanted.session_id))


async def _session_revise(request: web.Request) -> web.Response:
    wanted = await _read(request, bodies.ReviseSession)
    routines = request.app[SERVICES].routines
    return _changed(
        await routines.revise_session(request.match_info["session_id"], wanted.new_session_id)
    )


async def _session_clear(request: web.Request) -> web.Response:
    wanted = await _read(request, bodies.ClearSession)
    routines = request.app[SERVICES].routines
    return _changed(await routines.clear_session(request.match_info["session_id"], wanted.reason))


async def _session_replace(request: web.Request) -> web.Response:
    wanted = await _read(request, bodies.ReplaceSession)
    routines = request.app[SERVICES].routines
    return _changed(
        await routines.replace_session(
            request.match_info["session_id"], wanted.new_session_id, wanted.reason
        )
    )


async def _session_run(request: web.Request) -> web.Response:
    wanted = await _read(request, bodies.SubmitRun)
    routines = request.app[SERVICES].routines
    session_id = request.match_info["session_id"]
    return _changed(
        await routines.submit(wanted.kind, wanted.task, session_id, interrupts=wanted.interrupts)
    )


async def _transcript(request: web.Request) -> web.Response:
    routines = request.app[SERVICES].routines
    return answer_json(await routines.transcript(request.match_info["session_id"]))


async def _run_report(request: web.Request) -> web.Response:
    """Take one message of an agent about its run; the run's own token is its permission."""
    services = request.app[SERVICES]
    run_id, secret = request.match_info["run_id"], request.headers.get(RUN_TOKEN_HEADER, "")
    status, reason = services.deliver(run_id, secret, await _body(request))
    if status == 200:
        return answer_json(bodies.Done())
    return refuse(status, "run_report", reason)


# -- scheduled events and the clock ----------------------------------------------------------------


async def _scheduler(request: web.Request) -> web.Response:
    wanted = await _read(request, bodies.SchedulerRequest)
    verb = request.match_info["verb"]
    events = request.app[SERVICES].events
    return answer_json(await events.request(verb, wanted.data, wanted.context, wanted.route, None))


async def _clock_synced(request: web.Request) -> web.Response:
    request.app[SERVICES].events.clock_synced()
    return answer_json(bodies.Done())


# -- reading and writing ---------------------------------------------------------------------------


async def _body(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(
            reason=f"the body did not arrive within {BODY_TIMEOUT_S:.0f} s"
        ) from None


async def _read(request: web.Request, kind: type[T]) -> T:
    body = await _body(request)
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _bad(str(error), None) from None


def _bad(reason: str, field: str | None) -> web.HTTPBadRequest:
    refused = bodies.Refused(error=bodies.Fault(code=Code.INVALID, reason=reason, field=field))
    return web.HTTPBadRequest(body=msgspec.json.encode(refused), content_type="application/json")


def answer_json(value: object, status: int = 200) -> web.Response:
    """Return an answer with a JSON body."""
    return web.Response(
        body=msgspec.json.encode(value), status=status, content_type="application/json"
    )


def refuse(status: int, code: str, reason: str, field: str | None = None) -> web.Response:
    """Return an error in the form that all errors have."""
    fault = bodies.Fault(code=code, reason=reason, field=field)
    return answer_json(bodies.Refused(error=fault), status)


def _changed(change: Change | Refusal) -> web.Response:
    if isinstance(change, Refusal):
        status = _STATUS_OF.get(change.code, 400)
        return refuse(status, change.code, change.reason, change.field)
    return answer_json(bodies.Done())


_SESSION: Final = "/api/sessions/{session_id}"

OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/api/health",
        summary="What a person wants to know first",
        handler=_health,
        answer=Mapping[str, Any],
    ),
    Operation(
        method="GET",
        path="/api/timeline",
        summary="What happens, as it happens: one JSON object a line, without end",
        handler=_timeline,
        answer=Mapping[str, Any],
    ),
    Operation(
        method="GET",
        path="/api/tools",
        summary="The tools the caller has, with the JSON Schema of their input",
        handler=_tools,
        answer=list[envelope.ToolInfo],
        refusals=(400,),
    ),
    Operation(
        method="POST",
        path="/api/tools/{name}",
        summary="Call a tool; a refused call is an answer that says is_error",
        handler=_tool,
        body=bodies.ToolCall,
        answer=envelope.ToolAnswer,
        refusals=(400, 404),
    ),
    Operation(
        method="GET",
        path="/api/mcu/timer",
        summary="Read the live countdown",
        handler=_timer_get,
        answer=bodies.Timer,
        refusals=(503,),
    ),
    Operation(
        method="PUT",
        path="/api/mcu/timer",
        summary="Set a countdown by hand, while no schedule owns it",
        handler=_timer_put,
        body=bodies.SetTimer,
        answer=bodies.Timer,
        refusals=(400, 409, 503),
    ),
    Operation(
        method="DELETE",
        path="/api/mcu/timer",
        summary="Cancel a countdown that was set by hand",
        handler=_timer_delete,
        answer=bodies.Timer,
        refusals=(409, 503),
    ),
    Operation(
        method="GET",
        path="/api/board",
        summary="Who the board is, its counters, and how its clock runs",
        handler=_board,
        answer=Mapping[str, Any],
        refusals=(503,),
    ),
    Operation(
        method="GET",
        path="/api/board/events",
        summary="Every event the board still has, oldest first",
        handler=_board_events,
        answer=Mapping[str, Any],
        refusals=(503,),
    ),
    Operation(
        method="POST",
        path="/api/board/lend",
        summary="Lend the serial port to a technician over RFC 2217 on loopback",
        handler=_board_lend,
        body=bodies.LendPort,
        answer=Lent,
        refusals=(400, 503),
    ),
    Operation(
        method="DELETE",
        path="/api/board/lend",
        summary="Take the port back now",
        handler=_board_take_back,
        answer=Mapping[str, Any],
        refusals=(503,),
    ),
    Operation(
        method="GET",
        path="/api/sessions",
        summary="The ledger of backend conversations",
        handler=_sessions,
        answer=list[Lineage],
    ),
    Operation(
        method="POST",
        path="/api/sessions",
        summary="Enter a new backend session",
        handler=_session_open,
        body=bodies.OpenSession,
        answer=bodies.Done,
        refusals=(400, 409, 503),
    ),
    Operation(
        method="POST",
        path=_SESSION + "/revise",
        summary="Enter the revision that compaction made of a session",
        handler=_session_revise,
        body=bodies.ReviseSession,
        answer=bodies.Done,
        refusals=(400, 404, 409, 503),
    ),
    Operation(
        method="POST",
        path=_SESSION + "/clear",
        summary="End a session whose history was cleared; its routines fail",
        handler=_session_clear,
        body=bodies.ClearSession,
        answer=bodies.Done,
        refusals=(400, 404, 409, 503),
    ),
    Operation(
        method="POST",
        path=_SESSION + "/replace",
        summary="End a session that a configuration change replaced by a new root",
        handler=_session_replace,
        body=bodies.ReplaceSession,
        answer=bodies.Done,
        refusals=(400, 404, 409, 503),
    ),
    Operation(
        method="POST",
        path=_SESSION + "/runs",
        summary="Queue an interactive request or background work",
        handler=_session_run,
        body=bodies.SubmitRun,
        answer=bodies.Done,
        refusals=(400, 404, 409, 503),
    ),
    Operation(
        method="GET",
        path=_SESSION + "/transcript",
        summary="Inputs, partial and final results of a session, oldest first",
        handler=_transcript,
        answer=list[Entry],
        refusals=(503,),
    ),
    Operation(
        method="POST",
        path=RUNS_PREFIX + "{run_id}",
        summary="Where an agent that was called over HTTP reports progress and result",
        handler=_run_report,
        body=Mapping[str, Any],
        answer=bodies.Done,
        refusals=(400, 403, 404, 503),
    ),
    Operation(
        method="POST",
        path="/api/scheduler/{verb}",
        summary="A request of OVOS-SCHEDULER-1 for people and scripts on this host",
        handler=_scheduler,
        body=bodies.SchedulerRequest,
        answer=Mapping[str, Any],
        refusals=(400,),
    ),
    Operation(
        method="POST",
        path="/api/clock/synced",
        summary="Say that the wall clock has been set",
        handler=_clock_synced,
        answer=bodies.Done,
    ),
)
