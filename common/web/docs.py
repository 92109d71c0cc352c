"""The page `/docs`: the API as Swagger UI shows it, to read and to try; nothing leaves the machine.

The files of Swagger UI are those of the package fastapi-offline. The page's policy allows scripts,
styles and requests of this service alone; a token that is typed in is kept by the open page only.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

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
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<noscript>This page needs JavaScript. The same is in <a href="/openapi.json">openapi.json</a>.
</noscript>
<div id="api"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
_START: Final = """SwaggerUIBundle({
  url: "/openapi.json",
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
