"""Routes that say who this aggregator is, and pair it with its one coordinator."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Request, Response
from fastapi import Query as Parameter

from aggregator import enrolment, examples
from aggregator.context import Aggregator
from aggregator.enrolment import CoordinatorRequest
from aggregator.settings import AggregatorSettings
from aggregator.web import Operator, service_of
from common.models.base import encode_binary
from common.service.bodies import takes
from common.service.wire import answer, etag_response, read_body
from common.signing import fingerprint

Overlap = Annotated[
    int,
    Parameter(ge=0, le=604_800, description="Seconds for which an earlier token stays good."),
]
Replace = Annotated[bool, Parameter(description="Unpin the coordinator that is pinned now.")]


def add_identity(app: FastAPI, settings: AggregatorSettings) -> None:
    """Add them to the app."""

    @app.get("/.well-known/tacit-aggregator", tags=["identity"], summary="Who this is")
    async def identity(request: Request) -> dict[str, Any]:
        service = service_of(request)
        keyring = service.aggregator.keyring
        current = await keyring.current()
        key = keyring.identity.public_key
        return {
            "id": settings.aggregator_id,
            "operator": settings.operator,
            "identity_key": encode_binary(key),
            "fingerprint": fingerprint(key).hex(),
            "fingerprint_base64url": encode_binary(fingerprint(key)),
            "epoch_s": settings.epoch_s,
            "epoch_key": current.signed.model_dump(mode="json"),
            "policy": {
                "min_participants": settings.policy_min_participants,
                "max_curators": settings.policy_max_curators,
                "max_roster": settings.policy_max_roster,
                "max_dimension": settings.policy_max_dimension,
                "max_round_s": settings.policy_max_round_s,
                "allow_exact": settings.insecure_allow_exact,
                "allow_paper": settings.allow_paper,
            },
            "self_test": "passed" if service.samplers_passed else "failed",
            "version": app.version,
        }

    @app.get("/v1/keys/current", tags=["identity"], summary="The signed key of this epoch")
    async def current_key(request: Request) -> Response:
        current = await service_of(request).aggregator.keyring.current()
        return etag_response(request, current.signed.model_dump_json().encode())

    @app.put(
        "/v1/coordinator",
        tags=["identity"],
        summary="Pair with the one coordinator",
        openapi_extra=takes(CoordinatorRequest, examples.COORDINATOR),
    )
    async def pair(
        request: Request, _: Operator, replace: Replace = False, overlap_s: Overlap = 0
    ) -> Response:
        body, aggregator = await read_body(request, CoordinatorRequest), _aggregator(request)
        answered = await enrolment.pair(aggregator, body, replace=replace, overlap_s=overlap_s)
        app.state.authenticator.forget()
        return answer(request, answered)

    @app.delete(
        "/v1/coordinator",
        tags=["identity"],
        status_code=204,
        summary="End the pairing: no coordinator may speak here",
    )
    async def part(request: Request, _: Operator) -> None:
        await enrolment.part(_aggregator(request))
        app.state.authenticator.forget()


def _aggregator(request: Request) -> Aggregator:
    return service_of(request).aggregator
