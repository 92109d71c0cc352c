"""What everyone who reads an OpenAPI document may count on, in all three."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from common.web.openapi import references
from docs.generate import SERVICES, api_document


@pytest.fixture(params=SERVICES)
def document(request: pytest.FixtureRequest) -> dict[str, Any]:
    return api_document(request.param)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield f"{method.upper()} {path}", operation


def test_every_operation_has_a_name_of_its_own(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, operation in operations(document)]
    assert len(set(names)) == len(names)
    for name in names:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", name)


def test_every_operation_has_one_tag_and_a_summary(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        assert len(operation["tags"]) == 1, name
        assert operation["summary"], name


def test_the_schemas_are_those_that_are_referred_to(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert set(references(document)) == set(schemas)
    assert not [name for name in schemas if "__" in name], "two models share a name"
