"""The other aggregators with which this one may sum: those that its operator pinned; routes.

Spec: keys, section 6.5. A coordinator could open a second round over the same readings among this
aggregator and invented ones; pinned peers exclude that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated

from fastapi import Query as Parameter
from fastapi import Request, Response
from pydantic import Field

from aggregator import examples
from aggregator.context import Aggregator, AggregatorPart
from aggregator.errors import NotPaired, PeerNotAnchored, PeerPinned, UnknownPeer
from aggregator.store import roster as store
from aggregator.store.roster import PeerRow
from aggregator.web import Operator, Watcher
from common.bodies import CBOR
from common.identity.own_identity import ConfirmationRequest
from common.store.database import exclusive
from common.store.transactions import Transaction
from common.web.openapi import api_router, gives, takes
from common.web.wire import answer, read_body
from tacit.errors import DomainError, Invalid
from tacit.protocol.enrolment import Fingerprint
from tacit.protocol.identities import (
    IdentityChain,
    IdentityForked,
    KeyNotAnchored,
    Pin,
    Role,
)
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.query.terms import Identifier
from tacit.wire import Instant, WireModel, encode_binary

_PEERS = "aggregator peers"


class PeerRequest(WireModel):
    """Pin another aggregator: its fingerprint, and who runs it."""

    id: Identifier
    fingerprint: Fingerprint
    operator: Annotated[str, Field(min_length=1, max_length=128)]


class PeerAnswer(WireModel):
    """One that is pinned; `fingerprint` as operators read it out."""

    id: str
    operator: str
    fingerprint: str
    fingerprint_base64url: str
    pinned: Instant


class ListOfPeers(WireModel):
    """All that are pinned."""

    peers: tuple[PeerAnswer, ...]


async def pin(aggregator: Aggregator, request: PeerRequest, *, replacing: bool) -> PeerAnswer:
    """Pin an aggregator; a repetition changes nothing. Raises PeerPinned, Invalid."""
    if request.id == aggregator.id:
        raise Invalid("is this aggregator's own name", pointer="/id")
    if request.fingerprint == aggregator.identities.current.fingerprint:
        raise Invalid("is this aggregator's own", pointer="/fingerprint")
    pin = Pin(fingerprint=request.fingerprint)
    row = PeerRow(request.id, request.operator, pin, aggregator.clock.now())
    async with aggregator.database.begin() as transaction:
        await exclusive(transaction, _PEERS)
        peers = await store.list_peers(transaction)
        for other in peers.values():
            if other.fingerprint == row.fingerprint and other.id != row.id:
                raise Invalid(f"is pinned as that of {other.id}", pointer="/fingerprint")
        peer = peers.get(row.id)
        if peer is not None and _said(peer) == _said(row):
            return _answer(peer)
        if peer is not None and not replacing:
            raise PeerPinned(extra={"fingerprint": peer.fingerprint.hex()})
        await store.put_peer(transaction, row)
    return _answer(row)


async def listed(aggregator: Aggregator) -> list[PeerAnswer]:
    """All that are pinned, by id."""
    async with aggregator.database.reading() as transaction:
        return [_answer(row) for row in (await store.list_peers(transaction)).values()]


async def remove(aggregator: Aggregator, peer: str) -> None:
    """Unpin one. Raises UnknownPeer."""
    async with aggregator.database.begin() as transaction:
        await exclusive(transaction, _PEERS)
        if not await store.remove_peer(transaction, peer):
            raise UnknownPeer


async def follow(aggregator: Aggregator, peer: str, shown: IdentityChain) -> None:
    """Follow the chain of a pinned aggregator's identities, which the coordinator relays; chains of
    others are ignored.

    Raises IdentityForked, which lasts until the operator confirms one document, and what else
    invalidates the last link. The chain is stored for the operator.
    """
    now = aggregator.clock.now()
    refused: DomainError | None = None
    async with aggregator.database.begin() as transaction:
        await exclusive(transaction, _PEERS)
        pinned = (await store.list_peers(transaction)).get(peer)
        if pinned is None:
            return
        deployment = await _deployment(transaction)
        pin = pinned.pin
        try:
            pin = pin.follow(
                deployment, shown, now, Role.AGGREGATOR, peer, aggregator.settings.confirmed_keys
            )
        except IdentityForked as error:
            pin, refused = pin.forking(), error
        except DomainError as error:
            refused = error
        await store.put_peer(transaction, replace(pinned, pin=pin, shown=shown))
    if refused is not None:
        raise refused


async def confirm(aggregator: Aggregator, peer: str, compared: bytes) -> PeerAnswer:
    """Pin the document whose fingerprint the operator compared out of band, in place of the
    earlier one. Raises UnknownPeer, KeyNotAnchored if no such document was shown."""
    async with aggregator.database.begin() as transaction:
        await exclusive(transaction, _PEERS)
        pinned = (await store.list_peers(transaction)).get(peer)
        if pinned is None:
            raise UnknownPeer
        if pinned.shown is None:
            raise KeyNotAnchored("the coordinator has passed on no document of it")
        deployment = await _deployment(transaction)
        pin = pinned.pin.confirmed(deployment, pinned.shown, compared)
        row = replace(pinned, pin=pin)
        await store.put_peer(transaction, row)
    return _answer(row)


async def _deployment(transaction: Transaction) -> str:
    coordinator = await store.coordinator(transaction)
    if coordinator is None:
        raise NotPaired
    return coordinator.deployment


async def pinned_peers(
    aggregator: Aggregator, transaction: Transaction
) -> Mapping[str, PeerRow] | None:
    """The pinned aggregators, by id; None where any may participate."""
    return None if aggregator.settings.peers == "any" else await store.list_peers(transaction)


def check_peers(
    aggregator: Aggregator, descriptor: RoundDescriptor, pinned: Mapping[str, PeerRow] | None
) -> None:
    """Raise PeerNotAnchored unless all other aggregators of the round are as pinned here."""
    chosen = aggregator.settings.peers
    if pinned is None:
        return
    if pinned or chosen == "pinned":
        check_pinned(descriptor, aggregator.id, pinned, aggregator.clock.now())


def check_pinned(
    descriptor: RoundDescriptor, own_id: str, pinned: Mapping[str, PeerRow], now: datetime
) -> None:
    """Raise PeerNotAnchored for the first other aggregator that is not as pinned; IdentityForked,
    IdentitySuperseded for one whose identity was replaced twice, or is replaced."""
    for entry in descriptor.aggregators:
        if entry.id == own_id:
            continue
        peer = pinned.get(entry.id)
        if peer is None:
            raise PeerNotAnchored(f"aggregator {entry.id} is not pinned")
        try:
            peer.pin.check_key(entry.identity_key, now)
        except KeyNotAnchored:
            sentence = f"aggregator {entry.id} shows another identity than is pinned"
            raise PeerNotAnchored(sentence) from None
        if peer.operator != entry.operator:
            raise PeerNotAnchored(f"another operator is pinned for aggregator {entry.id}")


def _said(row: PeerRow) -> tuple[str, bytes]:
    return row.operator, row.fingerprint


def _answer(row: PeerRow) -> PeerAnswer:
    return PeerAnswer(
        id=row.id,
        operator=row.operator,
        fingerprint=row.fingerprint.hex(),
        fingerprint_base64url=encode_binary(row.fingerprint),
        pinned=row.pinned,
    )


Replace = Annotated[bool, Parameter(description="Unpin what is pinned under this id now.")]


router = api_router("identity")


@router.put(
    "/v1/peers",
    **gives(PeerAnswer, also=[CBOR]),
    summary="Pin another aggregator",
    openapi_extra=takes(PeerRequest, examples.PEER),
)
async def pin_peer(
    request: Request, aggregator: AggregatorPart, _: Operator, replace: Replace = False
) -> Response:
    body = await read_body(request, PeerRequest)
    return answer(request, await pin(aggregator, body, replacing=replace))


@router.get(
    "/v1/peers",
    **gives(ListOfPeers, also=[CBOR]),
    summary="The pinned aggregators, by id",
)
async def list_peers(request: Request, aggregator: AggregatorPart, _: Operator) -> Response:
    return answer(request, ListOfPeers(peers=tuple(await listed(aggregator))))


@router.put(
    "/v1/peers/{peer}/identity",
    status_code=204,
    summary="Pass on the chain of another aggregator's identities",
    openapi_extra=takes(IdentityChain),
)
async def follow_peer_identity(
    request: Request, peer: str, aggregator: AggregatorPart, _: Watcher
) -> None:
    await follow(aggregator, peer, await read_body(request, IdentityChain))


@router.post(
    "/v1/peers/{peer}/confirmation",
    **gives(PeerAnswer, also=[CBOR]),
    summary="Confirm another aggregator's new identity, compared out of band",
    openapi_extra=takes(ConfirmationRequest, examples.CONFIRMATION),
)
async def confirm_peer(
    request: Request, peer: str, aggregator: AggregatorPart, _: Operator
) -> Response:
    body = await read_body(request, ConfirmationRequest)
    return answer(request, await confirm(aggregator, peer, body.fingerprint))


@router.delete("/v1/peers/{peer}", status_code=204, summary="Unpin an aggregator")
async def remove_peer(peer: str, aggregator: AggregatorPart, _: Operator) -> None:
    await remove(aggregator, peer)
