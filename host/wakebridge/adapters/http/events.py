"""Scheduled events for people and scripts on this host, and what the bridge says of itself."""

import asyncio
import contextlib
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

# What ends the answer of each follower of the time line when the bridge stops.
FOLLOWERS: Final = web.AppKey("followers", set[asyncio.Timeout])


async def _health(request: web.Request) -> web.Response:
    return answer_json(request.app[SERVICES].health())


async def _timeline(request: web.Request) -> web.StreamResponse:
    """Send the time line as it happens, one JSON object a line, until either side leaves."""
    response = web.StreamResponse(headers={"Content-Type": LINES})
    followers = request.app[FOLLOWERS]
    with Feed() as feed, contextlib.suppress(ConnectionResetError, TimeoutError):
        await response.prepare(request)
        async with asyncio.timeout(None) as until_the_end:
            followers.add(until_the_end)
            try:
                while True:
                    await response.write(await feed.next())
            finally:
                followers.discard(until_the_end)
    return response


async def end_followers(app: web.Application) -> None:
    """End every answer that has no end of its own, so that a stop need not wait for it."""
    now_s = asyncio.get_running_loop().time()
    for each in app[FOLLOWERS]:
        each.reschedule(now_s)


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
