"""What every party checks before it participates in a round: its descriptor, and the one manifest
that signed sets give.

Pure: signatures, hashes and sets only (spec: aggregation, section 6, step 1). The coordinator,
every aggregator and every curator call the same functions, so each honest party refuses a
coordinator that shows parties different things.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from tacit import sets
from tacit.crypto.sealing import length_prefixed, segment_size
from tacit.crypto.signing import SignatureBroken, Signed, verify
from tacit.errors import Conflict, Invalid
from tacit.protocol.identities import KeyNotAnchored, Pin
from tacit.protocol.round.descriptor import DESCRIPTOR_LABEL, AggregatorEntry, RoundDescriptor
from tacit.protocol.round.messages import AcceptedSet, Manifest, ProvedPart
from tacit.protocol.sealing_sessions import SEAL_KEY_LABEL
from tacit.query.functions import dimension
from tacit.query.mechanisms import noisy_aggregators, shares_its_noise
from tacit.query.query import Query
from tacit.query.terms import Sharing, Validity
from tacit.wire import canonical_json

CLOCK_SKEW: Final = timedelta(seconds=300)
"""How far the clocks of honest parties may lie apart."""


class DescriptorRefused(Invalid):
    name = "descriptor_refused"
    title = "The round descriptor breaks a rule that every party checks"


# What proved queries need is imported where it is used: a client has no extra `proofs`.
def is_proved(query: Query) -> bool:
    """Whether the contributions of a query carry proofs."""
    return query.validity is Validity.PROVED


def segment_size_of(query: Query) -> int:
    """Roster numbers per segment in the rounds of a query."""
    if not is_proved(query):
        return segment_size(dimension(query))
    from tacit.query.proofs import part_length

    return part_length(query)


def check_opened(opened: datetime, now: datetime) -> None:
    """Raise DescriptorRefused if the round was opened later than any honest clock shows now.

    A party that was restored from a backup would take such a round for one that it cannot have
    answered before.
    """
    if opened > now + CLOCK_SKEW:
        raise DescriptorRefused("it is opened in the future")


def check_descriptor(
    signed: Signed[RoundDescriptor], coordinator_key: bytes, now: datetime
) -> RoundDescriptor:
    """The descriptor, if the coordinator signed it, it is consistent, and it is open by now."""
    descriptor = check_consistent(signed, coordinator_key)
    check_opened(descriptor.opened, now)
    return descriptor


def check_consistent(signed: Signed[RoundDescriptor], coordinator_key: bytes) -> RoundDescriptor:
    """The descriptor, if the coordinator signed it and it is consistent, at whatever time it was
    opened. Raises DescriptorRefused."""
    try:
        descriptor = verify(DESCRIPTOR_LABEL, signed, coordinator_key)
        for entry in descriptor.aggregators:
            _check_key(entry, descriptor)
    except SignatureBroken as error:
        raise DescriptorRefused(str(error)) from None
    query = descriptor.query
    if len(descriptor.aggregators) != query.aggregators:
        raise DescriptorRefused("the query asks for another number of aggregators")
    if len({entry.id for entry in descriptor.aggregators}) != query.aggregators:
        raise DescriptorRefused("an aggregator is listed twice")
    if len({entry.identity_key for entry in descriptor.aggregators}) != query.aggregators:
        raise DescriptorRefused("two aggregators share an identity")
    if len({entry.seal.public_key_hash for entry in descriptor.aggregators}) != query.aggregators:
        raise DescriptorRefused("two aggregators share a key that pieces are sealed to")
    if descriptor.segment_size != segment_size_of(query):
        raise DescriptorRefused("the segment size is not the one of this dimension")
    if not descriptor.opened < descriptor.deadline:
        raise DescriptorRefused("the deadline is not after the opening")
    if query.window is not None and query.window != descriptor.window:
        raise DescriptorRefused("the round's window is not the query's")
    return descriptor


def _check_key(entry: AggregatorEntry, descriptor: RoundDescriptor) -> None:
    """Raise unless the aggregator signed the key of its entry, and for this round if the key
    serves one round only."""
    seal = verify(SEAL_KEY_LABEL, entry.seal_key, entry.identity_key)
    if seal.round not in (None, descriptor.round):
        raise DescriptorRefused(f"the seal key of {entry.id} is for another round")
    if seal.party != entry.id:
        raise DescriptorRefused(f"the key of {entry.id} names another party")


def check_anchors(descriptor: RoundDescriptor, anchors: Mapping[str, Pin], now: datetime) -> None:
    """Check that every aggregator's identity is the one whose fingerprint came with the join token,
    or follows from it.

    Otherwise a coordinator could supply its own keys for all aggregators and read everything.
    Raises what `Pin.check_key` raises.
    """
    for entry in descriptor.aggregators:
        pin = anchors.get(entry.id)
        if pin is None:
            raise KeyNotAnchored(f"aggregator {entry.id} is not anchored by an enrolment")
        pin.check_key(entry.identity_key, now)


# The manifest that signed sets give; every aggregator recomputes it (spec: aggregation, section 6,
# steps 5 and 6; keys, section 6.1, its hash).

_MANIFEST = b"tacit manifest v1"
_MEMBERS = b"tacit members v1"


class ManifestRefused(Conflict):
    name = "manifest_refused"
    title = "The manifest does not follow from the signed sets"


class TooFewParticipants(Conflict):
    name = "too_few_participants"
    title = "Fewer participants than the query's minimum"


def manifest_of(
    descriptor: RoundDescriptor,
    accepted: Sequence[Signed[AcceptedSet]],
    salt: bytes,
) -> Manifest:
    """The one manifest that follows from these signed sets and the salt; every aggregator
    recomputes it.

    Raises TooFewParticipants, or ManifestRefused for sets of another round, invalid signatures,
    or a quorum or noise contributions below what the query needs.
    """
    query = descriptor.query
    if is_proved(query):
        raise ManifestRefused("a proved round is summed after its verdicts only")
    by_index = accepted_by_index(descriptor, accepted)
    quorum = tuple(sorted(by_index))
    members = sets.intersection([by_index[index].members or b"" for index in quorum])
    common = set.intersection(*(set(by_index[index].contributions) for index in quorum))
    return _manifest(descriptor, quorum, members, tuple(sorted(common)), salt)


def whole_manifest(
    descriptor: RoundDescriptor, members: bytes, contributions: tuple[int, ...], salt: bytes
) -> Manifest:
    """The manifest if every aggregator has accepted exactly these. Raises as `manifest_of`."""
    quorum = tuple(range(len(descriptor.aggregators)))
    return _manifest(descriptor, quorum, members, contributions, salt)


def _manifest(
    descriptor: RoundDescriptor,
    quorum: tuple[int, ...],
    members: bytes,
    contributions: tuple[int, ...],
    salt: bytes,
) -> Manifest:
    query, count = descriptor.query, sets.count(members)
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
    """What a transcript shows of the participants: the bitmap, and the parts of a proved round,
    salted and hashed."""
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
    """The hash that every commitment of a round binds; `members` is the participants' hash. Spec:
    keys, section 6.1.

    A verifier computes it from a transcript, so that no field of it can be changed afterwards.
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
