"""Routes of the registry: aggregators, grants, enrolments, parties, groups of curators."""

from __future__ import annotations

from typing import Annotated, Final

import numpy as np
from fastapi import Path, Request, Response
from fastapi import Query as Parameter
from pydantic import Field

from common.identity.own_identity import ConfirmationRequest
from common.principals import Scope
from common.store import tokens
from common.store.database import exclusive
from common.web import grants, idempotency
from common.web.grants import answer_enrolment, largest_body
from common.web.openapi import api_router, gives, gives_octets, takes
from common.web.paging import PageQuery
from common.web.wire import json_response, read_body
from coordinator import examples, storage_keys
from coordinator.errors import (
    UnknownAggregator,
    UnknownParty,
    UnknownSealKey,
)
from coordinator.key_rotation import status
from coordinator.registry import members
from coordinator.registry.aggregators import Health
from coordinator.registry.members import AggregatorRequest, GroupRequest, bitmap, create, find_group
from coordinator.services import Services
from coordinator.storage_keys import KEY_BYTES, StorageKey
from coordinator.store import registry as store
from coordinator.store import tables
from coordinator.store.registry import AggregatorRow, GroupRow, PartyRow
from coordinator.store.tables import idempotency_keys
from coordinator.web import Operator, Party, Reader, encode, link_next, model_response, time_text
from tacit import sets
from tacit.answers.registry import (
    CuratorsOfGroup,
    EnrolledParty,
    FollowedIdentity,
    Group,
    ListOfGrants,
    ListOfGroups,
    ListOfParties,
    OpenGrant,
    PairedAggregator,
    PairedAggregators,
    ReturnedParty,
    RosterPage,
    StorageKeyState,
)
from tacit.crypto.signing import Signed, fingerprint
from tacit.protocol.enrolment import (
    GRANT_HEADER,
    Enrolment,
    EnrolmentAnswer,
    GrantAnswer,
    GrantRequest,
    TokenRenewal,
)
from tacit.protocol.identities import (
    IdentityChain,
)
from tacit.protocol.party_identities import PartyChain
from tacit.wire import Binary, WireModel, encode_binary, format_instant, parse_binary

router = api_router()

Prefix = Annotated[
    str,
    Parameter(pattern=r"^[A-Za-z0-9._:@-]{0,128}$", description="Only those whose id begins so."),
]
GrantId = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]


@router.post(
    "/v1/aggregators",
    response_model_exclude_unset=True,
    tags=["registry"],
    status_code=201,
    summary="Pair an aggregator",
    openapi_extra=takes(AggregatorRequest, examples.AGGREGATOR),
)
async def pair_aggregator(request: Request, services: Services, _: Operator) -> PairedAggregator:
    body = await read_body(request, AggregatorRequest)
    return _aggregator(
        await members.pair(services.database, services.registry, services.peers, body)
    )


@router.get(
    "/v1/aggregators",
    response_model_exclude_unset=True,
    tags=["registry"],
    summary="The paired aggregators",
)
async def list_aggregators(
    services: Services,
    caller: Reader,
    health: Annotated[
        bool, Parameter(description="Also look whether they are there (operators).")
    ] = False,
) -> PairedAggregators:
    async with services.database.reading() as transaction:
        rows = await store.list_aggregators(transaction)
    if not health:
        return PairedAggregators(aggregators=[_aggregator(row) for row in rows])
    caller.demand(Scope.OPERATOR)
    seen = await services.health_looks.look(rows)
    return PairedAggregators(aggregators=list(map(_aggregator, rows, seen)))


@router.get(
    "/v1/aggregators/{aggregator}/identity",
    **gives(IdentityChain),
    tags=["registry"],
    summary="The chain of an aggregator's identities, as it was followed last",
)
async def get_aggregator_identity(aggregator: str, services: Services) -> Response:
    async with services.database.reading() as transaction:
        rows = await store.list_aggregators(transaction)
    shown = {row.id: row.shown for row in rows}.get(aggregator)
    if shown is None:
        raise UnknownAggregator("no chain of this aggregator is known")
    return json_response(shown)


