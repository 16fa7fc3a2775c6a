"""The OpenAPI 3.1 document, generated from the operations and their types.

`python -m wakebridge.adapters.http.openapi` prints the one in `docs/reference/openapi.json`.
"""

import re
import sys
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from wakebridge.adapters.http import bodies
from wakebridge.adapters.http.operation import JSON, Header, Operation
from wakebridge.bus import REQUEST_TYPES
from wakebridge.routine import modes

_VERSION: Final = "1"
_DEFINITIONS: Final = "#/components/schemas/{name}"

# What every operation with a body can answer: cannot be read, too slow, too large.
_BODY_REFUSALS: Final = (400, 408, 413)

_PLACES: Final[dict[str, dict[str, Any]]] = {
    "name": {"enum": [modes.SCHEDULE, modes.CREATE_AGENT_TASK]},
    "verb": {"enum": list(REQUEST_TYPES)},
    "session_id": {"type": "string", "minLength": 1},
    "run_id": {"type": "string", "minLength": 1},
}


def document(operations: Sequence[Operation], *, with_token: bool) -> dict[str, Any]:
    """Return the document. `with_token`: every operation needs the bearer token."""
    kinds: list[Any] = [bodies.Refused]
    for each in operations:
        kinds += [kind for kind in (each.body, each.answer) if kind is not None]
        kinds += [header.kind for header in each.headers]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_DEFINITIONS)
    refused, *rest = schemas
    of_kind = iter(rest)
    paths: dict[str, Any] = {}
    for each in operations:
        body = next(of_kind) if each.body is not None else None
        answer = next(of_kind)
        headers = [_header(header, next(of_kind)) for header in each.headers]
        described = _operation(each, with_token=with_token)
        described["responses"] = {
            "200": _content("It is done.", answer, each.answer_type),
            **{
                str(status): _content(HTTPStatus(status).phrase, refused)
                for status in _refusals(each, with_token=with_token)
            },
        }
        described["parameters"] = [*_path_parameters(each), *headers]
        if body is not None:
            described["requestBody"] = _request_body(each, body)
        paths.setdefault(each.path, {})[each.method.lower()] = described
    return _framed(paths, components, with_token=with_token)


def _framed(
    paths: dict[str, Any], components: dict[str, Any], *, with_token: bool
) -> dict[str, Any]:
    framed: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "wakebridge",
            "version": _VERSION,
            "description": "Schedules, sessions and the countdown of one host's wake board.",
        },
        "paths": paths,
        "components": {"schemas": components},
    }
    if with_token:
        framed["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        framed["security"] = [{"token": []}]
    return framed


def _operation(each: Operation, *, with_token: bool) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": each.handler.__name__.strip("_"),
        "summary": each.summary,
    }
    if with_token and each.own_token:
        described["security"] = []
    return described


def _refusals(each: Operation, *, with_token: bool) -> list[int]:
    statuses = set(each.refusals)
    if each.body is not None:
        statuses |= set(_BODY_REFUSALS)
    if each.headers:
        statuses.add(400)
    if with_token and not each.own_token:
        statuses.add(401)
    return sorted(statuses)


def _path_parameters(each: Operation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _PLACES[name]}
        for name in re.findall(r"{(\w+)}", each.path)
    ]


def _header(header: Header, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": header.name,
        "in": "header",
        "required": header.required,
        "description": header.description,
        "schema": schema,
    }


def _request_body(each: Operation, schema: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": schema}
    if each.examples:
        content["examples"] = {name: {"value": value} for name, value in each.examples.items()}
    return {"required": True, "content": {JSON: content}}


def _content(description: str, schema: dict[str, Any], kind: str = JSON) -> dict[str, Any]:
    return {"description": description, "content": {kind: {"schema": schema}}}


def written() -> bytes:
    """Return the document of a bridge with a token as it is in the reference."""
    from wakebridge.adapters.http.routes import OPERATIONS  # the rows import `Operation` as well

    text = msgspec.json.encode(document(OPERATIONS, with_token=True))
    return msgspec.json.format(text, indent=2) + b"\n"


if __name__ == "__main__":
    sys.stdout.buffer.write(written())
