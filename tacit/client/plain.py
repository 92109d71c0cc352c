"""Calls that any service takes: a request as it is, GET, POST, and whether it is ready."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import httpx

from tacit.client.exchange import (
    KEY,
    SAFE,
    Json,
    Pause,
    Request,
    Steps,
    Stream,
    get,
    json_of,
    pages,
)
from tacit.client.operation import operation, stream
from tacit.client.problems import NotFinished, Problem

READY_PAUSE_S = 0.05


def _request(
    method: str,
    path: str,
    body: object = None,
    *,
    content: bytes | None = None,
    media_type: str | None = None,
    params: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Steps[httpx.Response]:
    """One request; raises a Problem for a refusal, NoAnswer for no answer."""
    sent = dict(headers or {})
    if media_type is not None:
        sent["Content-Type"] = media_type
    repeatable = method in SAFE or KEY in sent
    answer: httpx.Response = yield Request(
        method, path, body, content, params, sent, repeatable=repeatable
    )
    return answer


def _get(path: str, **params: Any) -> Steps[Json]:
    """A GET as a dictionary."""
    return json_of(get(path, params))


def _post(path: str, body: object = None, *, key: str | None = None) -> Steps[Json]:
    """A POST as a dictionary; `key` makes it safe to repeat (`Idempotency-Key`)."""
    headers = {} if key is None else {KEY: key}
    return json_of(Request("POST", path, body, headers=headers, repeatable=key is not None))


def _pages(path: str, name: str, **params: Any) -> Stream[Json]:
    """All items of a paged list."""
    return pages(path, name, params)


def _ready() -> Steps[bool]:
    """Whether the service can do its work; False too if it does not answer."""
    try:
        yield Request("GET", "/readyz", once=True)
    except (Problem, httpx.TransportError):
        return False
    return True


def _wait_until_ready(timeout_s: float = 30.0) -> Steps[None]:
    """Wait until the service is ready; raises NotFinished."""
    end = time.monotonic() + timeout_s
    while not (yield from _ready()):
        if time.monotonic() > end:
            raise NotFinished(f"the service is not ready after {timeout_s:.0f} s")
        yield Pause(READY_PAUSE_S)


class Plain:
    """Calls that any service takes."""

    request = operation(_request)
    get = operation(_get)
    post = operation(_post)
    pages = stream(_pages)
    ready = operation(_ready)
    wait_until_ready = operation(_wait_until_ready)
