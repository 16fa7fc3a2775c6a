"""One operation of the interface as a value, and how handlers read requests and answer them."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from aiohttp import web

from wakebridge.adapters.http import bodies
from wakebridge.adapters.http.ports import Services
from wakebridge.routine.change import Change, Code, Refusal

# Many times the largest input, a task of 16 384 characters: so that an agent whose task is much too
# long is told that it is the task, and not the body.
BODY_MAX_BYTES: Final = 2 * 1024 * 1024

# How long a body may take to arrive: a client on this host needs milliseconds.
BODY_TIMEOUT_S: Final = 5.0

JSON: Final = "application/json"

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

_PLACE: Final = re.compile(r"(?:field `(\w+)`|at `\$\.(\w+)[^`]*`)")


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """A request header that an operation looks at. `kind` is the type of its value."""

    name: str
    description: str
    kind: Any = str
    required: bool = False


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation. `body` and `answer` are the types of what comes in and goes out.

    `refusals` are the status codes, beside those every operation has, that a client must expect.
    With `own_token` the handler judges who may call it, in the place of the interface's token.
    `examples` are request bodies by name, for readers and for tests.
    """

    method: str
    path: str
    summary: str
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    answer: Any
    answer_type: str = JSON
    body: Any = None
    refusals: tuple[int, ...] = ()
    headers: tuple[Header, ...] = ()
    own_token: bool = False
    examples: Mapping[str, object] = {}


class Refused(Exception):  # noqa: N818 - the fate of the request, as its answer says it
    """Leaves a handler with an error as the answer."""

    def __init__(self, status: int, code: str, reason: str, field: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.code = code
        self.field = field

    def answer(self) -> web.Response:
        """Return the answer. What may still come of the body is not read as another request."""
        answer = refuse(self.status, self.code, str(self), self.field)
        if self.status in (408, 413):
            answer.force_close()
        return answer


async def body_of(request: web.Request, limit_bytes: int = BODY_MAX_BYTES) -> bytes:
    """Return the body. Raises the answer for one that is too large, too slow or cut off."""
    length = request.content_length
    if length is not None and length > limit_bytes:
        raise Refused(413, "body_too_large", f"the body has more than {limit_bytes} bytes")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            while chunk := await request.content.readany():
                body += chunk
                if len(body) > limit_bytes:
                    reason = f"the body has more than {limit_bytes} bytes"
                    raise Refused(413, "body_too_large", reason)
    except TimeoutError:
        reason = f"the body did not arrive within {BODY_TIMEOUT_S:.0f} s"
        raise Refused(408, "body_too_slow", reason) from None
    except (ConnectionError, web.PayloadAccessError, web.RequestPayloadError, RuntimeError):
        # The last is what the library raises when the connection was closed at our end.
        raise Refused(400, Code.INVALID, "the body was cut off") from None
    return bytes(body)


async def read(request: web.Request, kind: type[T]) -> T:
    """Return the body as a value of this type. Raises the answer that names the field at fault."""
    body = await body_of(request)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise _told(str(error), kind) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad(f"the body is not JSON: {error}", None) from None


def _told(message: str, kind: type) -> Refused:
    """Turn a validation message into a sentence that says what would be right."""
    place = _PLACE.search(message)
    if place is None:
        return bad(f"the body is not what is asked for: {message}", None)
    field = str(place[1] or place[2])
    if "unknown field" in message:
        return bad(f"there is no field {field!r} here", field)
    rule = _rule_of(get_type_hints(kind, include_extras=True).get(field))
    if "missing" in message:
        return bad(f"{field} is missing" + (f": it is {rule}" if rule else ""), field)
    return bad(f"{field} is {rule}" if rule else message, field)


def _rule_of(hint: Any) -> str | None:
    """Return what a field of this type is, in words."""
    for each in (hint, *get_args(hint)):  # a field that may be left out is a union
        if get_origin(each) is Annotated:
            return next((meta.description for meta in each.__metadata__), None)
        if get_origin(each) is Literal:
            return f"one of {', '.join(get_args(each))}"
    return None


def bad(reason: str, field: str | None) -> Refused:
    """Return the error to raise for a request that is wrong in itself."""
    return Refused(400, Code.INVALID, reason, field)


def answer_json(value: object, status: int = 200) -> web.Response:
    """Return an answer with a JSON body."""
    return web.Response(body=msgspec.json.encode(value), status=status, content_type=JSON)


def refuse(status: int, code: str, reason: str, field: str | None = None) -> web.Response:
    """Return an error in the form that all errors have."""
    fault = bodies.Fault(code=code, reason=reason, field=field)
    return answer_json(bodies.Refused(error=fault), status)


def refuse_with(refusal: Refusal) -> web.Response:
    """Return the answer to a refusal of the routine domain."""
    return refuse(_STATUS_OF.get(refusal.code, 400), refusal.code, refusal.reason, refusal.field)


def changed(change: Change | Refusal) -> web.Response:
    """Return the answer to a request that changes something and has nothing to tell."""
    return refuse_with(change) if isinstance(change, Refusal) else answer_json(bodies.Done())
