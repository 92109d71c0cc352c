"""Routes of the registry: aggregators, grants, enrolments, parties, tokens."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Path, Request, Response
from fastapi import Query as Parameter

from common.identity.own_identity import ConfirmationRequest
from common.identity.token_routes import IssuedTokens, NewToken, add_tokens
from common.principals import Scope
from common.runtime.clock import Clock
from common.store import tokens
from common.store.transactions import Database
from common.web import grants
from common.web.auth import Authenticator
from common.web.dependencies import part, part_of
from common.web.grants import OpenGrant, answer_enrolment, largest_body
from common.web.openapi import gives, takes
from common.web.paging import PageQuery, page_response
from common.web.wire import json_response, read_body
from coordinator import examples
from coordinator.errors import UnknownAggregator, UnknownParty
from coordinator.registry import members
from coordinator.registry.aggregators import HealthLooks, Identities
from coordinator.registry.members import AggregatorRequest, Registry
from coordinator.registry.peers import Peers
from coordinator.settings import CoordinatorSettings
from coordinator.store import registry as store
from coordinator.store import tables
from coordinator.store.registry import AggregatorRow, PartyRow
from coordinator.web import (
    ClockPart,
    DatabasePart,
    Operator,
    Party,
    Reader,
    model_response,
    time_text,
)
from tacit.answers.registry import (
    FollowedIdentity,
    ListOfGrants,
    ListOfParties,
    PairedAggregator,
    PairedAggregators,
    ReturnedParty,
    RosterPage,
)
from tacit.crypto.signing import Signed, fingerprint
from tacit.errors import Invalid
from tacit.protocol.enrolment import (
    GRANT_HEADER,
    Enrolment,
    EnrolmentAnswer,
    GrantAnswer,
    GrantRequest,
    TokenRenewal,
)
from tacit.protocol.identities import IdentityChain
from tacit.protocol.party_identities import PartyChain
from tacit.wire import encode_binary

RegistryPart = Annotated[Registry, Depends(part(Registry))]
Prefix = Annotated[
    str,
    Parameter(pattern=r"^[A-Za-z0-9._:@-]{0,128}$", description="Only those whose id begins so."),
]
GrantId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]
AuthenticatorPart = Annotated[Authenticator, Depends(part(Authenticator))]


def add_registry(app: FastAPI, settings: CoordinatorSettings, clock: Clock) -> None:
    """Add them to the app."""
    _add_aggregators(app)
    _add_parties(app, settings)
    issued = IssuedTokens(tables.tokens, clock, lambda: part_of(app, Database), _no_subject)
    add_tokens(app, issued, examples.TOKEN)


async def _no_subject(asked: NewToken) -> None:
    if asked.subject is not None:
        raise Invalid("a token made here belongs to no party", pointer="/subject")


def _add_aggregators(app: FastAPI) -> None:
    @app.post(
        "/v1/aggregators",
        **gives(PairedAggregator, 201),
        tags=["registry"],
        status_code=201,
        summary="Pair an aggregator",
        openapi_extra=takes(AggregatorRequest, examples.AGGREGATOR),
    )
    async def pair_aggregator(
        request: Request,
        database: DatabasePart,
        own: RegistryPart,
        peers: Annotated[Peers, Depends(part(Peers))],
        _: Operator,
    ) -> dict[str, Any]:
        body = await read_body(request, AggregatorRequest)
        return _aggregator(await members.pair(database, own, peers, body))

    @app.get(
        "/v1/aggregators",
        **gives(PairedAggregators),
        tags=["registry"],
        summary="The paired aggregators",
    )
    async def list_aggregators(
        database: DatabasePart,
        looks: Annotated[HealthLooks, Depends(part(HealthLooks))],
        caller: Reader,
        health: Annotated[
            bool, Parameter(description="Also look whether they are there (operators).")
        ] = False,
    ) -> dict[str, Any]:
        async with database.reading() as transaction:
            rows = await store.list_aggregators(transaction)
        shown = [_aggregator(row) for row in rows]
        if health:
            caller.demand(Scope.OPERATOR)
            for each, seen in zip(shown, await looks.look(rows), strict=True):
                each |= seen.model_dump(mode="json")
        return {"aggregators": shown}

    @app.get(
        "/v1/aggregators/{aggregator}/identity",
        **gives(IdentityChain),
        tags=["registry"],
        summary="The chain of an aggregator's identities, as it was followed last",
    )
    async def get_aggregator_identity(aggregator: str, database: DatabasePart) -> Response:
        async with database.reading() as transaction:
            rows = await store.list_aggregators(transaction)
        shown = {row.id: row.shown for row in rows}.get(aggregator)
        if shown is None:
            raise UnknownAggregator("no chain of such an aggregator is known")
        return json_response(shown)

    @app.put(
        "/v1/aggregators/{aggregator}/identity",
        tags=["registry"],
        status_code=204,
        summary="Show the chain of an aggregator's identities, where the aggregator is gone",
        openapi_extra=takes(IdentityChain),
    )
    async def follow_aggregator_identity(
        request: Request,
        aggregator: str,
        identities: Annotated[Identities, Depends(part(Identities))],
        _: Operator,
    ) -> None:
        await identities.take(aggregator, await read_body(request, IdentityChain))

    @app.post(
        "/v1/aggregators/{aggregator}/confirmation",
        **gives(PairedAggregator),
        tags=["registry"],
        summary="Confirm an aggregator's new identity, compared out of band",
        openapi_extra=takes(ConfirmationRequest, examples.CONFIRMATION),
    )
    async def confirm_aggregator(
        request: Request,
        aggregator: str,
        identities: Annotated[Identities, Depends(part(Identities))],
        _: Operator,
    ) -> dict[str, Any]:
        body = await read_body(request, ConfirmationRequest)
        return _aggregator(await identities.confirm(aggregator, body.fingerprint))

    @app.delete(
        "/v1/aggregators/{aggregator}", tags=["registry"], status_code=204, summary="Unpair one"
    )
    async def unpair_aggregator(
        aggregator: str, database: DatabasePart, clock: ClockPart, _: Operator
    ) -> None:
        async with database.begin() as transaction:
            if not await store.remove_aggregator(transaction, aggregator, clock.now()):
                raise UnknownAggregator


def _add_parties(app: FastAPI, settings: CoordinatorSettings) -> None:
    large = asyncio.Lock()

    @app.post(
        "/v1/grants",
        **gives(GrantAnswer, 201),
        tags=["registry"],
        status_code=201,
        summary="A one-time secret with which a party may enrol",
        openapi_extra=takes(GrantRequest, examples.GRANT),
    )
    async def create_grant(
        request: Request, database: DatabasePart, own: RegistryPart, _: Operator
    ) -> Response:
        body = await read_body(request, GrantRequest)
        async with database.begin() as transaction:
            answer = await members.issue_grant(transaction, own, body)
        return model_response(answer, 201)

    @app.get(
        "/v1/grants",
        **gives(ListOfGrants),
        tags=["registry"],
        summary="Grants that are neither used nor expired, without their secrets",
    )
    async def list_grants(database: DatabasePart, clock: ClockPart, _: Operator) -> dict[str, Any]:
        async with database.reading() as transaction:
            found = await grants.open_grants(transaction, tables.grants, clock.now())
        return {"grants": [grant_shown(each) for each in found]}

    @app.delete(
        "/v1/grants/{grant_id}",
        tags=["registry"],
        status_code=204,
        summary="Withdraw a grant that is not used yet",
    )
    async def withdraw_grant(grant_id: GrantId, database: DatabasePart, _: Operator) -> None:
        async with database.begin() as transaction:
            await grants.withdraw_grant(transaction, tables.grants, grant_id)

    @app.post(
        "/v1/enrolments",
        **gives(EnrolmentAnswer, 201),
        tags=["registry"],
        status_code=201,
        summary="Enrol a curator or a host with a one-time secret",
        openapi_extra=takes(Signed[Enrolment]),
    )
    async def enrol(
        request: Request,
        database: DatabasePart,
        own: RegistryPart,
        authenticator: AuthenticatorPart,
    ) -> Response:
        async def enrolled(signed: Signed[Enrolment]) -> Response:
            answer = await members.enrol(database, own, signed)
            authenticator.forget()
            return model_response(answer, 201)

        limit = await largest_body(
            database,
            tables.grants,
            request.headers.get(GRANT_HEADER),
            own.clock.now(),
            open_to_all=settings.enrolment_open_body_bytes,
            most=settings.enrolment_max_body_bytes,
        )
        return await answer_enrolment(request, limit, large, enrolled)

    @app.get(
        "/v1/parties",
        **gives(ListOfParties),
        tags=["registry"],
        summary="Curators and hosts, with their numbers",
    )
    async def list_parties(
        request: Request,
        page: PageQuery,
        database: DatabasePart,
        _: Operator,
        prefix: Prefix = "",
    ) -> Response:
        async with database.reading() as transaction:
            found = await store.list_parties(transaction, page.after_text(), page.limit, prefix)
            total = await store.count_parties(transaction, prefix)
        items = [_party(row) for row in found]
        return page_response(request, "parties", items, page.limit, "id", total=total)

    @app.get(
        "/v1/curators", **gives(RosterPage), tags=["registry"], summary="The roster, by number"
    )
    async def list_curators(
        request: Request,
        page: PageQuery,
        database: DatabasePart,
        _: Operator,
        prefix: Prefix = "",
    ) -> Response:
        async with database.reading() as transaction:
            found = await store.list_curators(transaction, page.after_number(), page.limit, prefix)
            total = await store.count_curators(transaction, prefix)
        return page_response(request, "curators", found, page.limit, "number", total=total)

    @app.put(
        "/v1/parties/{party}/identity",
        **gives(FollowedIdentity),
        tags=["registry"],
        summary="A party shows the links from one of its identities to the next",
        openapi_extra=takes(PartyChain),
    )
    async def follow_party_identity(
        request: Request,
        party: str,
        database: DatabasePart,
        own: RegistryPart,
        authenticator: AuthenticatorPart,
        caller: Party,
    ) -> dict[str, Any]:
        if caller.subject != party:
            raise UnknownParty
        shown = await read_body(request, PartyChain)
        try:
            key = await members.follow_party(database, own, party, shown)
        finally:  # also of a fork, upon which its tokens ended
            authenticator.forget()
        return {"party": party, "fingerprint": fingerprint(key).hex()}

    @app.post(
        "/v1/parties/{party}/token",
        tags=["registry"],
        status_code=204,
        summary="Put another token in the place of a party's ended one, by its identity",
        openapi_extra=takes(Signed[TokenRenewal]),
    )
    async def renew_party_token(
        request: Request, party: str, database: DatabasePart, own: RegistryPart
    ) -> None:
        signed = await read_body(request, Signed[TokenRenewal])
        async with database.reading() as transaction:
            known = await store.party(transaction, party)
        if known is None or known.left is not None:
            raise UnknownParty
        await tokens.renew_by_identity(
            database,
            tables.tokens,
            signed,
            tokens.Holder(Scope.CURATOR, party),
            service=own.deployment,
            identity_key=known.identity_key,
            clock=own.clock,
        )

    @app.delete("/v1/parties/{party}", tags=["registry"], status_code=204, summary="A party leaves")
    async def leave_deployment(
        party: str,
        database: DatabasePart,
        own: RegistryPart,
        authenticator: AuthenticatorPart,
        _: Operator,
    ) -> None:
        await members.leave(database, own, party)
        authenticator.forget()

    @app.post(
        "/v1/parties/{party}/return",
        **gives(ReturnedParty),
        tags=["registry"],
        summary="A party that left is back, with its old ledger; its new token is shown once",
    )
    async def return_party(
        party: str, database: DatabasePart, own: RegistryPart, _: Operator
    ) -> dict[str, Any]:
        token = await members.come_back(database, own, party)
        return {"party": party, "token": token}


def grant_shown(row: OpenGrant) -> dict[str, Any]:
    """A grant without its secret."""
    return {
        "id": row.id,
        "party": row.party,
        "kind": row.kind.value,
        "max_curators": row.max_curators,
        "expires": time_text(row.expires),
    }


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
