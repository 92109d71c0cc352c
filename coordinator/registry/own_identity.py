"""The coordinator's own identity: its chain, its replacement by command, and the routes.

Spec: keys, section 5.2. Its key signs only what is new: descriptors, and checkpoints of the ledger.
A round that runs was signed when it opened, and continues.
"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Depends, Request, Response

from common.identity import own_identity
from common.identity import own_identity as shown_identity
from common.identity.own_identity import (
    IdentityAnswer,
    RevocationAnswer,
    RevocationRequest,
    SuccessorRequest,
    answer_of,
    revoked_answer,
)
from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.runtime.tasks import Repeating
from common.store.database import exclusive
from common.store.erasure import Erasure
from common.store.identities import LOCK, destroy_identity, replace, revoke
from common.store.own_identities import OwnIdentities
from common.store.tokens import end_renewable
from common.web.auth import Authenticator
from common.web.dependencies import part
from common.web.openapi import api_router, gives, takes
from common.web.wire import etag_response, read_body
from coordinator.registry.aggregators import Identities
from coordinator.registry.members import Registry
from coordinator.store import rounds as round_store
from coordinator.store.tables import tokens
from coordinator.web import Operator, model_response
from tacit.answers.registry import CoordinatorIdentity
from tacit.crypto.signing import HybridIdentity, HybridPublicKey, fingerprint
from tacit.protocol.identities import IdentityChain, Role
from tacit.wire import encode_binary

REASON: Final = "identity_superseded"
SWEEP_S: Final = 30.0
_logger = get_logger("tacit.coordinator.identity")


class ToldAnswer(IdentityAnswer):
    """The current identity. `untold`: aggregators that did not accept the chain yet; it is sent
    again before their next round."""

    untold: tuple[str, ...]


async def commit(
    registry: Registry, identities: Identities, following: HybridPublicKey
) -> ToldAnswer:
    """Commit to the next pair of keys; a repetition changes nothing. Raises NextKeyCommitted."""
    own_table = registry.own
    done = await own_identity.commit(own_table, Role.COORDINATOR, registry.deployment, following)
    return ToldAnswer(**dict(done), untold=await identities.tell())


async def rotate(
    registry: Registry, identities: Identities, erasure: Erasure, request: SuccessorRequest
) -> ToldAnswer:
    """Replace the identity; a repetition completes what a crash interrupted, and changes nothing
    else. Raises KeyChangeUnconfirmed, SuccessionRefused, NextKeyCommitted."""
    own_table, asked = registry.own, request.replacement()
    async with own_table.database.begin() as transaction:
        await exclusive(transaction, LOCK)
        await own_table.load_in(transaction)
        before = own_table.serial
        now = registry.clock.now()
        new = await replace(transaction, own_table.table, registry.deployment, asked, now)
        if request.compromised and new.serial != before:
            await round_store.wish_all_end(transaction, REASON)
            await end_renewable(transaction, tokens, now)
    await sweep(own_table, erasure, registry.clock)
    await registry.ledger.checkpoint(instead=True)  # the next start believes no other key's
    assert new.document is not None
    rotation = answer_of(new.document.statement)
    return ToldAnswer(**dict(rotation), untold=await identities.tell())


class RevokedAnswer(RevocationAnswer):
    """`untold`: aggregators that did not accept the revocation; their operators end the pairing."""

    untold: tuple[str, ...]


async def end(
    registry: Registry, identities: Identities, erasure: Erasure, request: RevocationRequest
) -> RevokedAnswer:
    """Revoke the identity: unfinished rounds end, and no round is opened any more. A repetition
    completes what a crash interrupted. Raises as `rotate`."""
    own_table = registry.own
    async with own_table.database.begin() as transaction:
        await exclusive(transaction, LOCK)
        successor, now = HybridIdentity(request.secret), registry.clock.now()
        ended = await revoke(
            transaction, own_table.table, registry.deployment, successor, request.reason, now
        )
        await round_store.wish_all_end(transaction, REASON)
    await sweep(own_table, erasure, registry.clock)
    return RevokedAnswer(**dict(revoked_answer(ended)), untold=await identities.tell())


class Sweeper(Repeating):
    """Completes a replacement that a crash or an open reader interrupted, also one by another
    process."""

    def __init__(self, own_identities: OwnIdentities, erasure: Erasure, clock: Clock) -> None:
        super().__init__("identity_sweep", _logger, SWEEP_S)
        self._parts = own_identities, erasure, clock

    async def look(self) -> None:
        """Sweep once."""
        await sweep(*self._parts)


async def sweep(own_identities: OwnIdentities, erasure: Erasure, clock: Clock) -> None:
    """Destroy the private halves of replaced identities."""
    await own_identities.load()
    for old in own_identities.replaced():
        async with own_identities.database.begin() as transaction:
            await destroy_identity(transaction, own_identities.table, old.serial, clock.now())
    await own_identities.load()
    await erasure.erase()  # also what a crash left in the log


# Routes of the coordinator's own identity: who it is, its chain, and its replacement.

RegistryPart = Annotated[Registry, Depends(part(Registry))]
IdentitiesPart = Annotated[Identities, Depends(part(Identities))]
ErasurePart = Annotated[Erasure, Depends(part(Erasure))]
AuthenticatorPart = Annotated[Authenticator, Depends(part(Authenticator))]


router = api_router("registry")


@router.get(
    "/.well-known/tacit-coordinator",
    **gives(CoordinatorIdentity),
    summary="Who this is",
)
async def get_identity(registry: RegistryPart) -> dict[str, str]:
    key = registry.own.public_keys[0]
    return {
        "deployment": registry.deployment,
        "identity_key": encode_binary(key),
        "fingerprint": fingerprint(key).hex(),
    }


@router.get(
    "/.well-known/tacit-coordinator/identity",
    **gives(IdentityChain),
    summary="The chain of its identities: documents, and the links between them",
)
async def get_identity_chain(request: Request, registry: RegistryPart) -> Response:
    chain = await shown_identity.shown(registry.own)
    return etag_response(request, chain.model_dump_json(exclude_none=True).encode())


@router.put(
    "/v1/identity/next",
    **gives(ToldAnswer),
    summary="Commit to the next pair of keys, of which the service gets the public halves",
    openapi_extra=takes(HybridPublicKey),
)
async def commit_identity(
    request: Request, registry: RegistryPart, identities: IdentitiesPart, _: Operator
) -> Response:
    following = await read_body(request, HybridPublicKey)
    return model_response(await commit(registry, identities, following))


@router.post(
    "/v1/identity/successor",
    **gives(ToldAnswer),
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
    request_body = await read_body(request, SuccessorRequest)
    try:
        return model_response(await rotate(registry, identities, erasure, request_body))
    finally:  # after a compromised key tokens ended
        authenticator.forget()


@router.post(
    "/v1/identity/revocation",
    **gives(RevokedAnswer),
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
    request_body = await read_body(request, RevocationRequest)
    return model_response(await end(registry, identities, erasure, request_body))
