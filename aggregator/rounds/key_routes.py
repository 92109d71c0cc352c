"""The route by which an operator replaces seal keys before their time. Spec: keys, section 5.3."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response

from aggregator import examples
from aggregator.context import Aggregator
from aggregator.pieces.intake import Intake
from aggregator.roster.senders import SenderDirectory
from aggregator.rounds import identity_ends, key_sweep
from aggregator.web import Operator
from common.web.auth import Authenticator
from common.web.bodies import gives, takes
from common.web.own_identity import (
    IdentityAnswer,
    RevocationAnswer,
    RevocationRequest,
    SuccessorRequest,
)
from common.web.parts import part
from common.web.wire import CBOR, answer, read_body
from tacit.answers.aggregators import RotatedSealKey
from tacit.wire import WireModel

AggregatorPart = Annotated[Aggregator, Depends(part(Aggregator))]
IntakePart = Annotated[Intake, Depends(part(Intake))]
AuthenticatorPart = Annotated[Authenticator, Depends(part(Authenticator))]
DirectoryPart = Annotated[SenderDirectory, Depends(part(SenderDirectory))]


class RotationRequest(WireModel):
    """A new seal key; `destroy`: the old ones die now, with the rounds that name them."""

    destroy: bool = False


def add_key_rotation(app: FastAPI) -> None:
    """Add it to the app."""

    @app.post(
        "/v1/identity/successor",
        **gives(IdentityAnswer, also=[CBOR]),
        tags=["identity"],
        summary="Replace the identity by the pair that it committed to",
        openapi_extra=takes(SuccessorRequest),
    )
    async def succeed_identity(
        request: Request,
        aggregator: AggregatorPart,
        intake: IntakePart,
        authenticator: AuthenticatorPart,
        directory: DirectoryPart,
        _: Operator,
    ) -> Response:
        asked = await read_body(request, SuccessorRequest)
        try:
            return answer(request, await identity_ends.rotate(aggregator, intake, asked))
        finally:  # after a compromised key tokens ended
            authenticator.forget()
            directory.forget()

    @app.post(
        "/v1/identity/revocation",
        **gives(RevocationAnswer, also=[CBOR]),
        tags=["identity"],
        summary="End the identity without a successor, by the pair that it committed to",
        openapi_extra=takes(RevocationRequest),
    )
    async def revoke_identity(
        request: Request, aggregator: AggregatorPart, intake: IntakePart, _: Operator
    ) -> Response:
        asked = await read_body(request, RevocationRequest)
        return answer(request, await identity_ends.end(aggregator, intake, asked))

    @app.post(
        "/v1/seal-keys/rotation",
        **gives(RotatedSealKey),
        tags=["identity"],
        summary="Make a new seal key now; the old one opens no new round, or dies at once",
        openapi_extra=takes(RotationRequest, examples.ROTATION),
    )
    async def rotate_seal_key(
        request: Request, aggregator: AggregatorPart, intake: IntakePart, _: Operator
    ) -> dict[str, Any]:
        asked = await read_body(request, RotationRequest)
        done = await key_sweep.rotate(aggregator, intake, destroying=asked.destroy)
        return {"number": done.number, "retired": done.retired, "destroyed": done.destroyed}
