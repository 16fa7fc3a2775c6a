"""The HTTP interface: translate a request, call the service, translate the answer.

Status codes: 200 for an answer, also a tool's answer that says `is_error`; 400 for what cannot be
read; 401 without the token; 404 for what is not there; 409 while schedules own the timer (R46);
408 and 413 for bodies too slow and too large; 503 while the board is away.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, TypeVar

import msgspec
from aiohttp import web

from wakebridge.adapters.http.ports import Services
from wakebridge.board.errors import LinkError
from wakebridge.routine import envelope, modes, tool
from wakebridge.routine.change import Change, Code, Refusal
from wakebridge.routine.limits import DELAY_MAX_S, ID_MAX_CHARS
from wakebridge.routine.state import RunKind
from wakebridge.service.waking import Conflict
from wakebridge.wake.reconciler import CountdownState, TimerReading

# The largest tool input is a task of 16 384 characters: 64 kB of UTF-8, twice that when escaped.
BODY_MAX_BYTES: Final = 256 * 1024

# How long a body may take to arrive: a client on this host needs milliseconds.
BODY_TIMEOUT_S: Final = 10.0

SERVICES: Final = web.AppKey("services", Services)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T")
SessionId = Annotated[str, msgspec.Meta(min_length=1, max_length=ID_MAX_CHARS)]

_STATUS_OF: Final = {
    Code.UNKNOWN_ID: 404,
    Code.NO_SESSION: 404,
    Code.SESSION_ENDED: 409,
    Code.SESSION_EXISTS: 409,
    Code.WRONG_STATUS: 409,
    Code.FULL: 503,
    Code.INTERNAL: 503,
    Code.MCU_UNAVAILABLE: 503,
    Code.MCU_TAKEN: 409,
}


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    """Base of the request bodies: an unknown field is an error."""


class OpenSession(_Body):
    """Enter a new backend session."""

    session_id: SessionId


class NextSession(_Body):
    """The session that follows: a revision, or a new root."""

    new_session_id: SessionId
    reason: str | None = None


class ClearSession(_Body):
    """Why the history was cleared."""

    reason: str | None = None


class SubmitRun(_Body):
    """An interactive request or background work for a session."""

    kind: RunKind
    task: Annotated[str, msgspec.Meta(min_length=1, max_length=16_384)]
    interrupts: bool = False


class SetTimer(_Body):
    """A countdown set by hand."""

    duration_s: Annotated[int, msgspec.Meta(ge=1, le=DELAY_MAX_S)]


class SchedulerRequest(_Body):
    """A request of OVOS-SCHEDULER-1; fires go to the bus named by `route`."""

    data: Any
    context: dict[str, Any]
    route: str = "mqtt"


def make_app(services: Services, token: str | None) -> web.Application:
    """Return the application. With a token, every request must carry it as a bearer token."""
    app = web.Application(
        client_max_size=BODY_MAX_BYTES, middlewares=[_errors_as_json, _authorized(token)]
    )
    app[SERVICES] = services
    app.add_routes(
        [
            web.get("/api/health", _health),
            web.get("/api/tools", _tools),
            web.post("/api/tools/schedule", _schedule),
            web.get("/api/mcu/timer", _timer_get),
            web.put("/api/mcu/timer", _timer_put),
            web.delete("/api/mcu/timer", _timer_delete),
            web.get("/api/sessions", _sessions),
            web.post("/api/sessions", _session_open),
            web.post("/api/sessions/{session_id}/revise", _session_revise),
            web.post("/api/sessions/{session_id}/clear", _session_clear),
            web.post("/api/sessions/{session_id}/replace", _session_replace),
            web.post("/api/sessions/{session_id}/runs", _session_run),
            web.post("/api/scheduler/{verb}", _scheduler),
            web.post("/api/clock/synced", _clock_synced),
        ]
    )
    return app


# -- middlewares -----------------------------------------------------------------------------------


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error as `{"error": {"code", "reason"}}`, also aiohttp's own."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        if error.content_type == "application/json":
            raise
        return _error(error.status, "http", error.reason)
    except Conflict as error:
        return _error(409, "CONFLICT", str(error))
    except LinkError as error:
        return _error(503, Code.MCU_UNAVAILABLE, str(error))


def _authorized(token: str | None) -> Any:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if token is not None:
            given = request.headers.get("Authorization", "")
            # Constant time: how long the refusal takes says nothing about the token.
            if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
                return _error(401, "unauthorized", "send the header Authorization: Bearer <token>")
        return await handler(request)

    return check


# -- tools -----------------------------------------------------------------------------------------


async def _health(request: web.Request) -> web.Response:
    return _json(request.app[SERVICES].health())


async def _tools(request: web.Request) -> web.Response:
    routines = request.app[SERVICES].routines
    if routines.unavailable is not None:
        return _json([])
    return _json([envelope.ToolInfo(modes.SCHEDULE, tool.DESCRIPTION, tool.ARGS_SCHEMA)])


async def _schedule(request: web.Request) -> web.Response:
    routines = request.app[SERVICES].routines
    if routines.unavailable is not None:
        return _error(404, Code.INTERNAL, f"the schedule tool is off: {routines.unavailable}")
    session_id = request.headers.get("X-Session-Id")
    return _json(await routines.call(await _body(request), session_id=session_id))


# -- the MCU timer ---------------------------------------------------------------------------------


async def _timer_get(request: web.Request) -> web.Response:
    return _timer(await request.app[SERVICES].timer.reading())


async def _timer_put(request: web.Request) -> web.Response:
    wanted = await _read(request, SetTimer)
    return _timer(await request.app[SERVICES].timer.set_by_hand(wanted.duration_s * 1000))


async def _timer_delete(request: web.Request) -> web.Response:
    return _timer(await request.app[SERVICES].timer.cancel_by_hand())


def _timer(reading: TimerReading) -> web.Response:
    armed = reading.state is CountdownState.ARMED
    return _json(
        {
            "state": reading.state.name.lower(),
            "remaining_s": reading.remaining_ms / 1000 if armed else None,
            "token": reading.token if armed else None,
            "approximate": reading.approximate,
        }
    )


# -- sessions --------------------------------------------------------------------------------------


async def _sessions(request: web.Request) -> web.Response:
    return _json(request.app[SERVICES].routines.state.lineages)


async def _session_open(request: web.Request) -> web.Response:
    wanted = await _read(request, OpenSession)
    return _changed(await request.app[SERVICES].routines.open_session(wanted.session_id))


async def _session_revise(request: web.Request) -> web.Response:
    following = await _read(request, NextSession)
    routines = request.app[SERVICES].routines
    return _changed(
        await routines.revise_session(request.match_info["session_id"], following.new_session_id)
    )


async def _session_clear(request: web.Request) -> web.Response:
    wanted = await _read(request, ClearSession)
    routines = request.app[SERVICES].routines
    return _changed(await routines.clear_session(request.match_info["session_id"], wanted.reason))


async def _session_replace(request: web.Request) -> web.Response:
    following = await _read(request, NextSession)
    routines = request.app[SERVICES].routines
    return _changed(
        await routines.replace_session(
            request.match_info["session_id"], following.new_session_id, following.reason
        )
    )


async def _session_run(request: web.Request) -> web.Response:
    wanted = await _read(request, SubmitRun)
    routines = request.app[SERVICES].routines
    session_id = request.match_info["session_id"]
    return _changed(
        await routines.submit(wanted.kind, wanted.task, session_id, interrupts=wanted.interrupts)
    )


# -- scheduled events and the clock ----------------------------------------------------------------


async def _scheduler(request: web.Request) -> web.Response:
    wanted = await _read(request, SchedulerRequest)
    verb = request.match_info["verb"]
    events = request.app[SERVICES].events
    return _json(await events.request(verb, wanted.data, wanted.context, wanted.route, None))


async def _clock_synced(request: web.Request) -> web.Response:
    request.app[SERVICES].events.clock_synced()
    return _json({"ok": True})


# -- reading and writing bodies --------------------------------------------------------------------


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
        return msgspec.json.decode(body or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        answer = {"error": {"code": Code.INVALID, "reason": str(error)}}
        raise web.HTTPBadRequest(
            body=msgspec.json.encode(answer), content_type="application/json"
        ) from None


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(value), status=status, content_type="application/json"
    )


def _error(status: int, code: str, reason: str) -> web.Response:
    return _json({"error": {"code": code, "reason": reason}}, status)


def _changed(change: Change | Refusal) -> web.Response:
    if isinstance(change, Refusal):
        return _error(_STATUS_OF.get(change.code, 400), change.code, change.reason)
    return _json({"ok": True})
