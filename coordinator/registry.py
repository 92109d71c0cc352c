"""Who belongs to the deployment: aggregators with their identities, parties with their numbers.

An aggregator is paired by the fingerprint of its identity, which its operator gives out of band.
A party (lone curator or host) enrols once with a one-time secret, proves that it holds the identity
it names, and gets its run of roster numbers. The coordinator alone enrols nobody: each aggregator
keeps a roster of its own (spec: aggregation, section 8).
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from pydantic import Field
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from common.errors import places_of
from common.models.base import Binary, WireModel
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
from common.service.database import exclusive, reading
from common.service.tokens import Scope, insert_token, mint, revoke_subject
from common.sets import runs
from common.signing import Identity, SignatureBroken, Signed, fingerprint, verify
from coordinator.budget.events import Draft, Kind
from coordinator.budget.ledger import LOCK, Ledger
from coordinator.errors import (
    AggregatorConflict,
    CuratorEnrolled,
    EnrolmentRefused,
    FingerprintMismatch,
    JoinTokenExpired,
    JoinTokenUnknown,
    JoinTokenUsed,
    UnknownParty,
)
from coordinator.peers import Peers
from coordinator.store import registry as store
from coordinator.store import tables
from coordinator.store.registry import AggregatorRow, GrantRow, PartyRow

IDENTITY = "identity"
ROSTER = "roster"
OPERATOR = "operator"
BYTES_PER_CURATOR = 136
"""In JSON: an identifier of at most 128 characters, quotes, comma, a little space."""


class AggregatorRequest(WireModel):
    """Pair an aggregator: its address, the token that it issued for this coordinator, and the
    fingerprint of its identity as its operator gave it."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s]+$", max_length=500)]
    token: Annotated[str, Field(min_length=32, max_length=512)]
    fingerprint: Annotated[Binary, Field(min_length=32, max_length=32)]


@dataclass(frozen=True)
class Registry:
    """The coordinator's own name and identity, for the functions below."""

    deployment: str
    identity: Identity
    url: str
    clock: Clock
    ledger: Ledger


async def load_identity(engine: AsyncEngine) -> Identity:
    """The coordinator's signing identity, made at the first start; one for all replicas."""
    async with engine.begin() as connection:
        await exclusive(connection, IDENTITY)
        stored = await store.secret(connection, IDENTITY)
        if stored is not None:
            return Identity.from_bytes(stored)
        identity = Identity.generate()
        await store.add_secret(connection, IDENTITY, identity.to_bytes())
        return identity


async def pair(
    engine: AsyncEngine, registry: Registry, peers: Peers, request: AggregatorRequest
) -> AggregatorRow:
    """Pair an aggregator whose identity and token are what its operator said, or renew them."""
    found = await peers.identity(request.url.rstrip("/"))
    if fingerprint(found.identity_key) != request.fingerprint:
        raise FingerprintMismatch
    row = AggregatorRow(
        id=found.id,
        url=request.url.rstrip("/"),
        operator=found.operator,
        identity_key=found.identity_key,
        token=request.token,
    )
    await peers.of(row).check_token()
    async with engine.begin() as connection:
        await exclusive(connection, "aggregators")
        for known in await store.aggregators_like(connection, row):
            if (known.id, known.identity_key) != (row.id, row.identity_key):
                raise AggregatorConflict(extra={"aggregator": known.id})
        await store.put_aggregator(connection, row, registry.clock.now())
    return row


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


async def largest_body(
    engine: AsyncEngine, registry: Registry, named: str | None, open_to_all: int, most: int
) -> int:
    """How many bytes of an enrolment are read: few, unless a grant that is named (by the hash of
    its secret) allows many curators. A used one may be repeated. Raises for one that is not good.
    """
    if named is None:
        return open_to_all
    async with reading(engine) as connection:
        granted = await store.grant(connection, named)
    if granted is None:
        raise JoinTokenUnknown
    if granted.expires <= registry.clock.now():
        raise JoinTokenExpired if granted.used is None else JoinTokenUsed
    return min(most, open_to_all + BYTES_PER_CURATOR * granted.max_curators)


async def enrol(
    engine: AsyncEngine, registry: Registry, signed: Signed[Enrolment]
) -> EnrolmentAnswer:
    """Enrol a party: check the grant and the proof of possession, assign its numbers.

    The same party with the same identity and curators may ask again with its secret, as long as
    that is valid: an answer that was lost on the way would leave it with numbers and no token.
    """
    request = signed.statement
    await asyncio.to_thread(_check_proof, signed)
    if request.service != registry.deployment:
        raise EnrolmentRefused("the enrolment is meant for another service", pointer="/service")
    try:
        async with engine.begin() as connection:
            return await _enrol(connection, registry, request)
    except IntegrityError:
        # the database compares every name as it writes them: who is taken is asked only then
        async with reading(engine) as connection:
            await _check_free(connection, request)
        raise