@router.put(
    "/v1/aggregators/{aggregator}/identity",
    tags=["registry"],
    status_code=204,
    summary="Show the chain of an aggregator's identities, where the aggregator is gone",
    openapi_extra=takes(IdentityChain),
)
async def follow_aggregator_identity(
    request: Request, aggregator: str, services: Services, _: Operator
) -> None:
    await services.identities.take(aggregator, await read_body(request, IdentityChain))


@router.post(
    "/v1/aggregators/{aggregator}/confirmation",
    response_model_exclude_unset=True,
    tags=["registry"],
    summary="Confirm an aggregator's new identity, compared out of band",
    openapi_extra=takes(ConfirmationRequest, examples.CONFIRMATION),
)
async def confirm_aggregator(
    request: Request, aggregator: str, services: Services, _: Operator
) -> PairedAggregator:
    body = await read_body(request, ConfirmationRequest)
    return _aggregator(await services.identities.confirm(aggregator, body.fingerprint))


@router.delete(
    "/v1/aggregators/{aggregator}", tags=["registry"], status_code=204, summary="Unpair one"
)
async def unpair_aggregator(aggregator: str, services: Services, _: Operator) -> None:
    async with services.database.begin() as transaction:
        if not await store.remove_aggregator(transaction, aggregator, services.clock.now()):
            raise UnknownAggregator


@router.post(
    "/v1/grants",
    tags=["registry"],
    status_code=201,
    summary="A one-time secret with which a party may enrol",
    openapi_extra=takes(GrantRequest, examples.GRANT),
)
async def create_grant(request: Request, services: Services, _: Operator) -> GrantAnswer:
    body = await read_body(request, GrantRequest)
    async with services.database.begin() as transaction:
        return await members.issue_grant(transaction, services.registry, body)


@router.get(
    "/v1/grants",
    tags=["registry"],
    summary="Grants that are neither used nor expired, without their secrets",
)
async def list_grants(services: Services, _: Operator) -> ListOfGrants:
    async with services.database.reading() as transaction:
        rows = await grants.open_grants(transaction, tables.grants, services.clock.now())
    return ListOfGrants(
        grants=[
            OpenGrant(
                id=row.id,
                party=row.party,
                kind=row.kind.value,
                max_curators=row.max_curators,
                expires=format_instant(row.expires),
            )
            for row in rows
        ]
    )


@router.delete(
    "/v1/grants/{grant_id}",
    tags=["registry"],
    status_code=204,
    summary="Withdraw a grant that is not used yet",
)
async def withdraw_grant(grant_id: GrantId, services: Services, _: Operator) -> None:
    async with services.database.begin() as transaction:
        await grants.withdraw_grant(transaction, tables.grants, grant_id)


@router.post(
    "/v1/enrolments",
    **gives(EnrolmentAnswer, 201),
    tags=["registry"],
    status_code=201,
    summary="Enrol a curator or a host with a one-time secret",
    openapi_extra=takes(Signed[Enrolment]),
)
async def enrol(request: Request, services: Services) -> Response:
    async def enrolled(signed: Signed[Enrolment]) -> Response:
        answer = await members.enrol(services.database, services.registry, signed)
        services.authenticator.forget()
        return model_response(answer, 201)

    limit = await largest_body(
        services.database,
        tables.grants,
        request.headers.get(GRANT_HEADER),
        services.registry.clock.now(),
        open_to_all=services.settings.enrolment_open_body_bytes,
        most=services.settings.enrolment_max_body_bytes,
    )
    return await answer_enrolment(request, limit, services.large_body, enrolled)


