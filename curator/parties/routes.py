"""The routes that enrol and list parties, and the check of the tokens that they may be issued."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from fastapi import Depends, Request
from pydantic import Field

from common.identity.token_routes import NewToken
from common.principals import Scope
from common.store.transactions import Database
from common.web.dependencies import part
from common.web.openapi import api_router, takes
from common.web.wire import read_body
from curator import examples
from curator.errors import BadItem, UnknownCurator
from curator.parties.enrolment import Enroller
from curator.parties.keys import Successions
from curator.store import parties as store
from curator.store.parties import PartyRow
from curator.web import DatabasePart, Operator
from tacit.answers.curator import (
    AnchoredAggregator,
    HostedParty,
    ListOfHostedParties,
    ReplacementsBegun,
    WaitingReplacement,
    WaitingReplacements,
)
from tacit.protocol.identities import LONGEST_OVERLAP
from tacit.query.terms import Identifier
from tacit.wire import WireModel, format_instant


class EnrolmentRequest(WireModel):
    """A join token; for a host, its curators in the order of their roster numbers."""

    token: Annotated[str, Field(min_length=16, max_length=100_000)]
    curators: tuple[Identifier, ...] | None = None


class JoinTokenRequest(WireModel):
    """A join token of grants that replace a party's identity."""

    token: Annotated[str, Field(min_length=16, max_length=100_000)]


class IdentitiesRequest(WireModel):
    """Whose identities are replaced (default: all). What the earlier identity sealed is accepted
    for `overlap_s` seconds more."""

    parties: Annotated[tuple[Identifier, ...], Field(min_length=1)] | None = None
    overlap_s: Annotated[int, Field(ge=600, le=int(LONGEST_OVERLAP.total_seconds()))] = 604_800


@dataclass(frozen=True)
class AfterEnrolment:
    """What the service does after an enrolment, before it answers."""

    run: Callable[[], Awaitable[None]]


After = Annotated[AfterEnrolment, Depends(part(AfterEnrolment))]
EnrollerPart = Annotated[Enroller, Depends(part(Enroller))]
SuccessionsPart = Annotated[Successions, Depends(part(Successions))]


router = api_router("parties")


@router.post(
    "/v1/enrolments",
    status_code=201,
    summary="Enrol a curator or a host with its join token; safe to repeat",
    openapi_extra=takes(EnrolmentRequest, examples.ENROLMENT),
)
async def enrol_with_deployment(
    request: Request, _: Operator, enroller: EnrollerPart, after: After
) -> HostedParty:
    body = await read_body(request, EnrolmentRequest)
    row = await enroller.enrol(body.token, body.curators)
    await after.run()
    return _party(row)


@router.get(
    "/v1/parties",
    summary="The parties that are hosted here",
)
async def list_parties(_: Operator, database: DatabasePart) -> ListOfHostedParties:
    async with database.reading() as transaction:
        rows = await store.list_parties(transaction)
    return ListOfHostedParties(parties=[_party(row) for row in rows])


@router.post(
    "/v1/parties/identities",
    status_code=202,
    summary="Replace the identities of parties, while rounds run",
    openapi_extra=takes(IdentitiesRequest, examples.IDENTITIES),
)
async def replace_identities(
    request: Request, _: Operator, successions: SuccessionsPart
) -> ReplacementsBegun:
    body = await read_body(request, IdentitiesRequest)
    begun = await successions.begin(body.parties, timedelta(seconds=body.overlap_s))
    return ReplacementsBegun(begun=begun)


@router.get(
    "/v1/parties/identities",
    summary="Parties whose next identity some of their services do not know yet",
)
async def list_identity_replacements(
    _: Operator, successions: SuccessionsPart
) -> WaitingReplacements:
    return WaitingReplacements(
        waiting=[
            WaitingReplacement(
                party=row.party,
                fingerprint=row.fingerprint.hex(),
                used=row.used,
                problems=row.problems,
            )
            for row in await successions.waiting()
        ]
    )


@router.put(
    "/v1/parties/{party}/identity",
    summary="Replace a stolen identity, with a join token whose grants replace it",
    openapi_extra=takes(JoinTokenRequest, examples.JOIN_TOKEN),
)
async def enrol_party_again(
    request: Request,
    party: str,
    _: Operator,
    enroller: EnrollerPart,
    successions: SuccessionsPart,
    after: After,
) -> HostedParty:
    body = await read_body(request, JoinTokenRequest)
    try:
        row = await enroller.enrol_again(party, body.token)
    finally:
        successions.keyring.forget(party)
    await after.run()
    return _party(row)


async def check_token(database: Database, token: NewToken) -> None:
    """Raises BadItem or UnknownCurator for a token that a curator service does not issue."""
    if token.scope not in (Scope.OPERATOR, Scope.DEVICE, Scope.CURATOR):
        raise BadItem("is operator, device or curator", pointer="/scope")
    if token.scope is Scope.OPERATOR:
        if token.subject is not None:
            raise BadItem("an operator's token belongs to no curator", pointer="/subject")
        return
    if token.subject is None:
        raise UnknownCurator(pointer="/subject")
    async with database.reading() as transaction:
        if await store.curator(transaction, token.subject) is None:
            raise UnknownCurator(pointer="/subject")


def _party(row: PartyRow) -> HostedParty:
    return HostedParty(
        party=row.id,
        kind=row.kind.value,
        state=row.state,
        deployment=row.deployment,
        coordinator=row.coordinator_url,
        first=row.first,
        curators=row.curators,
        aggregators=[
            AnchoredAggregator(id=a.aggregator, url=a.url, fingerprint=a.fingerprint.hex())
            for a in row.anchors
        ],
        enrolled=None if row.enrolled is None else format_instant(row.enrolled),
    )
