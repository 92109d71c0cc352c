"""Routes of the registry: aggregators, grants, enrolments, parties, tokens."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import FastAPI, Request, Response

from common.errors import Invalid
from common.models.base import encode_binary
from common.models.enrolment import GRANT_HEADER, Enrolment, GrantRequest
from common.service.bodies import takes
from common.service.bounded_body import read_within
from common.service.clock import Clock
from common.service.database import reading
from common.service.memory import give_back
from common.service.paging import BadCursor, Page, PageQuery
from common.service.token_routes import NewToken, add_tokens
from common.service.wire import read_body
from common.signing import Signed, fingerprint
from coordinator import examples, registry
from coordinator.errors import UnknownAggregator
from coordinator.registry import AggregatorRequest
from coordinator.settings import CoordinatorSettings
from coordinator.store import registry as store
from coordinator.store import tables
from coordinator.store.registry import AggregatorRow, PartyRow
from coordinator.web import (
    Operator,
    Reader,
    Service,
    model_response,
    page_response,
    service_of,
    time_text,
)

LARGE_BYTES = 1 << 20
"""Enrolments that may be longer than this are read one at a time."""


def add_registry(app: FastAPI, settings: CoordinatorSettings, clock: Clock) -> None:
    """Add them to the app."""
    _add_aggregators(app, settings)
    _add_parties(app, settings)
    add_tokens(
        app,
        tables.tokens,
        clock,
        lambda: service_of(app).engine,
        check=_no_subject,
        revoked=lambda: None,
        example=examples.TOKEN,
    )


async def _no_subject(asked: NewToken) -> None:
    if asked.subject is not None:
        raise Invalid("a token made here belongs to no party", pointer="/subject")


def _add_aggregators(app: FastAPI, settings: CoordinatorSettings) -> None:
    @app.get("/.well-known/tacit-coordinator", tags=["registry"], summary="Who this is")
    async def identity() -> dict[str, str]:
        key = service_of(app).registry.identity.public_key
        return {
            "deployment": settings.deployment,
            "identity_key": encode_binary(key),
            "fingerprint": fingerprint(key).hex(),
        }

    @app.post(
        "/v1/aggregators",
        tags=["registry"],
        status_code=201,
        summary="Pair an aggregator",
        openapi_extra=takes(AggregatorRequest, examples.AGGREGATOR),
    )
    async def pair(request: Request, _: Operator) -> dict[str, Any]:
        service, body = service_of(app), await read_body(request, AggregatorRequest)
        peers = service.conduct.peers
        return _aggregator(await registry.pair(service.engine, service.registry, peers, body))

    @app.get("/v1/aggregators", tags=["registry"], summary="The paired aggregators")
    async def aggregators(_: Reader) -> dict[str, Any]:
        async with reading(service_of(app).engine) as connection:
            rows = await store.list_aggregators(connection)
        return {"aggregators": [_aggregator(row) for row in rows]}

    @app.delete(
        "/v1/aggregators/{aggregator}", tags=["registry"], status_code=204, summary="Unpair one"
    )
    async def unpair(aggregator: str, _: Operator) -> None:
        service = service_of(app)
        async with service.engine.begin() as connection:
            if not await store.remove_aggregator(connection, aggregator, service.clock.now()):
                raise UnknownAggregator


async def _enrol(request: Request, service: Service, limit: int) -> Response:
    detail = f"{GRANT_HEADER} names no grant that allows as many curators"
    body = await read_within(request, Signed[Enrolment], limit, detail)
    answer = await registry.enrol(service.engine, service.registry, body)
    service.authenticator.forget()
    return model_response(answer, 201)


def _add_parties(app: FastAPI, settings: CoordinatorSettings) -> None:
    large = asyncio.Lock()  # one large enrolment at a time: there is memory for one

    @app.post(
        "/v1/grants",
        tags=["registry"],
        status_code=201,
        summary="A one-time secret with which a party may enrol",
        openapi_extra=takes(GrantRequest, examples.GRANT),
    )
    async def grant(request: Request, _: Operator) -> Response:
        service, body = service_of(app), await read_body(request, GrantRequest)
        async with service.engine.begin() as connection:
            answer = await registry.issue_grant(connection, service.registry, body)
        return model_response(answer, 201)

    @app.post(
        "/v1/enrolments",
        tags=["registry"],
        status_code=201,
        summary="Enrol a curator or a host with a one-time secret",
        openapi_extra=takes(Signed[Enrolment]),
    )
    async def enrol(request: Request) -> Response:
        service, named = service_of(app), request.headers.get(GRANT_HEADER)
        small, most = settings.enrolment_open_body_bytes, settings.enrolment_max_body_bytes
        limit = await registry.largest_body(service.engine, service.registry, named, small, most)
        if limit <= LARGE_BYTES:
            return await _enrol(request, service, limit)
        async with large:
            try:
                return await _enrol(request, service, limit)
            finally:
                await asyncio.to_thread(give_back)

    @app.get("/v1/parties", tags=["registry"], summary="Curators and hosts, with their numbers")
    async def parties(request: Request, page: PageQuery, _: Operator) -> Response:
        async with reading(service_of(app).engine) as connection:
            found = await store.list_parties(connection, page.after_text(), page.limit)
        items = [_party(row) for row in found]
        return page_response(request, "parties", items, page.limit, "id")

    @app.get("/v1/curators", tags=["registry"], summary="The roster, by number")
    async def curators(request: Request, page: PageQuery, _: Operator) -> Response:
        after = _after_number(page)
        async with reading(service_of(app).engine) as connection:
            found = await store.list_curators(connection, after, page.limit)
        return page_response(request, "curators", found, page.limit, "number")

    @app.delete("/v1/parties/{party}", tags=["registry"], status_code=204, summary="A party leaves")
    async def leave(party: str, _: Operator) -> None:
        service = service_of(app)
        await registry.leave(service.engine, service.registry, party)
        service.authenticator.forget()

    @app.post(
        "/v1/parties/{party}/return",
        tags=["registry"],
        summary="A party that left is back, with its old ledger; its new token is shown once",
    )
    async def come_back(party: str, _: Operator) -> dict[str, Any]:
        service = service_of(app)
        token = await registry.come_back(service.engine, service.registry, party)
        return {"party": party, "token": token}


def _after_number(page: Page) -> int | None:
    if page.after is None:
        return None
    (number, *rest) = page.after
    if rest or not isinstance(number, int) or not 0 <= number < 2**63:
        raise BadCursor
    return number


def _aggregator(row: AggregatorRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "url": row.url,
        "operator": row.operator,
        "identity_key": encode_binary(row.identity_key),
        "fingerprint": fingerprint(row.identity_key).hex(),
    }


def _party(row: PartyRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "kind": row.kind.value,
        "first": row.first,
        "curators": row.curators,
        "enrolled": time_text(row.enrolled),
        "left": time_text(row.left),
    }
