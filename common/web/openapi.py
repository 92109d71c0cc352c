"""The OpenAPI document of a service: request bodies that routes read themselves, the document
completed, and the page `/docs`.

Describes request bodies that `wire.read_body` reads in the OpenAPI document.

FastAPI's own body parameters would validate Python values, where our strict models take JSON (a
list is no tuple, a text no enumeration); `takes` documents what the route reads by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from operator import attrgetter
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from common.bodies import JSON
from common.web.problems import PROBLEM_SCHEMA, openapi_responses

BINARY: Final = "application/octet-stream"

REFERENCE: Final = "#/components/schemas/"
OCTETS: Final[dict[str, Any]] = {"schema": {"type": "string", "format": "binary"}}
"""A body in another form than JSON: the fields are those of the JSON body, where there is one.
Schemas describe JSON alone; generators of clients take such a body as octets."""
_described: dict[str, type[BaseModel]] = {}


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
    """The arguments of a route that document its answer in JSON: `model`, with these statuses
    (default: 200). `also`: other media types that a caller can request. The route writes the
    answer itself."""
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
    """The `openapi_extra` of a route with this body. `also`: other accepted forms, in words: for
    a body of two forms generators of clients write code that does not run."""
    described_in_words = {"description": also} if also else {}
    return {"requestBody": {"required": required, **described_in_words, "content": content}}


def described(model: type[BaseModel]) -> dict[str, str]:
    """A reference to a model's schema, which `body_schemas` makes when the document is read."""
    name = re.sub(r"\W", "_", model.__name__)  # as pydantic writes the name of a generic model
    _described[name] = model
    return {"$ref": REFERENCE + name}


def body_schemas() -> dict[str, dict[str, Any]]:
    """Schemas of all bodies documented so far, for the components of an OpenAPI document."""
    schemas: dict[str, dict[str, Any]] = {}
    for name, model in _described.items():
        schema = model.model_json_schema(ref_template=REFERENCE + "{model}")
        for part, definition in schema.pop("$defs", {}).items():
            schemas.setdefault(part, definition)
        schemas[name] = schema
    return schemas


# The OpenAPI document of a service: what FastAPI makes of the routes, completed.
#
# The operation id of a route is the name of its function. Added are the routes that are answered
# before FastAPI's router, the form of a problem, the models of the bodies that routes read and
# write by themselves, and an example of each answer, made from its schema.

_NAME: Final = attrgetter("name")
"""What names a route in the document."""


def api_router(*tags: str) -> APIRouter:
    """A router for the API, whose routes `add_routes` puts into an app's own list."""
    return APIRouter(
        tags=list(tags), responses=openapi_responses(), generate_unique_id_function=_NAME
    )


def add_routes(app: FastAPI, *routers: APIRouter) -> None:
    """Add the routes of API routers. `include_router` would build each route again for each app,
    and match a request through two more functions per route: 50 us of CPU."""
    for router in routers:
        app.router.routes.extend(router.routes)


class ServiceApp(FastAPI):
    """FastAPI whose document also has these parts. `plain_paths`: the routes that FastAPI does
    not know, as path items of the document."""

    plain_paths: dict[str, dict[str, Any]]

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments, generate_unique_id_function=_NAME)
        self.plain_paths = {}

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        document = super().openapi()
        document["paths"].update(self.plain_paths)
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schema_of = {"Problem": dict(PROBLEM_SCHEMA), **body_schemas(), **schemas}
        names_to_add = list(references(document))
        for name in names_to_add:
            if name not in schemas:
                schemas[name] = schema_of[name]
                names_to_add += references(schema_of[name])
        for item in document["paths"].values():
            for operation in item.values():
                for status, answer in operation["responses"].items():
                    content = answer.get("content", {}).get(JSON)
                    if content and status.startswith("2"):
                        content.setdefault("example", example(content["schema"], schemas))
        return document


_TEXTS: Final = {"date-time": "2025-11-03T18:00:00Z", "date": "2025-11-03"}


def example(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Any:
    """A short value of a JSON Schema whose references are names of `schemas`: every field, and
    one item of a list. No schema refers to itself except for values of any form."""
    if "$ref" in schema:
        return example(schemas[schema["$ref"].removeprefix(REFERENCE)], schemas)
    for name in ("const", "default"):
        if schema.get(name) is not None:
            return schema[name]
    for name in ("examples", "enum"):
        if name in schema:
            return schema[name][0]
    for name in ("anyOf", "oneOf", "allOf"):
        if name in schema:
            return example(schema[name][0], schemas)
    match schema.get("type"):
        case "object" if "properties" in schema:
            return {name: example(field, schemas) for name, field in schema["properties"].items()}
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            name = example(schema.get("propertyNames", {"const": "name"}), schemas)
            return {name: example(schema["additionalProperties"], schemas)}
        case "object":
            return {}
        case "array":
            items = schema.get("prefixItems") or [schema.get("items", {})]
            return [example(item, schemas) for item in items]
        case "string":
            text = _TEXTS.get(schema.get("format", ""), "text")
            return text.ljust(schema.get("minLength", 0), "_")
        case "integer" | "number":
            return max(1, schema.get("minimum", 1))
        case "boolean":
            return True
        case _:
            return {}


def references(part: object) -> Iterator[str]:
    """The names of the schemas to which a part of a document refers. An example can be a schema
    of its own."""
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


# The page `/docs`: the API as Swagger UI shows it, to read and to try; nothing leaves the machine.
#
# The files of Swagger UI are those of the package fastapi-offline. The page's policy allows
# scripts, styles and requests of this service alone; a token that is typed in is kept by the open
# page only.

PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<noscript>This page needs JavaScript. The same is in <a href="openapi.json">openapi.json</a>.
</noscript>
<div id="api"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
_START: Final = """SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#api",
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  defaultModelRendering: "model",
  filter: true,
  persistAuthorization: false,
  tryItOutEnabled: true,
  validatorUrl: null,
});
"""
_FILES: Final = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}


def add_docs(app: FastAPI) -> None:
    """Add the page and its files to an app."""

    async def page(_: Request) -> Response:
        headers = {"Content-Security-Policy": PAGE_POLICY}
        return HTMLResponse(_PAGE.format(title=app.title), headers=headers)

    async def start(_: Request) -> Response:
        return Response(_START, media_type="text/javascript")

    async def file(request: Request) -> Response:
        name = request.url.path.rpartition("/")[2]
        content = files("fastapi_offline").joinpath("static", name).read_bytes()
        headers = {"Cache-Control": "public, max-age=3600"}
        return Response(content, media_type=_FILES[name], headers=headers)

    app.add_route("/docs", page, include_in_schema=False)
    app.add_route("/docs/start.js", start, include_in_schema=False)
    for name in _FILES:
        app.add_route(f"/docs/{name}", file, include_in_schema=False)
