"""Every answer that a test gets of a service in its process is held against the model in the API's
document: the first ones of each route, status and test run.

An answer that has a field more, or one of another type, fails the request that got it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from fastapi import FastAPI
from pydantic import TypeAdapter
from starlette.types import Message, Receive, Scope, Send

from tacit.answers.base import Answer

MOST: Final = 30
SEEN: Counter[tuple[str, str, str, int]] = Counter()
"""How many answers came of each service, method, route and status."""
_whole: Callable[..., Any] = FastAPI.__call__


class UndocumentedAnswer(AssertionError):
    """The document of the API says something else."""


def check(model: Any, body: bytes) -> None:
    """Raise if a body is not of a model, or says what the model does not tell."""
    found = TypeAdapter(model).validate_json(body)
    if isinstance(model, type) and issubclass(model, Answer):
        told, sent = (
            found.model_dump(mode="json", by_alias=True, exclude_unset=True),
            json.loads(body),
        )
        untold = _untold(sent, told)
        if untold:
            raise UndocumentedAnswer(f"{model.__name__} does not tell {', '.join(untold)}")


def _untold(sent: Any, told: Any, path: str = "") -> list[str]:
    """Where an answer has fields that its model has not."""
    if isinstance(sent, dict) and isinstance(told, dict):
        more = [f"{path}/{name}" for name in sent.keys() - told.keys()]
        return more + [
            each
            for name in sent.keys() & told.keys()
            for each in _untold(sent[name], told[name], f"{path}/{name}")
        ]
    if isinstance(sent, list) and isinstance(told, list):
        return [
            each for pair in zip(sent, told, strict=True) for each in _untold(*pair, f"{path}/-")
        ]
    return []


async def _checked(app: FastAPI, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] != "http":
        await _whole(app, scope, receive, send)
        return
    status, kind, parts = 0, b"", list[bytes]()

    async def noted(message: Message) -> None:
        nonlocal status, kind
        if message["type"] == "http.response.start":
            status = message["status"]
            kind = dict(message.get("headers", ())).get(b"content-type", b"")
        else:
            parts.append(message.get("body", b""))
        await send(message)

    await _whole(app, scope, receive, noted)
    _hold(app, scope, status, kind, b"".join(parts))


def _hold(app: FastAPI, scope: Scope, status: int, kind: bytes, body: bytes) -> None:
    route = scope.get("route")
    model = getattr(route, "responses", {}).get(status, {}).get("model")
    if model is None or not kind.startswith(b"application/json") or not body:
        return
    key = (app.title, scope["method"], getattr(route, "path", ""), status)
    SEEN[key] += 1
    if SEEN[key] <= MOST:
        check(model, body)


def hold_answers() -> None:
    """From now on."""
    FastAPI.__call__ = _checked  # type: ignore[method-assign, assignment]