@router.get(
    "/v1/parties",
    tags=["registry"],
    summary="Curators and hosts, with their numbers",
)
async def list_parties(
    request: Request,
    response: Response,
    page: PageQuery,
    services: Services,
    _: Operator,
    prefix: Prefix = "",
) -> ListOfParties:
    async with services.database.reading() as transaction:
        rows = await store.list_parties(transaction, page.after_text(), page.limit, prefix)
        total = await store.count_parties(transaction, prefix)
    link_next(request, response, page, rows, "id")
    return ListOfParties(parties=[party_answer(row) for row in rows], total=total)


@router.get("/v1/curators", tags=["registry"], summary="The roster, by number")
async def list_curators(
    request: Request,
    response: Response,
    page: PageQuery,
    services: Services,
    _: Operator,
    prefix: Prefix = "",
) -> RosterPage:
    async with services.database.reading() as transaction:
        curators = await store.list_curators(transaction, page.after_number(), page.limit, prefix)
        total = await store.count_curators(transaction, prefix)
    link_next(request, response, page, curators, "number")
    return RosterPage(curators=curators, total=total)


@router.put(
    "/v1/parties/{party}/identity",
    tags=["registry"],
    summary="A party shows the links from one of its identities to the next",
    openapi_extra=takes(PartyChain),
)
async def follow_party_identity(
    request: Request, party: str, services: Services, caller: Party
) -> FollowedIdentity:
    if caller.subject != party:
        raise UnknownParty
    shown = await read_body(request, PartyChain)
    try:
        key = await members.follow_party(services.database, services.registry, party, shown)
    finally:  # also of a fork, upon which its tokens ended
        services.authenticator.forget()
    return FollowedIdentity(party=party, fingerprint=fingerprint(key).hex())


@router.post(
    "/v1/parties/{party}/token",
    tags=["registry"],
    status_code=204,
    summary="Put another token in the place of a party's ended one, by its identity",
    openapi_extra=takes(Signed[TokenRenewal]),
)
async def renew_party_token(request: Request, party: str, services: Services) -> None:
    signed = await read_body(request, Signed[TokenRenewal])
    async with services.database.reading() as transaction:
        party_row = await store.party(transaction, party)
    if party_row is None or party_row.left is not None:
        raise UnknownParty
    await tokens.renew_by_identity(
        services.database,
        tables.tokens,
        signed,
        tokens.Holder(Scope.CURATOR, party),
        service=services.registry.deployment,
        identity_key=party_row.identity_key,
        clock=services.registry.clock,
    )


@router.delete("/v1/parties/{party}", tags=["registry"], status_code=204, summary="A party leaves")
async def leave_deployment(party: str, services: Services, _: Operator) -> None:
    await members.leave(services.database, services.registry, party)
    services.authenticator.forget()


@router.post(
    "/v1/parties/{party}/return",
    tags=["registry"],
    summary="A party that left is back, with its old ledger; its new token is shown once",
)
async def return_party(party: str, services: Services, _: Operator) -> ReturnedParty:
    token = await members.come_back(services.database, services.registry, party)
    return ReturnedParty(party=party, token=token)


def _aggregator(row: AggregatorRow, health: Health | None = None) -> PairedAggregator:
    return PairedAggregator(
        id=row.id,
        url=row.url,
        operator=row.operator,
        identity_key=encode_binary(row.identity_key),
        fingerprint=fingerprint(row.identity_key).hex(),
        **({} if health is None else health.model_dump(mode="json")),
    )


def party_answer(row: PartyRow) -> EnrolledParty:
    return EnrolledParty(
        id=row.id,
        kind=row.kind.value,
        first=row.first,
        curators=row.curators,
        enrolled=format_instant(row.enrolled),
        left=time_text(row.left),
    )


_CACHED_S: Final = 7 * 86_400


