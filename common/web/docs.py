"""The page `/docs`: the API listed from its OpenAPI document, without script and without network.

Everything a browser needs is in the page; its policy allows that style sheet and nothing else.
"""

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from typing import Any, Final

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;"
    "color:#1a1a1a;background:#fff}code,pre{font:14px/1.4 ui-monospace,monospace}"
    "pre{background:#f4f4f4;padding:.75rem;overflow:auto}details{border-top:1px solid #ccc;"
    "padding:.5rem 0}summary{cursor:pointer}b{display:inline-block;min-width:4.5rem}"
    "table{border-collapse:collapse}td,th{text-align:left;padding:.15rem .75rem .15rem 0;"
    "vertical-align:top}"
)
_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
PAGE_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_METHODS: Final = ("get", "post", "put", "patch", "delete", "head", "options")


def render_docs(openapi: Mapping[str, Any]) -> str:
    """The page for an OpenAPI document."""
    info = openapi.get("info", {})
    title = _text(info.get("title", "API"))
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{title}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{title} {_text(info.get('version', ''))}</h1>",
        f"<p>{_text(info.get('description', ''))}</p>",
        '<p><a href="/openapi.json">openapi.json</a></p>',
    ]
    for tag, operations in _by_tag(openapi).items():
        parts.append(f"<h2>{_text(tag)}</h2>")
        parts.extend(_operation(*operation) for operation in operations)
    parts.append("<h2>Schemas</h2>")
    schemas = openapi.get("components", {}).get("schemas", {})
    for name, schema in sorted(schemas.items()):
        parts.append(
            f'<details id="{_text(name)}"><summary><code>{_text(name)}</code></summary>'
            f"{_json(schema)}</details>"
        )
    parts.append("</body></html>")
    return "".join(parts)


def _by_tag(openapi: Mapping[str, Any]) -> dict[str, list[tuple[str, str, Mapping[str, Any]]]]:
    found: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {}
    for path, item in openapi.get("paths", {}).items():
        for method in _METHODS:
            if method in item:
                tag = next(iter(item[method].get("tags", ())), "api")
                found.setdefault(tag, []).append((method, path, item[method]))
    return found


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{_text(item['name'])}</code></td><td>{_text(item['in'])}</td>"
        f"<td>{_text(item.get('description', ''))}</td></tr>"
        for item in operation.get("parameters", ())
        if "name" in item
    )
    answers = "".join(
        f"<tr><td>{_text(status)}</td><td>{_text(answer.get('description', ''))}</td></tr>"
        for status, answer in operation.get("responses", {}).items()
    )
    body = operation.get("requestBody", {}).get("content")
    return "".join(
        (
            f"<details><summary><b>{method.upper()}</b> <code>{_text(path)}</code> ",
            f"{_text(operation.get('summary', ''))}</summary>",
            f"<p>{_text(operation.get('description', ''))}</p>",
            f"<table>{rows}</table>" if rows else "",
            f"<h4>Body</h4>{_json(body)}" if body else "",
            f"<h4>Answers</h4><table>{answers}</table></details>",
        )
    )


def _json(value: object) -> str:
    return f"<pre>{_text(json.dumps(value, indent=2, ensure_ascii=False))}</pre>"


def _text(value: object) -> str:
    return html.escape(str(value))
