"""Routes of the anchors, for the operator of the curator service."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, Request, Response

from common.web.bodies import gives, takes
from common.web.own_identity import ConfirmationRequest
from common.web.parts import part
from common.web.wire import read_body
from curator import examples
from curator.parties.anchors import Anchors, AnchorsAnswer
from curator.web import Operator, answer
from tacit.protocol.identities import IdentityChain

AnchorsPart = Annotated[Anchors, Depends(part(Anchors))]


def add_anchors(app: FastAPI) -> None:
    """Add them to the app."""

    @app.get(
        "/v1/anchors",
        **gives(AnchorsAnswer),
        tags=["parties"],
        summary="The services as the parties here know them",
    )
    async def list_anchors(_: Operator, known: AnchorsPart) -> Response:
        return answer(await known.listed())

    @app.put(
        "/v1/anchors/{name}/identity",
        tags=["parties"],
        status_code=204,
        summary="Show the chain of a service's identities, where the service is gone",
        openapi_extra=takes(IdentityChain),
    )
    async def follow_anchor_identity(
        request: Request, name: str, _: Operator, known: AnchorsPart
    ) -> None:
        await known.take(name, await read_body(request, IdentityChain))

    @app.post(
        "/v1/anchors/{name}/confirmation",
        **gives(AnchorsAnswer),
        tags=["parties"],
        summary="Confirm a service's new identity, compared out of band",
        openapi_extra=takes(ConfirmationRequest, examples.CONFIRMATION),
    )
    async def confirm_anchor(
        request: Request, name: str, _: Operator, known: AnchorsPart
    ) -> Response:
        body = await read_body(request, ConfirmationRequest)
        return answer(await known.confirm(name, body.fingerprint))

    @app.delete(
        "/v1/anchors/{name}",
        tags=["parties"],
        status_code=204,
        summary="Forget an aggregator: nobody here takes part in its rounds any more",
    )
    async def drop_anchor(name: str, _: Operator, known: AnchorsPart) -> None:
        await known.drop(name)
