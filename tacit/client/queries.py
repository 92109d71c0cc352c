"""Calls about queries (coordinator)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

from tacit.client.exchange import (
    Json,
    Request,
    Steps,
    Stream,
    creating,
    get,
    json_of,
    pages_of,
    shown_of,
)
from tacit.client.operation import operation, stream
from tacit.query.query import Query
from tacit.shown.queries import AskedQuery
from tacit.shown.reports import Preview


def _preview(query: Json | Query, *, epsilons: Sequence[str] | None = None) -> Steps[Preview]:
    """The privacy report and error forecast of a query; nothing is spent. `epsilons`: decimal
    strings to try in place of the query's own; the answer's "stops" say what each would give."""
    body = _body(query)
    if epsilons is not None:
        body = {**body, "epsilons": list(epsilons)}
    return shown_of(Preview, Request("POST", "/v1/queries/preview", body, repeatable=True))


def create_query(query: Json | Query, *, key: str | None = None) -> Steps[AskedQuery]:
    """Create a query; the same content is the same query."""
    return shown_of(AskedQuery, creating("/v1/queries", _body(query), key or uuid4().hex))


def _queries() -> Stream[AskedQuery]:
    """All queries."""
    return pages_of(AskedQuery, "/v1/queries", "queries")


def _query(query_id: str) -> Steps[AskedQuery]:
    """One query with its preview."""
    return shown_of(AskedQuery, get(f"/v1/queries/{query_id}"))


def _stop_query(query_id: str) -> Steps[Json]:
    """End the schedule of a query; open rounds continue."""
    return json_of(Request("DELETE", f"/v1/queries/{query_id}/schedule", repeatable=True))


def _body(query: Json | Query) -> Json:
    if isinstance(query, Query):
        return query.model_dump(mode="json", exclude_none=True)
    return query


class Queries:
    """What is asked: immutable queries."""

    preview = operation(_preview)
    create_query = operation(create_query)
    queries = stream(_queries)
    query = operation(_query)
    stop_query = operation(_stop_query)
