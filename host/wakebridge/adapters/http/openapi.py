"""The OpenAPI 3.1 document, generated from the rows of `routes` and their types."""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

import wakebridge.adapters.http.routes as rows
from wakebridge.adapters.http import bodies

_VERSION: Final = "1"
_EVERY_REFUSAL: Final = (408, 413)


def document(operations: Sequence["rows.Operation"], *, with_token: bool) -> dict[str, Any]:
    """Return the document. `with_token`: every operation needs the bearer token."""
    kinds = [bodies.Refused]
    for each in operations:
        kinds += [kind for kind in (each.body, each.answer) if kind is not None]
    schemas, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    refused, *rest = schemas
    of_kind = iter(rest)
    paths: dict[str, Any] = {}
    for each in operations:
        body = next(of_kind) if each.body is not None else None
        described = _operation(each, body, next(of_kind), refused, with_token=with_token)
        paths.setdefault(each.path, {})[each.method.lower()] = described
    described_document: dict[str, Any] = {
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
        described_document["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"}
        }
        described_document["security"] = [{"token": []}]
    return described_document


def _operation(
    each: "rows.Operation",
    body: dict[str, Any] | None,
    answer: dict[str, Any],
    refused: dict[str, Any],
    *,
    with_token: bool,
) -> dict[str, Any]:
    statuses = {*each.refusals, *((401,) if with_token else ())}
    if body is not None:
        statuses |= {*_EVERY_REFUSAL, 400}
    described: dict[str, Any] = {
        "operationId": each.handler.__name__.strip("_"),
        "summary": each.summary,
        "responses": {
            "200": _content("It is done.", answer),
            **{str(s): _content(HTTPStatus(s).phrase, refused) for s in sorted(statuses)},
        },
    }
    names = re.findall(r"{(\w+)}", each.path)
    if names:
        described["parameters"] = [
            {
                "name": name,
                "in": "path",
                "required": True,
                "schema": {"type": "string", "minLength": 1},
            }
            for name in names
        ]
    if body is not None:
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": body}},
        }
    return described


def _content(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "description": description,
        "content": {"application/json": {"schema": schema}},
    }
