"""Scheduled events for people and scripts on this host, and what the bridge says of itself."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from wakebridge.adapters.http import bodies
from wakebridge.adapters.http.operation import (
    SERVICES,
    Operation,
    Refused,
    answer_json,
    read,
)
from wakebridge.bus import REQUEST_TYPES
from wakebridge.timeline import Feed

LINES: Final = "application/x-ndjson"


async def _health(request: web.Request) -> web.Response:
    return answer_json(request.app[SERVICES].health())


async def _timeline(request: web.Request) -> web.StreamResponse:
    """Send the time line as it happens, one JSON object a line, until the client leaves."""
    response = web.StreamResponse(headers={"Content-Type": LINES})
    with Feed() as feed:
        await response.prepare(request)
        while True:
            await response.write(await feed.next())


async def _scheduler(request: web.Request) -> web.Response:
    wanted = await read(request, bodies.SchedulerRequest)
    verb, services = request.match_info["verb"], request.app[SERVICES]
    if verb not in REQUEST_TYPES:
        raise Refused(404, "unknown_verb", f"there is no {verb!r}, only {', '.join(REQUEST_TYPES)}")
    if verb == "schedule" and wanted.route not in services.health()["events"]["buses"]:
        raise Refused(409, "no_bus", f"the bus {wanted.route!r} is not configured", "route")
    return answer_json(
        await services.events.request(verb, wanted.data, wanted.context, wanted.route, None)
    )


async def _clock_synced(request: web.Request) -> web.Response:
    request.app[SERVICES].events.clock_synced()
    return answer_json(bodies.Done())


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
        answer_type=LINES,
    ),
    Operation(
        method="POST",
        path="/api/scheduler/{verb}",
        summary="A request of OVOS-SCHEDULER-1 for people and scripts on this host",
        handler=_scheduler,
        body=bodies.SchedulerRequest,
        answer=Mapping[str, Any],
        refusals=(404, 409),
        examples={
            "list": {"data": {}, "context": {"skill_id": "demo"}, "route": "mqtt"},
        },
    ),
    Operation(
        method="POST",
        path="/api/clock/synced",
        summary="Say that the wall clock has been set",
        handler=_clock_synced,
        answer=bodies.Done,
    ),
)
