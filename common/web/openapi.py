"""The OpenAPI document of a service: what FastAPI makes of the routes, completed.

The operation id of a route is the name of its function. Added are the routes that are answered
before FastAPI's router, the form of a problem, the models of the bodies that routes read and write
by themselves, and an example of each answer, which a test got from the service
(`tests/answers.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI

from common.web.bodies import REFERENCE, body_schemas
from common.web.problems import PROBLEM_SCHEMA

_NAME: Final = attrgetter("name")
"""What names a route in the document."""


class ServiceApp(FastAPI):
    """FastAPI whose document has these parts, too. `plain_paths`: the routes that FastAPI does not
    know, as path items of the document. `answers`: a file of answers, by operation and status."""

    plain_paths: dict[str, dict[str, Any]]

    def __init__(self, *, answers: Path | None = None, **arguments: Any) -> None:
        super().__init__(**arguments, generate_unique_id_function=_NAME)
        self.plain_paths = {}
        self.answers = answers

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        document = super().openapi()
        document["paths"].update(self.plain_paths)
        if self.answers is not None:
            _show(document, json.loads(self.answers.read_bytes()))
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        known = {"Problem": dict(PROBLEM_SCHEMA), **body_schemas(), **schemas}
        wanted = list(references(document))
        for name in wanted:
            if name not in schemas:
                schemas[name] = known[name]
                wanted += references(known[name])
        return document


def _show(document: dict[str, Any], answers: dict[str, dict[str, Any]]) -> None:
    """Put an answer beside each schema of one in JSON."""
    for item in document["paths"].values():
        for operation in item.values():
            for status, answer in answers.get(operation["operationId"], {}).items():
                operation["responses"][status]["content"]["application/json"]["example"] = answer


def references(part: object) -> Iterator[str]:
    """The names of the schemas that a part of a document refers to. An example may be a schema of
    its own."""
    if isinstance(part, dict):
        name = part.get("$ref")
        if isinstance(name, str):
            yield name.removeprefix(REFERENCE)
        for key, value in part.items():
            if key != "example":
                yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)
