"""Describes request bodies that `wire.read_body` reads in the OpenAPI document.

FastAPI's own body parameters would validate Python values, where our strict models take JSON (a
list is no tuple, a text no enumeration); `takes` documents what the route reads by itself.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel

_PREFIX = "#/components/schemas/"
_schemas: dict[str, dict[str, Any]] = {}


def takes(
    model: type[BaseModel], example: object = None, *, required: bool = True
) -> dict[str, Any]:
    """The `openapi_extra` of a route whose body is `model`, in JSON or CBOR."""
    content: dict[str, Any] = {"schema": {"$ref": _PREFIX + _described(model)}}
    if example is not None:
        content["example"] = example
    return {
        "requestBody": {
            "required": required,
            "content": {"application/json": content, "application/cbor": content},
        }
    }


def gives(model: Any, *statuses: int) -> dict[str, Any]:
    """The arguments of a route that document its answer in JSON: `model`, with these statuses (200
    unless given). The route writes the answer itself."""
    return {
        "response_model": None,
        "responses": {status: {"model": model} for status in statuses or (200,)},
    }


@cache  # a service describes its models once, however many routes, or apps of a process, take them
def _described(model: type[BaseModel]) -> str:
    """The name under which a model's schema is kept."""
    schema = model.model_json_schema(ref_template=_PREFIX + "{model}")
    for name, definition in schema.pop("$defs", {}).items():
        _schemas.setdefault(name, definition)
    name = model.__name__.replace("[", "_").replace("]", "")
    _schemas[name] = schema
    return name


def body_schemas() -> dict[str, dict[str, Any]]:
    """Schemas of all bodies documented so far, for the components of an OpenAPI document."""
    return dict(_schemas)
