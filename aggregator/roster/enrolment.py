"""Who may call this aggregator: one coordinator, and the parties on its own roster.

Pairing with the coordinator, grants, enrolments and revocations of parties. The coordinator is
pinned by its identity key; a party enrols once with a one-time secret from this aggregator's
operator. `SenderDirectory` finds the party of a token: look-ups that arrive while one is in
progress share the next query.
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

import numpy as np
from fastapi import Depends
from numpy.typing import NDArray

from aggregator.context import Aggregator
from aggregator.errors import (
    AlreadyPaired,
    CuratorEnrolled,
    NotPaired,
    UnknownParty,
)
from aggregator.store import roster, tables
from aggregator.store import roster as store
from aggregator.store.roster import CoordinatorRow, Party
from common.principals import Scope
from common.runtime.clock import Clock
from common.store.database import exclusive
from common.store.group_commit import GroupCommit, reading
from common.store.identities import forget_replaced
from common.store.tokens import MAX_CHARACTERS, hash_token, insert_token, mint, revoke_subject
from common.store.transactions import Database, Transaction
from common.web import grants
from common.web.auth import TokenExpired
from common.web.dependencies import part
from common.web.grants import EnrolmentRefused, GrantRow, JoinTokenUsed
from tacit.crypto.signing import Signed, fingerprint
from tacit.errors import places_of
from tacit.protocol.enrolment import (
    RUN_ALIGNMENT,
    Enrolment,
    EnrolmentAnswer,
    GrantAnswer,
    GrantRequest,
    PartyKind,
    PublicKey,
    grant_hash,
)
from tacit.protocol.identities import Pin
from tacit.query.terms import Identifier
from tacit.wire import WireModel

ROSTER = "aggregator roster"
_END_OF_NUMBERS = 2**32
_HASHED = 1 << 14


class CoordinatorRequest(WireModel):
    """Pair with one coordinator, identified by its deployment and its identity key."""

    deployment: Identifier
    identity_key: PublicKey


class PairedCoordinator(WireModel):
    """The one coordinator; `fingerprint` as operators read it out."""

    deployment: str
    fingerprint: str


class CoordinatorAnswer(WireModel):
    """`token` is the coordinator's API token here; it is shown once."""

    deployment: str
    fingerprint: str
    token: str


async def pair(
    aggregator: Aggregator, request: CoordinatorRequest, *, replace: bool, overlap_s: int = 0
) -> CoordinatorAnswer:
    """Pin the coordinator and create its token; a repetition renews the token.

    An earlier token of the same coordinator stays valid for `overlap_s` more seconds, in which
    it receives the new one; that of another coordinator ends immediately. Raises AlreadyPaired.
    """
    now = aggregator.clock.now()
    key = request.identity_key
    coordinator_asked = CoordinatorRow(request.deployment, key, Pin(fingerprint=fingerprint(key)))
    async with aggregator.database.begin() as transaction:
        await exclusive(transaction, ROSTER)
        coordinator = await store.coordinator(transaction)
        same = coordinator is not None and _names(coordinator) == _names(coordinator_asked)
        if coordinator is not None and not same and not replace:
            raise AlreadyPaired(extra={"fingerprint": fingerprint(coordinator.identity_key).hex()})
        if not same:
            await store.put_coordinator(transaction, coordinator_asked, now)
        overlap = timedelta(seconds=overlap_s if same else 0)
        await store.end_scope(transaction, Scope.COORDINATOR, now, overlap)
        token, record = mint(
            (Scope.COORDINATOR,),
            aggregator.clock,
            label=f"coordinator of {coordinator_asked.deployment}",
        )
        await insert_token(transaction, tables.tokens, record)
    return CoordinatorAnswer(
        deployment=coordinator_asked.deployment,
        fingerprint=fingerprint(coordinator_asked.identity_key).hex(),
        token=token,
    )


def _names(row: CoordinatorRow) -> tuple[str, bytes]:
    return row.deployment, row.identity_key


