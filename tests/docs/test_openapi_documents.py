"""What everyone who reads an OpenAPI document may count on, in all three."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema
import pytest

from common.web.openapi import references
from docs.generate import SERVICES, api_document


@pytest.fixture(params=SERVICES)
def document(request: pytest.FixtureRequest) -> dict[str, Any]:
    return made_once(request.param)


made_once = cache(api_document)


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


def answers(document: dict[str, Any]) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Operation, status, media type and description of each answer that is no problem."""
    for name, operation in operations(document):
        for status, answer in operation["responses"].items():
            if status.startswith("2"):
                for form, content in answer.get("content", {}).items():
                    yield name, status, form, content


def has_fields(schema: dict[str, Any], document: dict[str, Any]) -> bool:
    """Whether a schema says which fields there are."""
    if "$ref" in schema:
        [name] = references(schema)
        return has_fields(document["components"]["schemas"][name], document)
    if "anyOf" in schema:
        return all(has_fields(each, document) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return has_fields(schema["items"], document)
    return "properties" in schema


def test_every_answer_is_described(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        good = [status for status in operation["responses"] if status.startswith("2")]
        assert good, name
        for status in good:
            assert status == "204" or operation["responses"][status].get("content"), name
    for name, status, form, content in answers(document):
        schema = content["schema"]
        if form == "application/json":
            assert has_fields(schema, document) or name in WITHOUT_FIELDS, (name, status)
        else:
            assert schema["type"] == "string", (name, status, form)


WITHOUT_FIELDS = {"PUT /v1/seal-keys/{key_hash}"}
"""There is nothing to say."""


def test_every_answer_has_an_example_of_its_schema(document: dict[str, Any]) -> None:
    shown = [item for item in answers(document) if item[2] == "application/json"]
    assert shown
    for _, _, _, content in shown:
        whole = {**content["schema"], "components": document["components"]}
        jsonschema.validate(content["example"], whole)
