"""Routes of this aggregator's identity, and of the pairing with its one coordinator."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi import Query as Parameter

from aggregator import examples
from aggregator.context import Aggregator
from aggregator.errors import NotPaired
from aggregator.roster import coordinator, enrolment
from aggregator.roster.enrolment import CoordinatorAnswer, CoordinatorRequest, PairedCoordinator
from aggregator.settings import AggregatorSettings
from aggregator.store import admission
from aggregator.web import Operator, Watcher
from common.web import own_identity
from common.web.auth import Authenticator
from common.web.bodies import gives, takes
from common.web.own_identity import ConfirmationRequest, IdentityAnswer
from common.web.parts import part
from common.web.wire import CBOR, answer, etag_response, read_body
from tacit.answers.aggregators import AggregatorIdentity
from tacit.crypto.hybrid_signing import HybridPublicKey
from tacit.crypto.signing import fingerprint
from tacit.protocol.identities import CoordinatorRenewal, IdentityChain, Role
from tacit.wire import encode_binary

AggregatorPart = Annotated[Aggregator, Depends(part(Aggregator))]
AuthenticatorPart = Annotated[Authenticator, Depends(part(Authenticator))]
Overlap = Annotated[
    int,
    Parameter(ge=0, le=604_800, description="Seconds for which an earlier token stays good."),
]
Replace = Annotated[bool, Parameter(description="Unpin the coordinator that is pinned now.")]


def add_identity(app: FastAPI, settings: AggregatorSettings) -> None:
    """Add them to the app."""

    @app.get(
        "/.well-known/tacit-aggregator",
        **gives(AggregatorIdentity),
        tags=["identity"],
        summary="Who this is",
    )
    async def get_identity(aggregator: AggregatorPart) -> dict[str, Any]:
        key = aggregator.identities.public_keys[0]
        return {
            "id": settings.aggregator_id,
            "operator": settings.operator,
            "identity_key": encode_binary(key),
            "fingerprint": fingerprint(key).hex(),
            "fingerprint_base64url": encode_binary(fingerprint(key)),
            "policy": {
                "min_participants": settings.policy_min_participants,
                "max_curators": settings.policy_max_curators,
                "max_roster": settings.policy_max_roster,
                "max_dimension": settings.policy_max_dimension,
                "max_round_s": settings.policy_max_round_s,
                "allow_exact": settings.insecure_allow_exact,
                "allow_paper": settings.allow_paper,
            },
            "self_test": "passed" if aggregator.samplers_passed else "failed",
            "version": app.version,
        }

    @app.get(
        "/.well-known/tacit-aggregator/identity",
        **gives(IdentityChain),
        tags=["identity"],
        summary="The chain of its identities: documents, and the links between them",
    )
    async def get_identity_chain(request: Request, aggregator: AggregatorPart) -> Response:
        found = await own_identity.shown(aggregator.identities)
        return etag_response(request, found.model_dump_json(exclude_none=True).encode())

    @app.put(
        "/v1/identity/next",
        **gives(IdentityAnswer, also=[CBOR]),
        tags=["identity"],
        summary="Commit to the next pair of keys, of which the service gets the public halves",
        openapi_extra=takes(HybridPublicKey),
    )
    async def commit_identity(
        request: Request, aggregator: AggregatorPart, _: Operator
    ) -> Response:
        following = await read_body(request, HybridPublicKey)
        own = aggregator.identities
        done = await own_identity.commit(own, Role.AGGREGATOR, aggregator.id, following)
        return answer(request, done)

    @app.get(
        "/v1/coordinator",
        **gives(PairedCoordinator, also=[CBOR]),
        tags=["identity"],
        summary="The coordinator that this aggregator is paired with",
    )
    async def get_coordinator(
        request: Request, aggregator: AggregatorPart, _: Operator
    ) -> Response:
        return answer(request, await enrolment.paired(aggregator))

    @app.put(
        "/v1/coordinator",
        **gives(CoordinatorAnswer, also=[CBOR]),
        tags=["identity"],
        summary="Pair with the one coordinator",
        openapi_extra=takes(CoordinatorRequest, examples.COORDINATOR),
    )
    async def pair_coordinator(
        request: Request,
        aggregator: AggregatorPart,
        authenticator: AuthenticatorPart,
        _: Operator,
        replace: Replace = False,
        overlap_s: Overlap = 0,
    ) -> Response:
        body = await read_body(request, CoordinatorRequest)
        answered = await enrolment.pair(aggregator, body, replace=replace, overlap_s=overlap_s)
        authenticator.forget()
        return answer(request, answered)

    @app.put(
        "/v1/coordinator/identity",
        tags=["identity"],
        status_code=204,
        summary="Show the chain of the coordinator's identities",
        openapi_extra=takes(IdentityChain),
    )
    async def follow_coordinator_identity(
        request: Request,
        aggregator: AggregatorPart,
        authenticator: AuthenticatorPart,
        _: Watcher,
    ) -> None:
        try:
            await coordinator.follow(aggregator, await read_body(request, IdentityChain))
        finally:  # after a compromised key its tokens ended
            authenticator.forget()

    @app.post(
        "/v1/coordinator/token",
        tags=["identity"],
        status_code=204,
        summary="Put another token in the place of the coordinator's ended one, by its identity",
        openapi_extra=takes(CoordinatorRenewal),
    )
    async def renew_coordinator_token(request: Request, aggregator: AggregatorPart) -> None:
        await coordinator.renew(aggregator, await read_body(request, CoordinatorRenewal))

    @app.get(
        "/v1/coordinator/identity",
        **gives(IdentityChain),
        tags=["identity"],
        summary="The chain of the coordinator's identities, as it was followed last",
    )
    async def get_coordinator_identity(request: Request, aggregator: AggregatorPart) -> Response:
        async with aggregator.database.reading() as transaction:
            known = await admission.coordinator(transaction)
        if known is None or known.shown is None:
            raise NotPaired("no chain of a coordinator is known")
        return etag_response(request, known.shown.model_dump_json(exclude_none=True).encode())

    @app.post(
        "/v1/coordinator/confirmation",
        **gives(PairedCoordinator, also=[CBOR]),
        tags=["identity"],
        summary="Confirm the coordinator's new identity, compared out of band",
        openapi_extra=takes(ConfirmationRequest, examples.CONFIRMATION),
    )
    async def confirm_coordinator(
        request: Request, aggregator: AggregatorPart, _: Operator
    ) -> Response:
        body = await read_body(request, ConfirmationRequest)
        return answer(request, await coordinator.confirm(aggregator, body.fingerprint))

    @app.delete(
        "/v1/coordinator",
        tags=["identity"],
        status_code=204,
        name="part",  # clients see it in the operation's id
        summary="End the pairing: no coordinator may speak here",
    )
    async def unpair_coordinator(
        aggregator: AggregatorPart, authenticator: AuthenticatorPart, _: Operator
    ) -> None:
        await enrolment.part(aggregator)
        authenticator.forget()