async def paired(aggregator: Aggregator) -> PairedCoordinator:
    """The coordinator that this aggregator is paired with. Raises NotPaired."""
    async with aggregator.database.reading() as transaction:
        coordinator = await store.coordinator(transaction)
    if coordinator is None:
        raise NotPaired
    return paired_answer(coordinator)


def paired_answer(row: CoordinatorRow) -> PairedCoordinator:
    """What its operator sees of a coordinator."""
    return PairedCoordinator(
        deployment=row.deployment, fingerprint=fingerprint(row.identity_key).hex()
    )


async def unpair(aggregator: Aggregator) -> None:
    """End the pairing: no coordinator may call any more. Accepted pieces are never summed, unless
    the same coordinator is paired again before the pieces are destroyed. Raises NotPaired."""
    async with aggregator.database.begin() as transaction:
        await exclusive(transaction, ROSTER)
        if not await store.remove_coordinator(transaction):
            raise NotPaired
        await store.end_scope(transaction, Scope.COORDINATOR, aggregator.clock.now())


async def issue_grant(aggregator: Aggregator, request: GrantRequest) -> GrantAnswer:
    """A one-time secret for one party; only its hash is kept."""
    async with aggregator.database.begin() as transaction:
        return await grants.issue_grant(
            transaction,
            tables.grants,
            request,
            aggregator.clock.now(),
            service=aggregator.id,
            url=aggregator.url,
            fingerprint=aggregator.identities.current.fingerprint,
        )


async def largest_body(aggregator: Aggregator, named: str | None) -> int:
    """How many bytes of an enrolment are read. Raises for an invalid grant."""
    settings = aggregator.settings
    return await grants.largest_body(
        aggregator.database,
        tables.grants,
        named,
        aggregator.clock.now(),
        open_to_all=settings.enrolment_open_body_bytes,
        most=settings.enrolment_max_body_bytes,
    )


async def enrol(aggregator: Aggregator, signed: Signed[Enrolment]) -> tuple[EnrolmentAnswer, bool]:
    """Put a party on the roster: check the grant, the proof of possession and the numbers.

    The answer, and whether it is new: the same enrolment again is answered with a fresh token.
    """
    request = signed.statement
    await asyncio.to_thread(grants.check_proof, signed)
    if request.service != aggregator.id:
        raise EnrolmentRefused("the enrolment is meant for another service", pointer="/service")
    hosted = await asyncio.to_thread(_hosted, request)
    now = aggregator.clock.now()
    async with aggregator.database.begin(large=True) as transaction:
        await exclusive(transaction, ROSTER)
        secret_hash = grant_hash(request.secret)
        granted = await grants.find_grant(transaction, tables.grants, secret_hash, now)
        first = request.first
        if granted.used is not None:
            await _check_same(transaction, granted, request, hosted)
            await revoke_subject(transaction, tables.tokens, request.party, now)
        else:
            first = _check_grant(granted, request)
            if granted.replaces:
                await _replace(transaction, request, hosted, now)
            else:
                await _check_free(transaction, request, first, hosted)
                await _add(transaction, request, first, hosted, now)
            await grants.use_grant(transaction, tables.grants, secret_hash, now)
        token, record = mint(
            (Scope.CURATOR,), aggregator.clock, subject=request.party, label="enrolled party"
        )
        await insert_token(transaction, tables.tokens, record)
    assert first is not None
    answer = EnrolmentAnswer(
        party=request.party, first=first, curators=len(request.curators), token=token
    )
    return answer, granted.used is None


async def revoke(aggregator: Aggregator, party: str) -> None:
    """Remove a party from the roster and end its tokens. Its numbers are never assigned again."""
    now = aggregator.clock.now()
    async with aggregator.database.begin() as transaction:
        await exclusive(transaction, ROSTER)
        if not await roster.leave(transaction, party, now):
            raise UnknownParty
        await revoke_subject(transaction, tables.tokens, party, now)
        await forget_replaced(transaction, tables.replaced_keys, party)


