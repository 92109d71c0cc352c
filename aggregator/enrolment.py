"""Who may speak to this aggregator: one coordinator, and the parties on its own roster.

The coordinator is pinned by its identity key. A party enrols once with a one-time secret that this
aggregator's operator gave out of band, and proves that it holds the identity it names: the
coordinator alone can enrol nobody (spec: aggregation, section 8). Roster numbers are assigned by
the coordinator, checked here to be free, and never reused; one identity has one active number, so
a curator cannot come in by two doors. Secrets and tokens are stored as hashes only.

An answer can be lost after the commit. So the very same enrolment (secret, identity, keys, numbers,
curators) is answered again while its grant lasts: with a fresh token, the earlier one ends. That
opens no door: it takes the secret and the identity's signature, and changes nothing on the roster.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.ext.asyncio import AsyncConnection

from aggregator.context import Aggregator
from aggregator.errors import (
    AlreadyPaired,
    CuratorEnrolled,
    EnrolmentRefused,
    EpochKeyConflict,
    JoinTokenExpired,
    JoinTokenUnknown,
    JoinTokenUsed,
    NotPaired,
    UnknownParty,
)
from aggregator.store import admission, roster
from aggregator.store.admission import CoordinatorRow, GrantRow
from aggregator.store.roster import Party
from aggregator.store.tables import tokens
from common.errors import places_of
from common.models.base import WireModel, encode_binary
from common.models.enrolment import (
    ENROLMENT_LABEL,
    EPOCH_KEY_LABEL,
    RUN_ALIGNMENT,
    Enrolment,
    EnrolmentAnswer,
    EpochKey,
    Grant,
    GrantAnswer,
    GrantRequest,
    PartyKind,
    PublicKey,
    grant_hash,
)
from common.models.query import Identifier
from common.service.database import exclusive, reading
from common.service.tokens import Scope, insert_token, mint, revoke_subject
from common.signing import SignatureBroken, Signed, fingerprint, verify

_ROSTER = "aggregator roster"
_END_OF_NUMBERS = 2**32
_BYTES_PER_CURATOR = 136
"""In JSON: an identifier of at most 128 characters, quotes, comma, a little space."""
_HASHED = 1 << 14


class CoordinatorRequest(WireModel):
    """Pair with one coordinator, known by its deployment and its identity key."""

    deployment: Identifier
    identity_key: PublicKey


class CoordinatorAnswer(WireModel):
    """`token` is the coordinator's API token here; it is shown once."""

    deployment: str
    fingerprint: str
    token: str


async def pair(
    aggregator: Aggregator, request: CoordinatorRequest, *, replace: bool, overlap_s: int = 0
) -> CoordinatorAnswer:
    """Pin the coordinator and mint its token; the same request again renews the token.

    An earlier token of the same coordinator is good for `overlap_s` more seconds, in which it
    learns the new one; that of another coordinator ends at once. Raises AlreadyPaired.
    """
    now = aggregator.clock.now()
    wanted = CoordinatorRow(request.deployment, request.identity_key)
    async with aggregator.engine.begin() as connection:
        await exclusive(connection, _ROSTER)
        known = await admission.coordinator(connection)
        if known is not None and known != wanted and not replace:
            raise AlreadyPaired(extra={"fingerprint": fingerprint(known.identity_key).hex()})
        await admission.put_coordinator(connection, wanted, now)
        overlap = timedelta(seconds=overlap_s if known == wanted else 0)
        await admission.end_scope(connection, Scope.COORDINATOR, now, overlap)
        token, record = mint(
            (Scope.COORDINATOR,), aggregator.clock, label=f"coordinator of {wanted.deployment}"
        )
        await insert_token(connection, tokens, record)
    return CoordinatorAnswer(
        deployment=wanted.deployment,
        fingerprint=fingerprint(wanted.identity_key).hex(),
        token=token,
    )


async def part(aggregator: Aggregator) -> None:
    """End the pairing: no coordinator may speak here. What was accepted is never summed, unless
    the same coordinator is paired again before the pieces are destroyed. Raises NotPaired."""
    async with aggregator.engine.begin() as connection:
        await exclusive(connection, _ROSTER)
        if not await admission.remove_coordinator(connection):
            raise NotPaired
        await admission.end_scope(connection, Scope.COORDINATOR, aggregator.clock.now())


