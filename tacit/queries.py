"""Calls about queries (coordinator)."""

from __future__ import annotations

from uuid import uuid4

import httpx

from tacit.exchange import Json, Request, Steps, Stream, creating, get, pages
from tacit.operation import operation, stream


def _preview(query: Json) -> Steps[Json]:
    """The privacy report and error forecast of a query; nothing is spent."""
    answer: httpx.Response = yield Request("POST", "/v1/queries/preview", query, repeatable=True)
    found: Json = answer.json()
    return found


def _create_query(query: Json, *, key: str | None = None) -> Steps[Json]:
    """Create a query; the same content is the same query."""
    answer: httpx.Response = yield creating("/v1/queries", query, key or uuid4().hex)
    found: Json = answer.json()
    return found


def _queries() -> Stream[Json]:
    """All queries."""
    yield from pages("/v1/queries", "queries")


def _query(query_id: str) -> Steps[Json]:
    """One query with its preview."""
    answer: httpx.Response = yield get(f"/v1/queries/{query_id}")
    found: Json = answer.json()
    return found


def _stop_query(query_id: str) -> Steps[Json]:
    """End the schedule of a query; rounds that are open go on."""
    answer: httpx.Response = yield Request(
        "DELETE", f"/v1/queries/{query_id}/schedule", repeatable=True
    )
    found: Json = answer.json()
    return found


class Queries:
    """What is asked: immutable queries."""

    preview = operation(_preview)
    create_query = operation(_create_query)
    queries = stream(_queries)
    query = operation(_query)
    stop_query = operation(_stop_query)
