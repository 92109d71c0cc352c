"""Calls about queries (coordinator)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from tacit.client.exchange import Json, Request, Steps, Stream, creating, get, json_of, pages
from tacit.client.operation import operation, stream


def _preview(query: Json, *, epsilons: Sequence[str] | None = None) -> Steps[Json]:
    """The privacy report and error forecast of a query; nothing is spent. `epsilons`: decimal
    strings to try in place of the query's own; the answer's "stops" say what each would give."""
    body = query if epsilons is None else {**query, "epsilons": list(epsilons)}
    return json_of(Request("POST", "/v1/queries/preview", body, repeatable=True))


def _create_query(query: Json, *, key: str | None = None) -> Steps[Json]:
    """Create a query; the same content is the same query."""
    return json_of(creating("/v1/queries", query, key or uuid4().hex))


def _queries() -> Stream[Json]:
    """All queries."""
    return pages("/v1/queries", "queries")


def _query(query_id: str) -> Steps[Json]:
    """One query with its preview."""
    return json_of(get(f"/v1/queries/{query_id}"))


def _stop_query(query_id: str) -> Steps[Json]:
    """End the schedule of a query; open rounds continue."""
    return json_of(Request("DELETE", f"/v1/queries/{query_id}/schedule", repeatable=True))


class Queries:
    """What is asked: immutable queries."""

    preview = operation(_preview)
    create_query = operation(_create_query)
    queries = stream(_queries)
    query = operation(_query)
    stop_query = operation(_stop_query)