async def issue_grant(aggregator: Aggregator, request: GrantRequest) -> GrantAnswer:
    """A one-time secret for one party; only its hash is kept."""
    if request.kind is PartyKind.CURATOR and request.max_curators != 1:
        raise EnrolmentRefused("a lone curator is one curator", pointer="/max_curators")
    secret = secrets.token_urlsafe(32)
    expires = aggregator.clock.now() + timedelta(seconds=request.valid_s)
    row = GrantRow(request.party, request.kind, request.max_curators, expires, None)
    async with aggregator.engine.begin() as connection:
        await admission.add_grant(connection, grant_hash(secret), row)
    grant = Grant(
        party=aggregator.id,
        url=aggregator.url,
        fingerprint=aggregator.keyring.identity.fingerprint,
        secret=secret,
    )
    return GrantAnswer(grant=grant, expires=expires)


async def largest_body(aggregator: Aggregator, named: str | None) -> int:
    """How many bytes of an enrolment are read: few, unless a grant that is named (by the hash of
    its secret) allows many curators. A used one may be repeated. Raises for one that is not good.
    """
    settings = aggregator.settings
    if named is None:
        return settings.enrolment_open_body_bytes
    async with reading(aggregator.engine) as connection:
        granted = await admission.grant(connection, named)
    if granted is None:
        raise JoinTokenUnknown
    if granted.expires <= aggregator.clock.now():
        raise JoinTokenExpired if granted.used is None else JoinTokenUsed
    allowed = settings.enrolment_open_body_bytes + _BYTES_PER_CURATOR * granted.max_curators
    return min(settings.enrolment_max_body_bytes, allowed)


async def enrol(aggregator: Aggregator, signed: Signed[Enrolment]) -> tuple[EnrolmentAnswer, bool]:
    """Put a party on the roster: check the grant, the proof of possession and the numbers.

    The answer, and whether it is new: the same enrolment again is answered with a fresh token.
    """
    request = signed.statement
    await asyncio.to_thread(_check_proof, signed)
    if request.service != aggregator.id:
        raise EnrolmentRefused("the enrolment is meant for another service", pointer="/service")
    hosted = await asyncio.to_thread(_hosted, request)
    now = aggregator.clock.now()
    async with aggregator.engine.begin() as connection:
        await exclusive(connection, _ROSTER)
        granted = await admission.grant(connection, grant_hash(request.secret))
        if granted is None:
            raise JoinTokenUnknown
        first = request.first
        if granted.used is not None:
            await _check_same(connection, granted, request, hosted, now)
            await revoke_subject(connection, tokens, request.party, now)
        else:
            first = _check_grant(granted, request, now)
            await _check_free(connection, request, first, hosted)
            await admission.use_grant(connection, grant_hash(request.secret), now)
            await _add(connection, request, first, hosted, now)
        token, record = mint(
            (Scope.CURATOR,), aggregator.clock, subject=request.party, label="enrolled party"
        )
        await insert_token(connection, tokens, record)
    assert first is not None
    answer = EnrolmentAnswer(
        party=request.party, first=first, curators=len(request.curators), token=token
    )
    return answer, granted.used is None


async def announce_key(aggregator: Aggregator, party: str, signed: Signed[EpochKey]) -> bool:
    """Keep a party's key of a new epoch; whether it is new. Raises EpochKeyConflict."""
    async with aggregator.engine.begin() as connection:
        await exclusive(connection, _ROSTER)
        known = await roster.active_party(connection, party)
        if known is None:
            raise UnknownParty
        try:
            key = verify(EPOCH_KEY_LABEL, signed, known.identity_key)
        except SignatureBroken as error:
            raise EnrolmentRefused(str(error), pointer="/signature") from None
        if key.party != party:
            raise EnrolmentRefused("the epoch key names another party", pointer="/statement/party")
        held = known.keys.get(key.epoch)
        if held is not None and held != key.public_key:
            raise EpochKeyConflict
        if held is None:
            await roster.add_party_key(connection, known.key, key.epoch, key.public_key)
        return held is None


