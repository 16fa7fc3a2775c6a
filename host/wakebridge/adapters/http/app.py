"""The HTTP interface as an application: the operations of `routes` behind three middlewares.

Status codes: 200 for an answer, also a tool's answer that says `is_error`; 400 for what cannot be
read; 401 without the token; 403 for what another origin's page asks; 404 for what is not there;
409 while schedules own the timer (R46); 408 and 413 for bodies too slow and too large; 503 while
the board or the disk is away.
"""

import hmac
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from wakebridge.adapters.http.events import FOLLOWERS, end_followers
from wakebridge.adapters.http.openapi import document
from wakebridge.adapters.http.operation import SERVICES, Refused, answer_json, refuse
from wakebridge.adapters.http.ports import Services
from wakebridge.adapters.http.routes import OPERATIONS
from wakebridge.board.errors import LinkError
from wakebridge.routine.change import Code
from wakebridge.service.waking import Conflict
from wakebridge.store.errors import StoreError

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_OWN_TOKEN = frozenset(each.handler for each in OPERATIONS if each.own_token)


def make_app(services: Services, token: str | None) -> web.Application:
    """Return the application. With a token, every request must carry it as a bearer token."""
    app = web.Application(
        # Bodies are bounded where they are read; see `operation.body_of`.
        client_max_size=0,
        middlewares=[_errors_as_json, _no_page if token is None else _authorized(token)],
    )
    app[SERVICES] = services
    app[FOLLOWERS] = set()
    app.on_shutdown.append(end_followers)
    for each in OPERATIONS:
        app.router.add_route(each.method, each.path, each.handler)
    described = document(OPERATIONS, with_token=token is not None)

    async def openapi(_request: web.Request) -> web.Response:
        return answer_json(described)

    app.router.add_route("GET", "/api/openapi.json", openapi)
    return app


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error as `{"error": {"code", "reason"}}`, also aiohttp's own and ours."""
    try:
        return await handler(request)
    except Refused as refused:
        return refused.answer()
    except web.HTTPException as error:
        answer = refuse(error.status, "http", error.reason)
        if "Allow" in error.headers:
            answer.headers["Allow"] = error.headers["Allow"]
        return answer
    except Conflict as error:
        return refuse(409, "CONFLICT", str(error))
    except LinkError as error:
        return refuse(503, Code.MCU_UNAVAILABLE, str(error))
    except StoreError as error:
        return refuse(503, Code.INTERNAL, str(error))
    except ConnectionError:
        raise  # the client has left in the middle of its answer
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return refuse(500, Code.INTERNAL, "an unexpected error, which the bridge has logged")


@web.middleware
async def _no_page(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse what a browser sends for a page: no page is ours, and none has a token to show."""
    if "Origin" in request.headers:
        raise Refused(403, "origin", "web pages are not served: they could schedule work unseen")
    return await handler(request)


def _authorized(token: str) -> Any:
    expected = f"Bearer {token}".encode()

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.match_info.handler not in _OWN_TOKEN:
            given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
            # Constant time: how long the refusal takes says nothing about the token.
            if not hmac.compare_digest(given, expected):
                raise Refused(401, "unauthorized", "send the header Authorization: Bearer <token>")
        return await handler(request)

    return check
