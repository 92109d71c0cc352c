"""Routes of the roster: grants, enrolments, announced keys, and who left."""

from __future__ import annotations

import asyncio

from fastapi import FastAPI, Request, Response

from aggregator import enrolment, examples
from aggregator.errors import EnrolmentRefused, NotYourParty
from aggregator.store import roster as store
from aggregator.web import Curator, Operator, Service, service_of
from common.models.enrolment import GRANT_HEADER, Enrolment, EpochKey, GrantRequest
from common.service.bodies import takes
from common.service.bounded_body import read_within
from common.service.database import reading
from common.service.memory import give_back
from common.service.paging import BadCursor, PageQuery, next_link
from common.service.wire import answer, encode, etag_response, read_body
from common.signing import Signed

LARGE_BYTES = 1 << 20
"""Enrolments that may be longer than this are read one at a time."""


def add_enrolment(app: FastAPI) -> None:
    """Add them to the app."""

    @app.post(
        "/v1/grants",
        tags=["roster"],
        status_code=201,
        summary="A one-time secret with which a party may enrol",
        openapi_extra=takes(GrantRequest, examples.GRANT),
    )
    async def grant(request: Request, _: Operator) -> Response:
        body = await read_body(request, GrantRequest)
        granted = await enrolment.issue_grant(service_of(request).aggregator, body)
        return answer(request, granted, status=201)

    @app.post(
        "/v1/enrolments",
        tags=["roster"],
        status_code=201,
        summary="Enrol a curator or a host with a one-time secret",
        openapi_extra=takes(Signed[Enrolment]),
    )
    async def enrol(request: Request) -> Response:
        service = service_of(request)
        named = request.headers.get(GRANT_HEADER)
        limit = await enrolment.largest_body(service.aggregator, named)
        if limit <= LARGE_BYTES:
            return await _enrol(request, service, limit)
        async with service.large:
            try:
                return await _enrol(request, service, limit)
            finally:
                await asyncio.to_thread(give_back)

    @app.put(
        "/v1/parties/{party}/keys/{epoch}",
        tags=["roster"],
        summary="Announce a party's key of a new epoch",
        openapi_extra=takes(Signed[EpochKey]),
    )
    async def announce(request: Request, party: str, epoch: int, caller: Curator) -> Response:
        if caller.subject != party:
            raise NotYourParty
        body = await read_body(request, Signed[EpochKey])
        if body.statement.epoch != epoch:
            raise EnrolmentRefused("another epoch than the path's", pointer="/statement/epoch")
        new = await enrolment.announce_key(service_of(request).aggregator, party, body)
        return answer(request, {"party": party, "epoch": epoch}, status=201 if new else 200)

    @app.delete(
        "/v1/parties/{party}", tags=["roster"], status_code=204, summary="A party leaves the roster"
    )
    async def revoke(request: Request, party: str, _: Operator) -> None:
        service = service_of(request)
        await enrolment.revoke(service.aggregator, party)
        service.directory.forget()
        app.state.authenticator.forget()

    @app.get("/v1/roster", tags=["roster"], summary="Parties in the order of their enrolment")
    async def roster(request: Request, page: PageQuery, _: Operator) -> Response:
        after = None if page.after is None else page.after[0]
        if isinstance(after, str):
            raise BadCursor
        async with reading(service_of(request).aggregator.engine) as connection:
            found = await store.list_parties(connection, after, page.limit)
        shown = [enrolment.public_party(item) for item in found]
        headers = next_link(request, found[-1]["key"]) if len(found) == page.limit else {}
        return etag_response(request, encode({"parties": shown}), headers=headers)


async def _enrol(request: Request, service: Service, limit: int) -> Response:
    detail = f"{GRANT_HEADER} names no grant that allows as many curators"
    body = await read_within(request, Signed[Enrolment], limit, detail)
    enrolled, new = await enrolment.enrol(service.aggregator, body)
    if not new:  # the token of the answer that was lost is revoked
        service.directory.forget()
        request.app.state.authenticator.forget()
    return answer(request, enrolled, status=201)