async def revoke(aggregator: Aggregator, party: str) -> None:
    """Take a party off the roster and end its tokens. Its numbers are never given again."""
    now = aggregator.clock.now()
    async with aggregator.engine.begin() as connection:
        await exclusive(connection, _ROSTER)
        if not await roster.leave(connection, party, now):
            raise UnknownParty
        await revoke_subject(connection, tokens, party, now)


# --- the checks of an enrolment ------------------------------------------------------------------


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


async def _check_same(
    connection: AsyncConnection,
    granted: GrantRow,
    request: Enrolment,
    hosted: _Hosted | None,
    now: datetime,
) -> None:
    """Raise JoinTokenUsed unless this is the enrolment that the grant was used for, in all parts,
    and the party has been on the roster ever since."""
    known = await roster.active_party(connection, request.party)
    if known is None or granted.expires <= now:
        raise JoinTokenUsed
    asked = (request.kind, request.identity_key, request.first, len(request.curators))
    stored = (known.kind, known.identity_key, known.first, known.curators)
    epoch_key = request.epoch_key
    same = (
        asked == stored
        and known.keys.get(epoch_key.epoch) == epoch_key.public_key
        and await roster.enrolled_at(connection, known.key) == granted.used
    )
    if same and hosted is not None:
        ids = await roster.hosted_ids(connection, known.key)
        same = hosted.compressed == ids or _unpack(ids) == list(request.curators)
    elif same:
        same = request.curators == (request.party,)
    if not same:
        raise JoinTokenUsed


def _check_grant(granted: GrantRow, request: Enrolment, now: datetime) -> int:
    """The first number, if the unused secret allows this enrolment."""
    if granted.expires <= now:
        raise JoinTokenExpired
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
    first = request.first
    if first is None or first + len(ids) > _END_OF_NUMBERS:
        raise EnrolmentRefused("the first roster number is missing", pointer="/first")
    if request.kind is PartyKind.HOST and first % RUN_ALIGNMENT:
        raise EnrolmentRefused(
            f"a host's run starts at a multiple of {RUN_ALIGNMENT}", pointer="/first"
        )
    return first


async def _check_free(
    connection: AsyncConnection, request: Enrolment, first: int, hosted: _Hosted | None
) -> None:
    if await roster.is_active(connection, request.party, request.identity_key):
        raise CuratorEnrolled("the party or its identity is enrolled")
    if await roster.numbers_taken(connection, first, len(request.curators)):
        raise CuratorEnrolled("roster numbers were given before", pointer="/first")
    ids = request.curators
    hashes = hosted.hashes if hosted is not None else _hashes(ids)
    taken: set[str] = set()
    if hosted is not None:
        async for names in roster.lone_ids(connection):
            if _meet(_hashes(names), hashes):
                taken |= set(ids) & set(names)
    async for party, theirs in roster.hosted_hashes(connection):
        if _meet(hashes, theirs):
            taken |= set(ids) & set(_unpack(await roster.hosted_ids(connection, party)))
    if taken:
        raise CuratorEnrolled(pointer="/curators", extra=places_of(ids, taken))


async def _add(
    connection: AsyncConnection,
    request: Enrolment,
    first: int,
    hosted: _Hosted | None,
    now: datetime,
) -> None:
    """Store the party."""
    party = Party(
        0, request.party, request.kind, request.identity_key, first, len(request.curators), None, {}
    )
    epoch_key = request.epoch_key
    key = await roster.add_party(connection, party, epoch_key.epoch, epoch_key.public_key, now)
    if hosted is not None:
        await roster.add_hosted(
            connection, key, hosted.hashes.astype("<u8").tobytes(), hosted.compressed
        )


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
    # Only a filter: whoever meets is compared by the ids themselves.
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


def public_party(item: dict[str, object]) -> dict[str, object]:
    """A row of the roster for its operator."""
    identity_key = item["identity_key"]
    assert isinstance(identity_key, bytes)
    return {**item, "identity_key": encode_binary(identity_key)}
