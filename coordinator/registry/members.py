"""Members of the deployment: aggregators with their identities, parties with their numbers, groups.

An aggregator is paired by the fingerprint of its identity, which its operator gives out of band. A
party (lone curator or host) enrols with a join token, and may replace its identity: the registry
follows the links that it shows; a fork revokes its tokens (spec: keys, section 5.2).

A group is a named, immutable set of enrolled curators, such as a feeder. A round of a query with a
group sums the group only; its members are in the round's descriptor, so that every party keeps to
them.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

import numpy as np
from pydantic import Field
from sqlalchemy.exc import IntegrityError

from common.principals import Scope
from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store import identities
from common.store.database import exclusive
from common.store.identities import forget_replaced
from common.store.own_identities import OwnIdentities
from common.store.tokens import insert_token, mint, revoke_subject
from common.store.transactions import Database, Transaction
from common.web import grants
from common.web.grants import EnrolmentRefused, GrantRow, JoinTokenUsed
from coordinator.budget.ledger import LOCK, Ledger
from coordinator.errors import (
    AggregatorConflict,
    CuratorEnrolled,
    FingerprintMismatch,
    GroupConflict,
    GroupRefused,
    UnknownGroup,
    UnknownParty,
)
from coordinator.models.budget_ledger import Draft, Kind
from coordinator.registry.peers import Peers
from coordinator.store import registry as store
from coordinator.store import tables
from coordinator.store.registry import AggregatorRow, GroupRow, PartyRow
from tacit import sets
from tacit.crypto.signing import Signed, fingerprint
from tacit.errors import FieldError, places_of
from tacit.protocol.enrolment import (
    Enrolment,
    EnrolmentAnswer,
    GrantAnswer,
    GrantRequest,
    grant_hash,
)
from tacit.protocol.identities import IdentityForked
from tacit.protocol.party_identities import PartyChain
from tacit.query.terms import MAX_CURATORS, Identifier
from tacit.sets import runs
from tacit.wire import Binary, WireModel

SALT_KEY = "salt_key"
SALT_KEY_BYTES = 32
ROSTER = "roster"
OPERATOR = "operator"


class AggregatorRequest(WireModel):
    """Pair an aggregator: its address, the token that it issued for this coordinator, and the
    fingerprint of its identity as its operator stated it."""

    url: Annotated[str, Field(pattern=r"^https?://[^\s]+$", max_length=500)]
    token: Annotated[str, Field(min_length=32, max_length=512)]
    fingerprint: Annotated[Binary, Field(min_length=32, max_length=32)]


@dataclass(frozen=True)
class Registry:
    """The coordinator's own name and identities, for the functions below."""

    deployment: str
    own: OwnIdentities
    url: str
    clock: Clock
    ledger: Ledger


async def load_salt_key(database: Database) -> bytes:
    """The key of the salts of all manifests, made at the first start; one for all replicas."""
    return await _secret(database, SALT_KEY, lambda: secrets.token_bytes(SALT_KEY_BYTES))


async def _secret(database: Database, name: str, make: Callable[[], bytes]) -> bytes:
    async with database.begin() as transaction:
        await exclusive(transaction, name)
        stored = await store.secret(transaction, name)
        if stored is None:
            stored = make()
            await store.add_secret(transaction, name, stored)
        return stored


async def pair(
    database: Database, registry: Registry, peers: Peers, request: AggregatorRequest
) -> AggregatorRow:
    """Pair an aggregator whose identity and token match its operator's statement, or renew them."""
    statement = await peers.identity(request.url.rstrip("/"))
    if fingerprint(statement.identity_key) != request.fingerprint:
        raise FingerprintMismatch
    row = AggregatorRow(
        id=statement.id,
        url=request.url.rstrip("/"),
        operator=statement.operator,
        identity_key=statement.identity_key,
        token=request.token,
    )
    await peers.candidate(row).check_token()
    async with database.begin() as transaction:
        await exclusive(transaction, "aggregators")
        for existing in await store.aggregators_like(transaction, row):
            if (existing.id, existing.identity_key) != (row.id, row.identity_key):
                raise AggregatorConflict(extra={"aggregator": existing.id})
            row = replace(row, pin=existing.pin, shown=existing.shown)
        await store.put_aggregator(transaction, row, registry.clock.now())
    return row


