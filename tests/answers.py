"""Every answer that a test gets of a service in its process is held against the model in the API's
document: the first ones of each route, status and test run.

An answer that has a field more, or one of another type, fails the request that got it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from fastapi import FastAPI
from pydantic import TypeAdapter
from starlette.types import Message, Receive, Scope, Send

from tacit.answers.base import Answer
from tacit.protocol.round.pieces import ItemAnswer

MOST: Final = 30
SEEN: Counter[tuple[str, str, str, int]] = Counter()
"""How many answers came of each service, method, route and status."""
_whole: Callable[..., Any] = FastAPI.__call__


class UndocumentedAnswer(AssertionError):
    """The document of the API says something else."""


def check(model: Any, body: bytes) -> None:
    """Raise if a body is not of a model, or says what the model does not tell."""
    found = _adapter(model).validate_json(body)
    if isinstance(model, type) and issubclass(model, Answer):
        told, sent = (
            found.model_dump(mode="json", by_alias=True, exclude_unset=True),
            json.loads(body),
        )
        untold = _untold(sent, told)
        if untold:
            raise UndocumentedAnswer(f"{model.__name__} does not tell {', '.join(untold)}")


_adapter: Final = cache(TypeAdapter)
"""Of a model, made once."""


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
    if not kind.startswith(b"application/json") or not body:
        return
    route = scope.get("route")
    path = getattr(route, "path", "")
    plain = getattr(app, "plain_paths", {}).get(path)
    model = UPLOADS if plain and status < 300 else model_of(route, status)
    if model is None:
        return
    key = (app.title, scope["method"], path, status)
    SEEN[key] += 1
    if SEEN[key] <= MOST:
        check(model, body)


UPLOADS: Final[Any] = ItemAnswer | tuple[ItemAnswer, ...]
"""What the routes answer that FastAPI does not handle."""


def model_of(route: Any, status: int) -> Any:
    """What a route answers with this status, as the API's document says; None if it does not."""
    told = getattr(route, "responses", {}).get(status, {}).get("model")
    if told is None and status == (getattr(route, "status_code", None) or 200):
        told = getattr(route, "response_model", None)
    return told


def hold_answers() -> None:
    """From now on."""
    FastAPI.__call__ = _checked  # type: ignore[method-assign, assignment]
