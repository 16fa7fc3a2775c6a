"""The OpenAPI document is valid, and names every operation that is served."""

from openapi_spec_validator import OpenAPIV31SpecValidator

from wakebridge.adapters.http.openapi import document
from wakebridge.adapters.http.routes import OPERATIONS


def test_the_document_is_valid_openapi_3_1() -> None:
    for with_token in (False, True):
        OpenAPIV31SpecValidator(document(OPERATIONS, with_token=with_token)).validate()


def test_every_operation_is_in_the_document() -> None:
    paths = document(OPERATIONS, with_token=False)["paths"]
    served = {(each.path, each.method.lower()) for each in OPERATIONS}
    assert {(path, method) for path, of in paths.items() for method in of} == served