async def issue_grant(
    transaction: Transaction, registry: Registry, request: GrantRequest
) -> GrantAnswer:
    """A one-time secret for one party; only its hash is kept."""
    return await grants.issue_grant(
        transaction,
        tables.grants,
        request,
        registry.clock.now(),
        service=registry.deployment,
        url=registry.url,
        fingerprint=registry.own.current.fingerprint,
    )


async def enrol(
    database: Database, registry: Registry, signed: Signed[Enrolment]
) -> EnrolmentAnswer:
    """Enrol a party: check the grant and the proof of possession, assign its numbers.

    The same party with the same identity and curators may repeat the request while its secret is
    valid: otherwise an answer lost in transit would leave it with numbers and no token.
    """
    request = signed.statement
    await asyncio.to_thread(grants.check_proof, signed)
    if request.first is not None:
        raise EnrolmentRefused("numbers are assigned here", pointer="/first")
    if request.service != registry.deployment:
        raise EnrolmentRefused("the enrolment is meant for another service", pointer="/service")
    try:
        async with database.begin(large=True) as transaction:
            return await _enrol(transaction, registry, request)
    except IntegrityError:
        # the database compares every name as it writes them: taken names are queried only then
        async with database.reading() as transaction:
            await _check_free(transaction, request)
        raise


async def _enrol(
    transaction: Transaction, registry: Registry, request: Enrolment
) -> EnrolmentAnswer:
    now = registry.clock.now()
    await exclusive(transaction, ROSTER)
    secret_hash = grant_hash(request.secret)
    granted = await grants.find_grant(transaction, tables.grants, secret_hash, now)
    grants.check_allowed(granted, request)
    if granted.used is not None:
        first, version = await _enrolled_before(transaction, registry, granted, request)
    elif granted.replaces:
        first, version = await _replaced(transaction, request, now)
        await grants.use_grant(transaction, tables.grants, secret_hash, now)
    else:
        if await store.party(transaction, request.party) is not None:
            await _check_free(transaction, request)
            raise CuratorEnrolled
        await grants.use_grant(transaction, tables.grants, secret_hash, now)
        first, version = await store.add_party(
            transaction, request.party, request.kind, request.identity_key, request.curators, now
        )
        await exclusive(transaction, LOCK)
        run = (first, len(request.curators))
        joined = Draft(Kind.JOINED, request.party, {"party": request.party}, *run)
        await registry.ledger.append(transaction, [joined])
    token, record = mint(
        (Scope.CURATOR,), registry.clock, subject=request.party, label=f"party {request.party}"
    )
    await insert_token(transaction, tables.tokens, record)
    return EnrolmentAnswer(
        party=request.party,
        first=first,
        curators=len(request.curators),
        roster_version=version,
        token=token,
    )


async def _replaced(transaction: Transaction, request: Enrolment, now: datetime) -> tuple[int, int]:
    """Replace the identity of a party: (its first number, roster version). Its earlier tokens
    end. Raises UnknownParty, EnrolmentRefused for other curators."""
    existing = await store.party(transaction, request.party)
    if existing is None or existing.left is not None:
        raise UnknownParty
    same = existing.kind is request.kind and await store.are_curators_of(
        transaction, existing, request.curators
    )
    if not same:
        raise EnrolmentRefused("the party is on the roster with others", pointer="/curators")
    if existing.identity_key == request.identity_key:
        raise EnrolmentRefused("it has this identity", pointer="/identity_key")
    await store.set_identity(transaction, existing.id, request.identity_key, enrolled=now)
    await forget_replaced(transaction, tables.replaced_keys, existing.id)
    await revoke_subject(transaction, tables.tokens, existing.id, now)
    version, _ = await store.roster_state(transaction)
    return existing.first, version


