"""The one manifest that signed sets give; every aggregator recomputes it.

Pure. Spec: aggregation, section 6, steps 5 and 6; keys, section 6.1 (its hash).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

from tacit import sets
from tacit.crypto.sealing import length_prefixed
from tacit.crypto.signing import Signed, verify
from tacit.errors import Conflict
from tacit.protocol.round.accepted import AcceptedSet, ProvedPart
from tacit.protocol.round.agreement import is_proved
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.round.transcript import Manifest
from tacit.query.mechanisms import noisy_aggregators, shares_its_noise
from tacit.query.query import Query
from tacit.query.words import Sharing
from tacit.wire import canonical_json

_MANIFEST = b"tacit manifest v1"
_MEMBERS = b"tacit members v1"


class ManifestRefused(Conflict):
    name = "manifest_refused"
    title = "The manifest is not the one that the signed sets give"


class TooFewParticipants(Conflict):
    name = "too_few_participants"
    title = "Fewer participants than the query's minimum"


def manifest_of(
    descriptor: RoundDescriptor,
    accepted: Sequence[Signed[AcceptedSet]],
    salt: bytes,
) -> Manifest:
    """The one manifest that these signed sets and the salt give; every aggregator recomputes it.

    Raises TooFewParticipants, or ManifestRefused for sets of another round, bad signatures, or a
    quorum or noise contributions below what the query needs.
    """
    query = descriptor.query
    if is_proved(query):
        raise ManifestRefused("a proved round is summed after its verdicts only")
    by_index = accepted_by_index(descriptor, accepted)
    quorum = tuple(sorted(by_index))
    members = sets.intersection([by_index[index].members or b"" for index in quorum])
    common = set.intersection(*(set(by_index[index].contributions) for index in quorum))
    contributions = tuple(sorted(common))
    count = sets.count(members)
    check_count(query, count)
    if not enough_noise(query, contributions):
        raise ManifestRefused("fewer aggregators' noise than c_noise")
    return Manifest(
        round=descriptor.round,
        descriptor_hash=descriptor.digest(),
        quorum=quorum,
        members=members,
        count=count,
        contributions=contributions,
        salt=salt,
    )


def accepted_by_index(
    descriptor: RoundDescriptor, accepted: Sequence[Signed[AcceptedSet]]
) -> dict[int, AcceptedSet]:
    """Signed sets of a quorum by their aggregators' indices.

    Raises ManifestRefused for sets of another round, bad signatures, or too few of them.
    """
    query, digest = descriptor.query, descriptor.digest()
    by_index: dict[int, AcceptedSet] = {}
    for signed in accepted:
        item = signed.statement
        try:
            index = descriptor.index_of(item.aggregator)
            verify(item.label, signed, descriptor.aggregators[index].identity_key)
        except (KeyError, ValueError):
            raise ManifestRefused("an accepted set is not signed") from None
        if item.members is not None and not sets.is_bitmap(item.members, descriptor.roster_size):
            raise ManifestRefused("an accepted set is malformed")
        if item.round != descriptor.round or item.descriptor_hash != digest:
            raise ManifestRefused("an accepted set belongs to another round")
        if index in by_index:
            raise ManifestRefused("an aggregator's accepted set is listed twice")
        if not are_contributors(query, item.contributions):
            raise ManifestRefused("an accepted set lists noise that no aggregator can contribute")
        if is_proved(query) != (item.parts is not None):
            raise ManifestRefused("parts are listed in proved rounds, and in these only")
        by_index[index] = item
    if len(by_index) < quorum_size(query):
        raise ManifestRefused("too few aggregators for a quorum")
    return by_index


def check_count(query: Query, count: int) -> None:
    """Raise TooFewParticipants, or ManifestRefused above n_max, for this many curators."""
    if count < query.min_participants:
        raise TooFewParticipants(
            f"{count} curators where the query demands {query.min_participants}",
            extra={"participants": count, "minimum": query.min_participants},
        )
    if count > query.n_max:
        raise ManifestRefused("more curators than the query's n_max: the sum could wrap")


def members_hash(salt: bytes, members: bytes, parts: tuple[ProvedPart, ...] | None = None) -> bytes:
    """What a transcript shows of who took part: the bitmap, and the parts of a proved round, salted
    and hashed."""
    fields = [_MEMBERS, salt, members]
    if parts is not None:
        fields.append(parts_text(parts))
    return hashlib.sha256(length_prefixed(*fields)).digest()


@lru_cache(maxsize=8)  # one round asks again and again
def parts_text(parts: tuple[ProvedPart, ...]) -> bytes:
    """A list of parts as hashes cover it."""
    return canonical_json([part.model_dump(mode="json") for part in parts])


def manifest_hash_of(
    round_id: str,
    descriptor_hash: bytes,
    quorum: Sequence[int],
    count: int,
    contributions: Sequence[int],
    members: bytes,
) -> bytes:
    """What every commitment of a round binds; `members` is their hash.

    Spec: keys, section 6.1. A verifier computes it from what a transcript says, so that nothing of
    it can be changed afterwards.
    """
    fields = (
        round_id.encode(),
        descriptor_hash,
        bytes(quorum),
        count.to_bytes(4, "big"),
        bytes(contributions),
        members,
    )
    return hashlib.sha256(length_prefixed(_MANIFEST, *fields)).digest()


def manifest_hash(manifest: Manifest) -> bytes:
    """The hash of a manifest."""
    return manifest_hash_of(
        manifest.round,
        manifest.descriptor_hash,
        manifest.quorum,
        manifest.count,
        manifest.contributions,
        members_hash(manifest.salt, manifest.members, manifest.parts),
    )


def quorum_size(query: Query) -> int:
    """How many aggregators open a sum, at least."""
    if query.sharing is Sharing.SHAMIR:
        assert query.threshold is not None
        return query.threshold
    return query.aggregators


def enough_noise(query: Query, contributions: Sequence[int]) -> bool:
    return not shares_its_noise(query) or len(contributions) >= noisy_aggregators(query)


def are_contributors(query: Query, indices: Sequence[int]) -> bool:
    """Whether these are aggregators, each once, of a query whose aggregators share their noise."""
    if not shares_its_noise(query):
        return not indices
    return len(set(indices)) == len(indices) and set(indices) <= set(range(query.aggregators))
