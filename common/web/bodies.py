"""Describes request bodies that `wire.read_body` reads in the OpenAPI document.

FastAPI's own body parameters would validate Python values, where our strict models take JSON (a
list is no tuple, a text no enumeration); `takes` documents what the route reads by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from pydantic import BaseModel
from starlette.responses import Response

from common.web.wire import JSON

BINARY: Final = "application/octet-stream"

REFERENCE: Final = "#/components/schemas/"
OCTETS: Final[dict[str, Any]] = {"schema": {"type": "string", "format": "binary"}}
"""A body in another form than JSON: the fields are those of the JSON beside it, where there is one.
Schemas describe JSON alone; generators of clients take such a body as octets."""
_schemas: dict[str, dict[str, Any]] = {}


def takes(
    model: type[BaseModel], example: object = None, *, required: bool = True
) -> dict[str, Any]:
    """The `openapi_extra` of a route whose body is `model`, in JSON or CBOR."""
    content: dict[str, Any] = {"schema": described(model)}
    if example is not None:
        content["example"] = example
    return body(
        {JSON: content}, "The same fields are taken in CBOR (`application/cbor`).", required
    )


def takes_octets() -> dict[str, Any]:
    """The `openapi_extra` of a route whose body is octets."""
    return body({BINARY: OCTETS})


def gives(model: Any, *statuses: int, also: Sequence[str] = ()) -> dict[str, Any]:
    """The arguments of a route that document its answer in JSON: `model`, with these statuses (200
    unless given). `also`: other media types that a caller may ask for. The route writes the answer
    itself."""
    return gives_each(dict.fromkeys(statuses or (200,), model), also)


def gives_each(models: Mapping[int, Any], also: Sequence[str] = ()) -> dict[str, Any]:
    """The same with a model for each status."""
    content = dict.fromkeys(also, OCTETS)
    return {
        "response_model": None,
        "responses": {
            status: {"model": model, "content": dict(content)} for status, model in models.items()
        },
    }


def gives_octets(*forms: str) -> dict[str, Any]:
    """The same for an answer that is a file of one of these media types."""
    content = dict.fromkeys(forms or (BINARY,), OCTETS)
    return {"response_class": Response, "responses": {200: {"content": content}}}


def body(content: dict[str, Any], also: str = "", required: bool = True) -> dict[str, Any]:
    """The `openapi_extra` of a route whose body is this. `also`: other forms that are taken, in
    words: a body of two forms makes generators of clients write code that does not run."""
    described_in_words = {"description": also} if also else {}
    return {"requestBody": {"required": required, **described_in_words, "content": content}}


@cache  # a service describes its models once, however many routes, or apps of a process, take them
def described(model: type[BaseModel]) -> dict[str, str]:
    """A reference to a model's schema, which is kept for `body_schemas`."""
    schema = model.model_json_schema(ref_template=REFERENCE + "{model}")
    for name, definition in schema.pop("$defs", {}).items():
        _schemas.setdefault(name, definition)
    name = re.sub(r"\W", "_", model.__name__)  # as pydantic writes the name of a generic model
    _schemas[name] = schema
    return {"$ref": REFERENCE + name}


def body_schemas() -> dict[str, dict[str, Any]]:
    """Schemas of all bodies documented so far, for the components of an OpenAPI document."""
    return dict(_schemas)