async def leave(database: Database, registry: Registry, party: str) -> None:
    """A party leaves; its tokens end, its numbers are never assigned again. Raises UnknownParty."""
    now = registry.clock.now()
    async with database.begin() as transaction:
        await exclusive(transaction, ROSTER)
        await exclusive(transaction, LOCK)
        party_row = await store.party(transaction, party)
        if party_row is None or not await store.leave(transaction, party, now):
            raise UnknownParty
        await revoke_subject(transaction, tables.tokens, party, now)
        await registry.ledger.append(
            transaction, await _departures(transaction, registry.ledger, party_row)
        )


async def come_back(database: Database, registry: Registry, party: str) -> str:
    """Readmit a party that left, with its numbers and its old ledger; its new token. The ledger
    follows the identity: a party that leaves and joins again keeps what it spent."""
    async with database.begin() as transaction:
        await exclusive(transaction, ROSTER)
        await exclusive(transaction, LOCK)
        party_row = await store.party(transaction, party)
        if party_row is None or not await store.come_back(transaction, party):
            raise UnknownParty("there is no party of this name that left")
        state = await registry.ledger.current(transaction)
        absent = ~state.roster.members()[party_row.first : party_row.first + party_row.curators]
        token, record = mint(
            (Scope.CURATOR,), registry.clock, subject=party, label=f"party {party}"
        )
        await insert_token(transaction, tables.tokens, record)
        await registry.ledger.append(
            transaction,
            [
                Draft(Kind.JOINED, OPERATOR, {"party": party}, party_row.first + start, length)
                for start, length in runs(absent)
            ],
        )
    return token


async def _departures(transaction: Transaction, ledger: Ledger, party: PartyRow) -> list[Draft]:
    """The events of a party's leaving: for each run of its curators that had not left before."""
    state = await ledger.current(transaction)
    present = state.roster.members()[party.first : party.first + party.curators]
    return [
        Draft(Kind.LEFT, OPERATOR, {"party": party.id}, party.first + start, length)
        for start, length in runs(present)
    ]


async def _enrolled_before(
    transaction: Transaction, registry: Registry, granted: GrantRow, request: Enrolment
) -> tuple[int, int]:
    """(first number, roster version) of the same enrolment, whose earlier tokens end."""
    party_row = await store.party(transaction, request.party)
    if (
        party_row is None
        or party_row.left is not None
        or party_row.enrolled != granted.used  # it came by another grant since
        or party_row.identity_key != request.identity_key
        or not await store.are_curators_of(transaction, party_row, request.curators)
    ):
        raise JoinTokenUsed
    await revoke_subject(transaction, tables.tokens, request.party, registry.clock.now())
    version, _ = await store.roster_state(transaction)
    return party_row.first, version


async def _check_free(transaction: Transaction, request: Enrolment) -> None:
    """Raise if a curator is listed twice, or has a number."""
    if len(set(request.curators)) != len(request.curators):
        raise EnrolmentRefused("a curator is listed twice", pointer="/curators")
    enrolled = await store.enrolled_ids(transaction, request.curators)
    if enrolled:
        raise CuratorEnrolled(pointer="/curators", extra=places_of(request.curators, enrolled))


# A fork shows that a key was stolen: the party's tokens end, so that neither holder of the key
# continues, until the operators of all services grant it another identity. Spec: keys, section 5.2.

_logger = get_logger("tacit.coordinator.parties")


async def follow_party(
    database: Database, registry: Registry, party: str, shown: PartyChain
) -> bytes:
    """Follow a party's links; its current key. A repetition changes nothing. Raises what
    `follow_party` raises, and UnknownParty."""
    now = registry.clock.now()
    key: bytes | None = None
    async with database.begin() as transaction:
        await exclusive(transaction, ROSTER)
        party_row = await store.party(transaction, party)
        if party_row is None or party_row.left is not None:
            raise UnknownParty
        deployment, key_held = registry.deployment, party_row.identity_key
        try:
            key = await identities.follow_replacements(
                transaction, tables.replaced_keys, deployment, party, key_held, shown, now
            )
        except IdentityForked:
            await revoke_subject(transaction, tables.tokens, party, now)
        else:
            await store.set_identity(transaction, party, key)
    if key is None:
        _logger.warning("party_identity_forked")
        raise IdentityForked("two successors of one key: the party's tokens have ended")
    return key


