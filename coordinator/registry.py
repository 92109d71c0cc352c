"""Who belongs to the deployment: aggregators with their identities, parties with their numbers.

An aggregator is paired by the fingerprint of its identity, which its operator gives out of band.
A party (lone curator or host) enrols once with a one-time secret, proves that it holds the identity
it names, and gets its run of roster numbers. The coordinator alone enrols nobody: each aggregator
keeps a roster of its own (spec: aggregation, section 8).
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from common.models.enrolment import (
    ENROLMENT_LABEL,
    EPOCH_KEY_LABEL,
    Enrolment,
    EnrolmentAnswer,
    Grant,
    GrantAnswer,
    GrantRequest,
    PartyKind,
)
from common.service.clock import Clock
from common.service.tokens import Scope, insert_token, mint
from common.signing import Identity, SignatureBroken, Signed, verify
from coordinator import store
from coordinator.errors import (
    CuratorEnrolled,
    EnrolmentRefused,
    JoinTokenExpired,
    JoinTokenUnknown,
    JoinTokenUsed,
)

IDENTITY = "identity"


@dataclass(frozen=True)
class Registry:
    """The coordinator's own name and identity, for the functions below."""

    deployment: str
    identity: Identity
    url: str
    clock: Clock


async def load_identity(connection: AsyncConnection) -> Identity:
    """The coordinator's signing identity, made at the first start."""
    stored = await store.secret(connection, IDENTITY)
    if stored is not None:
        return Identity.from_bytes(stored)
    identity = Identity.generate()
    await store.add_secret(connection, IDENTITY, identity.to_bytes())
    return identity


async def issue_grant(
    connection: AsyncConnection, registry: Registry, request: GrantRequest
) -> GrantAnswer:
    """A one-time secret for one party; only its hash is kept."""
    if request.kind is PartyKind.CURATOR and request.max_curators != 1:
        raise EnrolmentRefused("a lone curator is one curator", pointer="/max_curators")
    secret = secrets.token_urlsafe(32)
    expires = registry.clock.now() + timedelta(seconds=request.valid_s)
    await store.add_grant(
        connection, _hash(secret), request.party, request.kind, request.max_curators, expires
    )
    return GrantAnswer(
        grant=Grant(
            party=registry.deployment,
            url=registry.url,
            fingerprint=registry.identity.fingerprint,
            secret=secret,
        ),
        expires=expires,
    )


async def enrol(
    connection: AsyncConnection, registry: Registry, signed: Signed[Enrolment]
) -> EnrolmentAnswer:
    """Enrol a party: check the grant and the proof of possession, assign its numbers."""
    request = signed.statement
    _check_proof(signed)
    if request.service != registry.deployment:
        raise EnrolmentRefused("the enrolment is meant for another service", pointer="/service")
    now = registry.clock.now()
    granted = await store.grant(connection, _hash(request.secret))
    if granted is None:
        raise JoinTokenUnknown
    if granted.used is not None:
        raise JoinTokenUsed
    if granted.expires <= now:
        raise JoinTokenExpired
    ids = request.curators
    if granted.party != request.party or granted.kind is not request.kind:
        raise EnrolmentRefused("the join token is bound to another party", pointer="/party")
    if not 1 <= len(ids) <= granted.max_curators:
        raise EnrolmentRefused(
            "more curators than the join token allows",
            pointer="/curators",
            extra={"max_curators": granted.max_curators},
        )
    if len(set(ids)) != len(ids):
        raise EnrolmentRefused("a curator is listed twice", pointer="/curators")
    if request.kind is PartyKind.CURATOR and ids != (request.party,):
        raise EnrolmentRefused("a lone curator speaks for itself", pointer="/curators")
    taken = await store.enrolled_ids(connection, ids)
    if taken or await store.party_exists(connection, request.party):
        raise CuratorEnrolled(extra={"curators": sorted(taken)[:10]})
    if not await store.use_grant(connection, _hash(request.secret), now):
        raise JoinTokenUsed
    first, version = await store.add_party(
        connection, request.party, request.kind, request.identity_key, ids, now
    )
    token, record = mint(
        (Scope.CURATOR,), registry.clock, subject=request.party, label=f"party {request.party}"
    )
    await insert_token(connection, store.tokens, record)
    return EnrolmentAnswer(
        party=request.party, first=first, curators=len(ids), roster_version=version, token=token
    )


def _check_proof(signed: Signed[Enrolment]) -> None:
    request = signed.statement
    try:
        verify(ENROLMENT_LABEL, signed, request.identity_key)
        epoch_key = Signed(statement=request.epoch_key, signature=request.epoch_key_signature)
        verify(EPOCH_KEY_LABEL, epoch_key, request.identity_key)
    except SignatureBroken as error:
        raise EnrolmentRefused(str(error), pointer="/signature") from None
    if request.epoch_key.party != request.party:
        raise EnrolmentRefused("the epoch key names another party", pointer="/epoch_key/party")


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