@router.get(
    "/v1/seal-keys/{key_hash}",
    **gives_octets(),
    tags=["registry"],
    summary="A public key that pieces are sealed to, by its hash",
)
async def get_seal_key(key_hash: str, services: Services) -> Response:
    try:
        digest = parse_binary(key_hash)
    except ValueError:
        raise UnknownSealKey from None
    content = await services.seal_keys.key(digest)
    headers = {"Cache-Control": f"public, max-age={_CACHED_S}, immutable"}
    return Response(content, media_type="application/octet-stream", headers=headers)


@router.post(
    "/v1/groups",
    **gives(Group, 200, 201),
    tags=["groups"],
    status_code=201,
    summary="Declare a group of curators; it is immutable",
    openapi_extra=takes(GroupRequest, examples.GROUP),
)
async def create_group(request: Request, services: Services, caller: Operator) -> Response:
    body = await read_body(request, GroupRequest)
    key = await idempotency.request_key(request, caller.token_id)
    async with services.database.begin() as transaction:
        await exclusive(transaction, "groups")
        if stored := await idempotency.recall(transaction, idempotency_keys, key):
            return stored.response()
        now = services.clock.now()
        row, new = await create(transaction, body, now)
        answer = idempotency.StoredAnswer(
            201 if new else 200, encode(_shown(row)), location=f"/v1/groups/{row.name}"
        )
        await idempotency.remember(transaction, idempotency_keys, key, answer, now)
    return answer.response(replayed=False)


@router.get("/v1/groups", tags=["groups"], summary="All groups, by name")
async def list_groups(
    request: Request, response: Response, page: PageQuery, services: Services, _: Reader
) -> ListOfGroups:
    async with services.database.reading() as transaction:
        rows = await store.page_of_groups(transaction, page.after_text(), page.limit)
    link_next(request, response, page, rows, "name")
    return ListOfGroups(groups=[_shown(row) for row in rows])


@router.get(
    "/v1/groups/{name}",
    tags=["groups"],
    summary="One group, without its curators",
)
async def get_group(name: str, services: Services, _: Reader) -> Group:
    async with services.database.reading() as transaction:
        return _shown(await find_group(transaction, name))


@router.get(
    "/v1/groups/{name}/curators",
    tags=["groups"],
    summary="Its curators, by number",
)
async def list_group_curators(
    request: Request,
    response: Response,
    name: str,
    page: PageQuery,
    services: Services,
    _: Operator,
) -> CuratorsOfGroup:
    last = page.after_number()
    after = -1 if last is None else last
    async with services.database.reading() as transaction:
        row = await find_group(transaction, name)
        numbers = np.flatnonzero(sets.unpack(bitmap(row), row.size))
        numbers = numbers[numbers > after][: page.limit]
        curators = await store.curators_by_number(transaction, numbers.tolist())
    link_next(request, response, page, curators, "number")
    return CuratorsOfGroup(curators=curators)


def _shown(row: GroupRow) -> Group:
    return Group(
        name=row.name,
        parent=row.parent,
        curators=row.curators,
        created=format_instant(row.created),
    )


class RotationRequest(WireModel):
    """The key that seals from now on. It is in no log and no answer."""

    key: Annotated[Binary, Field(min_length=KEY_BYTES, max_length=KEY_BYTES, repr=False)]


@router.get(
    "/v1/storage-key",
    tags=["service"],
    summary="Which storage key is in use, and the progress of a rotation",
)
async def get_storage_key(services: Services, _: Operator) -> StorageKeyState:
    return await status(services.database, services.resealing, services.storage_keys)


@router.put(
    "/v1/storage-key",
    tags=["service"],
    status_code=202,
    summary="Rotate the storage key: everything is sealed again",
    openapi_extra=takes(RotationRequest, examples.STORAGE_KEY),
)
async def rotate_storage_key(request: Request, services: Services, _: Operator) -> StorageKeyState:
    body = await read_body(request, RotationRequest)
    await storage_keys.begin_rotation(
        services.database, services.storage_keys, StorageKey(body.key)
    )
    services.resealing.wake()
    return await status(services.database, services.resealing, services.storage_keys)