# --- the checks of an enrolment ------------------------------------------------------------------


async def _check_same(
    transaction: Transaction,
    granted: GrantRow,
    request: Enrolment,
    hosted: _Hosted | None,
) -> None:
    """Raise JoinTokenUsed unless every part of this enrolment equals the one for which the grant
    was used, and the party has been on the roster since then."""
    party = await roster.active_party(transaction, request.party)
    if party is None:
        raise JoinTokenUsed
    same = (
        party.identity_key == request.identity_key
        and await roster.enrolled_at(transaction, party.key) == granted.used
        and await _has_the_same_curators(transaction, party, request, hosted)
    )
    if not same:
        raise JoinTokenUsed


async def _has_the_same_curators(
    transaction: Transaction, party: Party, request: Enrolment, hosted: _Hosted | None
) -> bool:
    """Whether an enrolment is of a party's kind, numbers and curators."""
    shape = (request.kind, request.first, len(request.curators))
    if shape != (party.kind, party.first, party.curators):
        return False
    if hosted is None:
        return request.curators == (request.party,)
    ids = await roster.hosted_ids(transaction, party.key)
    return hosted.compressed == ids or _unpack(ids) == list(request.curators)


def _check_grant(granted: GrantRow, request: Enrolment) -> int:
    """The first number, if the unused secret allows this enrolment."""
    grants.check_allowed(granted, request)
    first = request.first
    if first is None or first + len(request.curators) > _END_OF_NUMBERS:
        raise EnrolmentRefused("the first roster number is missing", pointer="/first")
    if request.kind is PartyKind.HOST and first % RUN_ALIGNMENT:
        raise EnrolmentRefused(
            f"a host's run starts at a multiple of {RUN_ALIGNMENT}", pointer="/first"
        )
    return first


async def _check_free(
    transaction: Transaction, request: Enrolment, first: int, hosted: _Hosted | None
) -> None:
    if await roster.is_active(transaction, request.party, request.identity_key):
        raise CuratorEnrolled("the party or its identity is enrolled")
    if await roster.numbers_taken(transaction, first, len(request.curators)):
        raise CuratorEnrolled("roster numbers were given before", pointer="/first")
    ids = request.curators
    hashes = hosted.hashes if hosted is not None else _hashes(ids)
    ids_enrolled: set[str] = set()
    if hosted is not None:
        async for names in roster.lone_ids(transaction):
            if _meet(_hashes(names), hashes):
                ids_enrolled |= set(ids) & set(names)
    async for party, theirs in roster.hosted_hashes(transaction):
        if _meet(hashes, theirs):
            ids_enrolled |= set(ids) & set(_unpack(await roster.hosted_ids(transaction, party)))
    if ids_enrolled:
        raise CuratorEnrolled(pointer="/curators", extra=places_of(ids, ids_enrolled))


async def _add(
    transaction: Transaction,
    request: Enrolment,
    first: int,
    hosted: _Hosted | None,
    now: datetime,
) -> None:
    """Store the party."""
    party = Party(
        0, request.party, request.kind, request.identity_key, first, len(request.curators), None
    )
    key = await roster.add_party(transaction, party, now)
    if hosted is not None:
        await roster.add_hosted(
            transaction, key, hosted.hashes.astype("<u8").tobytes(), hosted.compressed
        )


async def _replace(
    transaction: Transaction, request: Enrolment, hosted: _Hosted | None, now: datetime
) -> None:
    """Give a party on the roster another identity; its earlier keys and tokens end. Raises
    UnknownParty, EnrolmentRefused for other curators or numbers, CuratorEnrolled for a key that
    a party has."""
    party = await roster.active_party(transaction, request.party)
    if party is None:
        raise UnknownParty
    if not await _has_the_same_curators(transaction, party, request, hosted):
        raise EnrolmentRefused("the party is on the roster with others", pointer="/curators")
    if await roster.has_identity(transaction, request.identity_key):
        raise CuratorEnrolled("the identity is enrolled", pointer="/identity_key")
    await roster.set_identity(transaction, party.key, request.identity_key, enrolled=now)
    await forget_replaced(transaction, tables.replaced_keys, request.party)
    await revoke_subject(transaction, tables.tokens, request.party, now)


