"""Routes of the coordinator's own identity: who it is, its chain, and its replacement."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, Request, Response

from common.store.erasure import Erasure
from common.web import own_identity as shown_identity
from common.web.auth import Authenticator
from common.web.bodies import gives, takes
from common.web.own_identity import RevocationRequest, SuccessorRequest
from common.web.parts import part
from common.web.wire import etag_response, read_body
from coordinator.registry import own_identity
from coordinator.registry.identities import Identities
from coordinator.registry.own_identity import RevokedAnswer, ToldAnswer
from coordinator.registry.registry import Registry
from coordinator.settings import CoordinatorSettings
from coordinator.web import Operator, model_response
from tacit.answers.registry import CoordinatorIdentity
from tacit.crypto.hybrid_signing import HybridPublicKey
from tacit.crypto.signing import fingerprint
from tacit.protocol.identities import IdentityChain
from tacit.wire import encode_binary

RegistryPart = Annotated[Registry, Depends(part(Registry))]
IdentitiesPart = Annotated[Identities, Depends(part(Identities))]
ErasurePart = Annotated[Erasure, Depends(part(Erasure))]
AuthenticatorPart = Annotated[Authenticator, Depends(part(Authenticator))]


def add_identity(app: FastAPI, settings: CoordinatorSettings) -> None:
    """Add them to the app."""

    @app.get(
        "/.well-known/tacit-coordinator",
        **gives(CoordinatorIdentity),
        tags=["registry"],
        summary="Who this is",
    )
    async def get_identity(registry: RegistryPart) -> dict[str, str]:
        key = registry.own.public_keys[0]
        return {
            "deployment": settings.deployment,
            "identity_key": encode_binary(key),
            "fingerprint": fingerprint(key).hex(),
        }

    @app.get(
        "/.well-known/tacit-coordinator/identity",
        **gives(IdentityChain),
        tags=["registry"],
        summary="The chain of its identities: documents, and the links between them",
    )
    async def get_identity_chain(request: Request, registry: RegistryPart) -> Response:
        found = await shown_identity.shown(registry.own)
        return etag_response(request, found.model_dump_json(exclude_none=True).encode())

    @app.put(
        "/v1/identity/next",
        **gives(ToldAnswer),
        tags=["registry"],
        summary="Commit to the next pair of keys, of which the service gets the public halves",
        openapi_extra=takes(HybridPublicKey),
    )
    async def commit_identity(
        request: Request, registry: RegistryPart, identities: IdentitiesPart, _: Operator
    ) -> Response:
        following = await read_body(request, HybridPublicKey)
        return model_response(await own_identity.commit(registry, identities, following))

    @app.post(
        "/v1/identity/successor",
        **gives(ToldAnswer),
        tags=["registry"],
        summary="Replace the identity by the pair that it committed to",
        openapi_extra=takes(SuccessorRequest),
    )
    async def succeed_identity(
        request: Request,
        registry: RegistryPart,
        identities: IdentitiesPart,
        erasure: ErasurePart,
        authenticator: AuthenticatorPart,
        _: Operator,
    ) -> Response:
        asked = await read_body(request, SuccessorRequest)
        try:
            return model_response(await own_identity.rotate(registry, identities, erasure, asked))
        finally:  # after a compromised key tokens ended
            authenticator.forget()

    @app.post(
        "/v1/identity/revocation",
        **gives(RevokedAnswer),
        tags=["registry"],
        summary="End the identity without a successor, by the pair that it committed to",
        openapi_extra=takes(RevocationRequest),
    )
    async def revoke_identity(
        request: Request,
        registry: RegistryPart,
        identities: IdentitiesPart,
        erasure: ErasurePart,
        _: Operator,
    ) -> Response:
        asked = await read_body(request, RevocationRequest)
        return model_response(await own_identity.end(registry, identities, erasure, asked))
