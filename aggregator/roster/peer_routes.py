"""Routes of the pinned peers, for the operator of this aggregator alone."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, Request, Response
from fastapi import Query as Parameter

from aggregator import examples
from aggregator.context import Aggregator
from aggregator.roster import peers
from aggregator.roster.peers import ListOfPeers, PeerAnswer, PeerRequest
from aggregator.web import Operator, Watcher
from common.web.bodies import gives, takes
from common.web.own_identity import ConfirmationRequest
from common.web.parts import part
from common.web.wire import CBOR, answer, read_body
from tacit.protocol.identities import IdentityChain

AggregatorPart = Annotated[Aggregator, Depends(part(Aggregator))]
Replace = Annotated[bool, Parameter(description="Unpin what is pinned under this id now.")]


def add_peers(app: FastAPI) -> None:
    """Add them to the app."""

    @app.put(
        "/v1/peers",
        **gives(PeerAnswer, also=[CBOR]),
        tags=["identity"],
        summary="Pin another aggregator",
        openapi_extra=takes(PeerRequest, examples.PEER),
    )
    async def pin_peer(
        request: Request, aggregator: AggregatorPart, _: Operator, replace: Replace = False
    ) -> Response:
        body = await read_body(request, PeerRequest)
        return answer(request, await peers.pin(aggregator, body, replacing=replace))

    @app.get(
        "/v1/peers",
        **gives(ListOfPeers, also=[CBOR]),
        tags=["identity"],
        summary="The pinned aggregators, by id",
    )
    async def list_peers(request: Request, aggregator: AggregatorPart, _: Operator) -> Response:
        found = await peers.listed(aggregator)
        return answer(request, {"peers": [item.model_dump(mode="json") for item in found]})

    @app.put(
        "/v1/peers/{peer}/identity",
        tags=["identity"],
        status_code=204,
        summary="Pass on the chain of another aggregator's identities",
        openapi_extra=takes(IdentityChain),
    )
    async def follow_peer_identity(
        request: Request, peer: str, aggregator: AggregatorPart, _: Watcher
    ) -> None:
        await peers.follow(aggregator, peer, await read_body(request, IdentityChain))

    @app.post(
        "/v1/peers/{peer}/confirmation",
        **gives(PeerAnswer, also=[CBOR]),
        tags=["identity"],
        summary="Confirm another aggregator's new identity, compared out of band",
        openapi_extra=takes(ConfirmationRequest, examples.CONFIRMATION),
    )
    async def confirm_peer(
        request: Request, peer: str, aggregator: AggregatorPart, _: Operator
    ) -> Response:
        body = await read_body(request, ConfirmationRequest)
        return answer(request, await peers.confirm(aggregator, peer, body.fingerprint))

    @app.delete(
        "/v1/peers/{peer}", tags=["identity"], status_code=204, summary="Unpin an aggregator"
    )
    async def remove_peer(peer: str, aggregator: AggregatorPart, _: Operator) -> None:
        await peers.remove(aggregator, peer)