# --- many ids, compactly -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Hosted:
    """A host's curators: sorted 64-bit hashes (8 MB for 10^6) and compressed ids."""

    hashes: NDArray[np.uint64]
    compressed: bytes


def _hosted(request: Enrolment) -> _Hosted | None:
    ids = request.curators
    hashes = np.unique(_hashes(ids))
    if hashes.size != len(ids) and len(set(ids)) != len(ids):
        raise EnrolmentRefused("a curator is listed twice", pointer="/curators")
    if request.kind is PartyKind.CURATOR:
        return None
    return _Hosted(hashes, zlib.compress("\n".join(ids).encode(), 1))


def _hashes(ids: Sequence[str]) -> NDArray[np.uint64]:
    # Only a filter: two that match are then compared by their full ids.
    hashes, digest = np.empty(len(ids), np.uint64), hashlib.blake2b
    for start in range(0, len(ids), _HASHED):
        names = ids[start : start + _HASHED]
        joined = b"".join(digest(name.encode(), digest_size=8).digest() for name in names)
        hashes[start : start + len(names)] = np.frombuffer(joined, "<u8")
    return hashes


def _meet(some: NDArray[np.uint64], others: NDArray[np.uint64]) -> bool:
    """Whether some are among the others, which are sorted."""
    if others.size == 0:
        return False
    place = np.minimum(np.searchsorted(others, some), others.size - 1)
    return bool((others[place] == some).any())


def _unpack(compressed: bytes) -> list[str]:
    return zlib.decompress(compressed).decode().split("\n")


# --- from a token to its party -------------------------------------------------------------------
#
# A million lone curators send one piece a round each, so most tokens are used once: look-ups that
# arrive during a query share the next one. The cache lasts a few seconds, for which a revocation by
# another process may go unnoticed.

_MOST = 500


@dataclass(frozen=True, slots=True)
class _Found:
    at: float
    party: Party
    expires: datetime | None


class SenderDirectory:
    """Parties by token, with a bounded cache in front of the store."""

    def __init__(self, database: Database, clock: Clock, *, ttl_s: float, capacity: int) -> None:
        self._clock = clock
        self._ttl_s = ttl_s
        self._capacity = capacity
        self._cache: OrderedDict[str, _Found] = OrderedDict()
        self._lookups = GroupCommit(reading(database, self._load), batch_items=_MOST)

    async def find(self, token: str, *, fresh: bool = False) -> Party | None:
        """The party of a curator token, or nothing; TokenExpired for one that was valid once."""
        if len(token) > MAX_CHARACTERS:
            return None
        token_hash = hash_token(token)
        entry = None if fresh else self._remembered(token_hash)
        if entry is None:
            entry = await self._lookups.submit(token_hash)
        if entry is None:
            return None
        if entry.expires is not None and entry.expires <= self._clock.now():
            raise TokenExpired
        return entry.party

    def forget(self) -> None:
        """Ask the store again for every token: after a change of the roster."""
        self._cache.clear()

    def _remembered(self, token_hash: str) -> _Found | None:
        entry = self._cache.get(token_hash)
        if entry is not None and self._clock.monotonic() - entry.at >= self._ttl_s:
            del self._cache[token_hash]
            return None
        return entry

    async def _load(
        self, transaction: Transaction, tokens: Sequence[str]
    ) -> Sequence[_Found | None]:
        rows, now = await store.senders(transaction, list(set(tokens))), self._clock.monotonic()
        entries = {token: _Found(now, *row) for token, row in rows.items()}
        self._cache |= entries
        while len(self._cache) > self._capacity:
            self._cache.popitem(last=False)
        return [entries.get(token) for token in tokens]


DirectoryPart = Annotated[SenderDirectory, Depends(part(SenderDirectory))]