NAMED = 10
"""At most this many curators are named in a refusal."""


class GroupRequest(WireModel):
    """A new group. `parent`: one that contains all its curators."""

    name: Identifier
    parent: Identifier | None = None
    curators: Annotated[tuple[Identifier, ...], Field(min_length=1, max_length=MAX_CURATORS)]


async def find_group(transaction: Transaction, name: str) -> GroupRow:
    """The group of this name. Raises UnknownGroup."""
    row = await store.find_group(transaction, name)
    if row is None:
        raise UnknownGroup(extra={"group": name})
    return row


def bitmap(row: GroupRow) -> bytes:
    """The members of a group, over the roster numbers that existed when it was made."""
    return sets.decompressed(row.members, row.size)


async def create(
    transaction: Transaction, request: GroupRequest, now: datetime
) -> tuple[GroupRow, bool]:
    """The group, and whether it is new; an identical request returns the same group.

    Raises GroupConflict for another set of this name, UnknownGroup for the parent, GroupRefused for
    curators that are not enrolled, named twice, or not in the parent.
    """
    existing = await store.find_group(transaction, request.name)
    members = await _members(transaction, request.curators, made_before=existing is not None)
    if existing is not None:
        same = bitmap(existing).rstrip(b"\0") == members.rstrip(b"\0")
        if not same or existing.parent != request.parent:
            raise GroupConflict(extra={"group": existing.name})
        return existing, False
    if request.parent is not None:
        _check_parent(await find_group(transaction, request.parent), members)
    size, count = 8 * len(members), len(request.curators)
    packed = await asyncio.to_thread(sets.compressed, members)
    row = GroupRow(request.name, request.parent, size, count, packed, now)
    await store.add_group(transaction, row)
    return row, True


async def _members(transaction: Transaction, ids: Sequence[str], *, made_before: bool) -> bytes:
    """The bitmap of the curators named. Existing members that have left may still be named."""
    if len(set(ids)) != len(ids):
        earlier: set[str] = set()
        twice = []
        for place, name in enumerate(ids):
            if name in earlier:
                twice.append(place)
            earlier.add(name)
        raise _refused("named twice", twice)
    found = await store.curator_numbers(transaction, ids)
    here = {name: number for name, (number, stays) in found.items() if stays or made_before}
    if len(here) != len(ids):
        unknown = [place for place, name in enumerate(ids) if name not in here]
        raise _refused("not an enrolled curator", unknown)
    numbers = np.fromiter(here.values(), np.int64, len(here))
    bits = np.zeros(int(numbers.max()) + 1, np.bool_)
    bits[numbers] = True
    return sets.pack(bits)


def _refused(reason: str, places: list[int]) -> GroupRefused:
    errors = tuple(FieldError(f"/curators/{place}", reason) for place in places[:NAMED])
    return GroupRefused(
        f"{len(places)} of the curators named cannot be members",
        errors=errors,
        extra={"count": len(places)},
    )


def _check_parent(parent: GroupRow, members: bytes) -> None:
    length = max(parent.size // 8, len(members))
    parent_members, members = bitmap(parent).ljust(length, b"\0"), members.ljust(length, b"\0")
    if sets.is_subset(members, parent_members):
        return
    outside = np.frombuffer(members, np.uint8) & ~np.frombuffer(parent_members, np.uint8)
    numbers = np.flatnonzero(sets.unpack(outside.tobytes(), 8 * len(members)))
    raise GroupRefused(
        f"{numbers.size} of the curators are not in {parent.name}",
        pointer="/parent",
        extra={"count": int(numbers.size)},
    )


async def invited(transaction: Transaction, name: str, roster_size: int) -> bytes:
    """The members of a group as a bitmap over a roster. Raises UnknownGroup."""
    return sets.resized(bitmap(await find_group(transaction, name)), roster_size)


async def expected(transaction: Transaction, members: sets.Bits, opened: datetime) -> int:
    """How many of a round's members had not left when it opened."""
    return int((await store.members_present(transaction, members, opened)).sum())
