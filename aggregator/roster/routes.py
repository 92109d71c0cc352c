"""Routes of the roster: grants, enrolments, announced keys, identities, and revocations."""

from __future__ import annotations

from fastapi import Request, Response

from aggregator import examples
from aggregator.context import AggregatorPart
from aggregator.errors import NotYourParty, UnknownParty
from aggregator.roster import enrolment, identities
from aggregator.roster.enrolment import DirectoryPart
from aggregator.store import roster as store
from aggregator.store import tables
from aggregator.web import AuthenticatorPart, Curator, Operator
from common.bodies import CBOR, encode
from common.principals import Scope
from common.store import tokens
from common.web.grants import answer_enrolment
from common.web.openapi import api_router, gives, takes
from common.web.paging import PageQuery, next_link
from common.web.wire import answer, etag_response, read_body
from tacit.answers.registry import FollowedIdentity, KnownParty, PartiesOfRoster
from tacit.crypto.signing import Signed, fingerprint
from tacit.protocol.enrolment import (
    GRANT_HEADER,
    Enrolment,
    EnrolmentAnswer,
    GrantAnswer,
    GrantRequest,
    TokenRenewal,
)
from tacit.protocol.party_identities import PartyChain
from tacit.wire import encode_binary, format_instant

router = api_router("roster")


@router.post(
    "/v1/grants",
    **gives(GrantAnswer, 201, also=[CBOR]),
    status_code=201,
    summary="A one-time secret with which a party may enrol",
    openapi_extra=takes(GrantRequest, examples.GRANT),
)
async def create_grant(request: Request, aggregator: AggregatorPart, _: Operator) -> Response:
    body = await read_body(request, GrantRequest)
    granted = await enrolment.issue_grant(aggregator, body)
    return answer(request, granted, status=201)


@router.post(
    "/v1/enrolments",
    **gives(EnrolmentAnswer, 201, also=[CBOR]),
    status_code=201,
    summary="Enrol a curator or a host with a one-time secret",
    openapi_extra=takes(Signed[Enrolment]),
)
async def enrol(
    request: Request,
    aggregator: AggregatorPart,
    directory: DirectoryPart,
    authenticator: AuthenticatorPart,
) -> Response:
    async def enrolled(signed: Signed[Enrolment]) -> Response:
        enrolled_party, new = await enrolment.enrol(aggregator, signed)
        if not new:  # the token of the answer that was lost is revoked
            directory.forget()
            authenticator.forget()
        return answer(request, enrolled_party, status=201)

    limit = await enrolment.largest_body(aggregator, request.headers.get(GRANT_HEADER))
    return await answer_enrolment(request, limit, aggregator.large_enrolments, enrolled)


@router.put(
    "/v1/parties/{party}/identity",
    **gives(FollowedIdentity, also=[CBOR]),
    summary="A party shows the links from one of its identities to the next",
    openapi_extra=takes(PartyChain),
)
async def follow_party_identity(
    request: Request,
    party: str,
    aggregator: AggregatorPart,
    directory: DirectoryPart,
    authenticator: AuthenticatorPart,
    caller: Curator,
) -> Response:
    if caller.subject != party:
        raise NotYourParty
    shown = await read_body(request, PartyChain)
    try:
        key = await identities.follow_party(aggregator, party, shown)
    finally:  # also of a fork, upon which its tokens ended
        directory.forget()
        authenticator.forget()
    return answer(request, FollowedIdentity(party=party, fingerprint=fingerprint(key).hex()))


@router.post(
    "/v1/parties/{party}/token",
    status_code=204,
    summary="Put another token in the place of a party's ended one, by its identity",
    openapi_extra=takes(Signed[TokenRenewal]),
)
async def renew_party_token(
    request: Request, party: str, aggregator: AggregatorPart, directory: DirectoryPart
) -> None:
    signed = await read_body(request, Signed[TokenRenewal])
    async with aggregator.database.reading() as transaction:
        row = await store.active_party(transaction, party)
    if row is None:
        raise UnknownParty
    await tokens.renew_by_identity(
        aggregator.database,
        tables.tokens,
        signed,
        tokens.Holder(Scope.CURATOR, party),
        service=aggregator.id,
        identity_key=row.identity_key,
        clock=aggregator.clock,
    )
    directory.forget()


@router.delete("/v1/parties/{party}", status_code=204, summary="A party leaves the roster")
async def remove_party(
    party: str,
    aggregator: AggregatorPart,
    directory: DirectoryPart,
    authenticator: AuthenticatorPart,
    _: Operator,
) -> None:
    await enrolment.revoke(aggregator, party)
    directory.forget()
    authenticator.forget()


@router.get(
    "/v1/roster",
    **gives(PartiesOfRoster),
    summary="Parties in the order of their enrolment",
)
async def get_roster(
    request: Request, page: PageQuery, aggregator: AggregatorPart, _: Operator
) -> Response:
    async with aggregator.database.reading() as transaction:
        rows = await store.list_parties(transaction, page.after_number(), page.limit)
    parties = [
        KnownParty(
            key=row.key,
            id=row.id,
            kind=row.kind,
            identity_key=encode_binary(row.identity_key),
            first=row.first,
            curators=row.curators,
            enrolled=format_instant(row.enrolled),
            left=None if row.left is None else format_instant(row.left),
        )
        for row in rows
    ]
    headers = next_link(request, rows[-1].key) if len(rows) == page.limit else {}
    return etag_response(request, encode(PartiesOfRoster(parties=parties)), headers=headers)
