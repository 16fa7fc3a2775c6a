"""The HTTP interface as an application: the operations of `routes` behind two middlewares.

Status codes: 200 for an answer, also a tool's answer that says `is_error`; 400 for what cannot be
read; 401 without the token; 404 for what is not there; 409 while schedules own the timer (R46);
408 and 413 for bodies too slow and too large; 503 while the board or the disk is away.
"""

import hmac
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from wakebridge.adapters.http.openapi import document
from wakebridge.adapters.http.ports import Services
from wakebridge.adapters.http.routes import (
    BODY_MAX_BYTES,
    OPERATIONS,
    RUNS_PREFIX,
    SERVICES,
    answer_json,
    refuse,
)
from wakebridge.board.errors import LinkError
from wakebridge.routine.change import Code
from wakebridge.service.waking import Conflict
from wakebridge.store.errors import StoreError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(services: Services, token: str | None) -> web.Application:
    """Return the application. With a token, every request must carry it as a bearer token."""
    app = web.Application(
        client_max_size=BODY_MAX_BYTES, middlewares=[_errors_as_json, _authorized(token)]
    )
    app[SERVICES] = services
    for each in OPERATIONS:
        app.router.add_route(each.method, each.path, each.handler)
    described = document(OPERATIONS, with_token=token is not None)

    async def openapi(_request: web.Request) -> web.Response:
        return answer_json(described)

    app.router.add_get("/api/openapi.json", openapi)
    return app


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error as `{"error": {"code", "reason"}}`, also aiohttp's own."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        if error.content_type == "application/json":
            raise
        refused = refuse(error.status, "http", error.reason)
        if "Allow" in error.headers:
            refused.headers["Allow"] = error.headers["Allow"]
        return refused
    except Conflict as error:
        return refuse(409, "CONFLICT", str(error))
    except LinkError as error:
        return refuse(503, Code.MCU_UNAVAILABLE, str(error))
    except StoreError as error:
        return refuse(503, Code.INTERNAL, str(error))


def _authorized(token: str | None) -> Any:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if token is not None and not request.path.startswith(RUNS_PREFIX):
            given = request.headers.get("Authorization", "")
            # Constant time: how long the refusal takes says nothing about the token.
            if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
                return refuse(401, "unauthorized", "send the header Authorization: Bearer <token>")
        return await handler(request)

    return check