async def _enrol(
    connection: AsyncConnection, registry: Registry, request: Enrolment
) -> EnrolmentAnswer:
    now = registry.clock.now()
    await exclusive(connection, ROSTER)
    granted = await _check_grant(connection, registry, request)
    if granted.used is not None:
        first, version = await _enrolled_before(connection, registry, granted, request)
    else:
        if await store.party(connection, request.party) is not None:
            await _check_free(connection, request)
            raise CuratorEnrolled
        await store.use_grant(connection, _hash(request.secret), now)
        first, version = await store.add_party(
            connection, request.party, request.kind, request.identity_key, request.curators, now
        )
        await exclusive(connection, LOCK)
        run = (first, len(request.curators))
        joined = Draft(Kind.JOINED, request.party, {"party": request.party}, *run)
        await registry.ledger.append(connection, [joined])
    token, record = mint(
        (Scope.CURATOR,), registry.clock, subject=request.party, label=f"party {request.party}"
    )
    await insert_token(connection, tables.tokens, record)
    return EnrolmentAnswer(
        party=request.party,
        first=first,
        curators=len(request.curators),
        roster_version=version,
        token=token,
    )


async def leave(engine: AsyncEngine, registry: Registry, party: str) -> None:
    """A party leaves; its tokens end, its numbers are never given again. Raises UnknownParty."""
    now = registry.clock.now()
    async with engine.begin() as connection:
        await exclusive(connection, ROSTER)
        await exclusive(connection, LOCK)
        known = await store.party(connection, party)
        if known is None or not await store.leave(connection, party, now):
            raise UnknownParty
        await revoke_subject(connection, tables.tokens, party, now)
        await registry.ledger.append(
            connection, await _departures(connection, registry.ledger, known)
        )


async def come_back(engine: AsyncEngine, registry: Registry, party: str) -> str:
    """A party that left is in again, with its numbers and its old ledger; its new token.

    Identity is the data's: whoever leaves and joins again keeps what was spent.
    """
    async with engine.begin() as connection:
        await exclusive(connection, ROSTER)
        await exclusive(connection, LOCK)
        known = await store.party(connection, party)
        if known is None or not await store.come_back(connection, party):
            raise UnknownParty("there is no party of this name that left")
        state = await registry.ledger.current(connection)
        absent = ~state.roster.members()[known.first : known.first + known.curators]
        token, record = mint(
            (Scope.CURATOR,), registry.clock, subject=party, label=f"party {party}"
        )
        await insert_token(connection, tables.tokens, record)
        await registry.ledger.append(
            connection,
            [
                Draft(Kind.JOINED, OPERATOR, {"party": party}, known.first + start, length)
                for start, length in runs(absent)
            ],
        )
    return token


async def _departures(connection: AsyncConnection, ledger: Ledger, party: PartyRow) -> list[Draft]:
    """The events of a party's leaving: of each run of its curators that had not left before."""
    state = await ledger.current(connection)
    present = state.roster.members()[party.first : party.first + party.curators]
    return [
        Draft(Kind.LEFT, OPERATOR, {"party": party.id}, party.first + start, length)
        for start, length in runs(present)
    ]


async def _check_grant(
    connection: AsyncConnection, registry: Registry, request: Enrolment
) -> GrantRow:
    granted = await store.grant(connection, _hash(request.secret))
    if granted is None:
        raise JoinTokenUnknown
    if granted.expires <= registry.clock.now():
        raise JoinTokenUsed if granted.used is not None else JoinTokenExpired
    ids = request.curators
    if granted.party != request.party or granted.kind is not request.kind:
        raise EnrolmentRefused("the join token is bound to another party", pointer="/party")
    if not 1 <= len(ids) <= granted.max_curators:
        raise EnrolmentRefused(
            "not a number of curators that the join token allows",
            pointer="/curators",
            extra={"max_curators": granted.max_curators},
        )
    if request.kind is PartyKind.CURATOR and ids != (request.party,):
        raise EnrolmentRefused("a lone curator speaks for itself", pointer="/curators")
    return granted


async def _enrolled_before(
    connection: AsyncConnection, registry: Registry, granted: GrantRow, request: Enrolment
) -> tuple[int, int]:
    """(first number, roster version) of the same enrolment, whose tokens so far end."""
    known = await store.party(connection, request.party)
    if (
        known is None
        or known.left is not None
        or known.enrolled != granted.used  # it came by another grant since
        or known.identity_key != request.identity_key
        or not await store.are_curators_of(connection, known, request.curators)
    ):
        raise JoinTokenUsed
    await revoke_subject(connection, tables.tokens, request.party, registry.clock.now())
    version, _ = await store.roster_state(connection)
    return known.first, version


async def _check_free(connection: AsyncConnection, request: Enrolment) -> None:
    """Raise if a curator is listed twice, or has a number."""
    if len(set(request.curators)) != len(request.curators):
        raise EnrolmentRefused("a curator is listed twice", pointer="/curators")
    taken = await store.enrolled_ids(connection, request.curators)
    if taken:
        raise CuratorEnrolled(pointer="/curators", extra=places_of(request.curators, taken))


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
    if request.first is not None:
        raise EnrolmentRefused("numbers are assigned here", pointer="/first")


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
