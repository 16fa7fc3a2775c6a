"""The OpenAPI document is valid, is the one in the reference, and names what is served (R7)."""

import json
from pathlib import Path
from typing import Any

import jsonschema
from openapi_spec_validator import OpenAPIV31SpecValidator

from bridges import BridgeProcess
from wakebridge.adapters.http.openapi import document, written
from wakebridge.adapters.http.routes import OPERATIONS

WRITTEN = Path(__file__).parents[2] / "host" / "docs" / "reference" / "openapi.json"


def test_the_document_is_valid_openapi_3_1() -> None:
    for with_token in (False, True):
        OpenAPIV31SpecValidator(document(OPERATIONS, with_token=with_token)).validate()


def test_the_reference_is_what_the_types_generate() -> None:
    """When it is not: `python -m wakebridge.adapters.http.openapi > openapi.json`."""
    assert WRITTEN.read_bytes() == written()


def test_every_operation_is_in_the_document() -> None:
    paths = document(OPERATIONS, with_token=False)["paths"]
    served = {(each.path, each.method.lower()) for each in OPERATIONS}
    assert {(path, method) for path, of in paths.items() for method in of} == served


def test_the_examples_are_bodies_of_their_operations() -> None:
    described = document(OPERATIONS, with_token=False)
    checked = 0
    for each in OPERATIONS:
        if each.body is None:
            continue
        content = described["paths"][each.path][each.method.lower()]["requestBody"]["content"]
        whole = {**content["application/json"]["schema"], "components": described["components"]}
        for example in each.examples.values():
            jsonschema.validate(example, whole)
            checked += 1
    assert checked >= 8


async def test_r7_the_running_bridge_serves_its_document_and_the_schemas_of_its_tools(
    bridge: BridgeProcess,
) -> None:
    served = await bridge.http("GET", "/api/openapi.json")
    assert (served.status, served.body) == (200, document(OPERATIONS, with_token=False))
    tools = await bridge.http("GET", "/api/tools")
    assert [tool["name"] for tool in tools.body] == ["schedule"]
    schema = tools.body[0]["args_schema"]
    jsonschema.Draft202012Validator.check_schema(schema)
    assert all(_allows(schema, each) for each in ALLOWED)
    assert not any(_allows(schema, each) for each in FORBIDDEN)


ALLOWED: list[dict[str, Any]] = [
    {"action": "list"},
    {"action": "create", "task": "x", "delay_s": 600},
    {"action": "create", "task": "x", "run_at": "2126-10-23T09:00:00+02:00", "interval_s": 86400},
    {"action": "update", "id": "r-1", "task": "x", "delay_s": 1, "interval_s": 0},
    {"action": "cancel", "id": "r-1"},
]
FORBIDDEN: list[dict[str, Any]] = [
    {},
    {"action": "run"},
    {"action": "create", "task": "x"},
    {"action": "create", "task": "x", "delay_s": 1, "run_at": "2126-10-23T09:00:00+02:00"},
    {"action": "create", "task": "x", "delay_s": 0},
    {"action": "create", "task": "x", "delay_s": 604_801},
    {"action": "create", "task": " ", "delay_s": 1},
    {"action": "cancel"},
    {"action": "list", "all": True},
]


def _allows(schema: dict[str, Any], value: object) -> bool:
    # By way of its JSON text, as an agent's library would see it.
    return jsonschema.Draft202012Validator(json.loads(json.dumps(schema))).is_valid(value)
