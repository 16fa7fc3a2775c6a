"""What the backend reports about its conversations, and the work in them (R10, R20 to R23)."""

from typing import Final

from aiohttp import web

from wakebridge.adapters.http import bodies
from wakebridge.adapters.http.operation import (
    SERVICES,
    Header,
    Operation,
    Refused,
    answer_json,
    body_of,
    changed,
    read,
    refuse,
    refuse_with,
)
from wakebridge.routine.change import Code, Entry, Refusal
from wakebridge.routine.state import Lineage, RunKind
from wakebridge.runner.messages import LINE_MAX_BYTES

# Where agents report about a run that they were called for over HTTP. The run's token, which came
# with the call, takes the place of the interface's own token.
_RUN_TOKEN: Final = Header(
    name="X-Run-Token",
    description="The token that came with the run.",
    required=True,
)


async def _sessions(request: web.Request) -> web.Response:
    routines = request.app[SERVICES].routines
    if routines.unavailable is not None:
        raise Refused(503, Code.INTERNAL, f"the ledger cannot be read: {routines.unavailable}")
    return answer_json(routines.state.lineages)


async def _session_open(request: web.Request) -> web.Response:
    wanted = await read(request, bodies.OpenSession)
    return changed(await request.app[SERVICES].routines.open_session(wanted.session_id))


async def _session_revise(request: web.Request) -> web.Response:
    wanted = await read(request, bodies.ReviseSession)
    routines = request.app[SERVICES].routines
    return changed(await routines.revise_session(_session_of(request), wanted.new_session_id))


async def _session_clear(request: web.Request) -> web.Response:
    wanted = await read(request, bodies.ClearSession)
    routines = request.app[SERVICES].routines
    return changed(await routines.clear_session(_session_of(request), wanted.reason))


async def _session_replace(request: web.Request) -> web.Response:
    wanted = await read(request, bodies.ReplaceSession)
    routines = request.app[SERVICES].routines
    return changed(
        await routines.replace_session(_session_of(request), wanted.new_session_id, wanted.reason)
    )


async def _session_busy(request: web.Request) -> web.Response:
    wanted = await read(request, bodies.Busy)
    routines = request.app[SERVICES].routines
    held = await routines.session_busy(
        _session_of(request), wanted.lease_s, interrupts=wanted.interrupts
    )
    if isinstance(held, Refusal):
        return refuse_with(held)
    return answer_json(bodies.Held(active_run=held.run_id))


async def _session_idle(request: web.Request) -> web.Response:
    return changed(await request.app[SERVICES].routines.session_idle(_session_of(request)))


async def _run_submit(request: web.Request) -> web.Response:
    wanted = await read(request, bodies.SubmitRun)
    submitted = await request.app[SERVICES].routines.submit(
        RunKind(wanted.kind), wanted.task, _session_of(request), interrupts=wanted.interrupts
    )
    if isinstance(submitted, Refusal):
        return refuse_with(submitted)
    return answer_json(bodies.Submitted(run_id=submitted))


async def _run_withdraw(request: web.Request) -> web.Response:
    run_id = request.match_info["run_id"]
    return changed(await request.app[SERVICES].routines.withdraw(_session_of(request), run_id))


async def _transcript(request: web.Request) -> web.Response:
    entries = await request.app[SERVICES].routines.transcript(_session_of(request))
    if isinstance(entries, Refusal):
        return refuse_with(entries)
    return answer_json(entries)


async def _run_report(request: web.Request) -> web.Response:
    """Take one message of an agent about its run; the run's own token is its permission."""
    run_id, secret = request.match_info["run_id"], request.headers.get(_RUN_TOKEN.name, "")
    body = await body_of(request, LINE_MAX_BYTES)
    status, reason = request.app[SERVICES].deliver(run_id, secret, body)
    return answer_json(bodies.Done()) if status == 200 else refuse(status, "run_report", reason)


def _session_of(request: web.Request) -> str:
    return request.match_info["session_id"]


_SESSION: Final = "/api/sessions/{session_id}"

_LEDGER: Final = (
    Operation(
        method="GET",
        path="/api/sessions",
        summary="The ledger of backend conversations",
        handler=_sessions,
        answer=list[Lineage],
        refusals=(503,),
    ),
    Operation(
        method="POST",
        path="/api/sessions",
        summary="Enter a new backend session",
        handler=_session_open,
        body=bodies.OpenSession,
        answer=bodies.Done,
        refusals=(409, 503),
        examples={"a session": {"session_id": "conversation-1"}},
    ),
    Operation(
        method="POST",
        path=_SESSION + "/revise",
        summary="Enter the revision that compaction made of a session",
        handler=_session_revise,
        body=bodies.ReviseSession,
        answer=bodies.Done,
        refusals=(404, 409, 503),
    ),
    Operation(
        method="POST",
        path=_SESSION + "/clear",
        summary="End a session whose history was cleared; its routines fail",
        handler=_session_clear,
        body=bodies.ClearSession,
        answer=bodies.Done,
        refusals=(404, 409, 503),
    ),
    Operation(
        method="POST",
        path=_SESSION + "/replace",
        summary="End a session that a configuration change replaced by a new root",
        handler=_session_replace,
        body=bodies.ReplaceSession,
        answer=bodies.Done,
        refusals=(404, 409, 503),
    ),
)

_WORK: Final = (
    Operation(
        method="POST",
        path=_SESSION + "/busy",
        summary="Hold back new runs while the backend works in this session on its own",
        handler=_session_busy,
        body=bodies.Busy,
        answer=bodies.Held,
        refusals=(404, 409, 503),
    ),
    Operation(
        method="POST",
        path=_SESSION + "/idle",
        summary="Say that the backend is done: what waits may start",
        handler=_session_idle,
        answer=bodies.Done,
        refusals=(404, 409, 503),
    ),
    Operation(
        method="POST",
        path=_SESSION + "/runs",
        summary="Queue an interactive request or background work",
        handler=_run_submit,
        body=bodies.SubmitRun,
        answer=bodies.Submitted,
        refusals=(404, 409, 503),
    ),
    Operation(
        method="DELETE",
        path=_SESSION + "/runs/{run_id}",
        summary="Take such work back: out of the queue, or a request to stop it",
        handler=_run_withdraw,
        answer=bodies.Done,
        refusals=(404, 409, 503),
    ),
    Operation(
        method="GET",
        path=_SESSION + "/transcript",
        summary="Inputs, partial and final results of a session, oldest first",
        handler=_transcript,
        answer=list[Entry],
        refusals=(404, 503),
    ),
    Operation(
        method="POST",
        path="/api/runs/{run_id}",
        summary="Where an agent that was called over HTTP reports progress and result",
        handler=_run_report,
        body=bodies.Report,
        answer=bodies.Done,
        headers=(_RUN_TOKEN,),
        own_token=True,
        refusals=(403, 404, 503),
    ),
)

OPERATIONS: Final = (*_LEDGER, *_WORK)
