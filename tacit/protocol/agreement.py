"""What every party checks itself before it participates in a round, regardless of the caller.

Pure: signatures, hashes and sets only (spec: aggregation, section 6, steps 1, 5 to 8). The
coordinator, every aggregator and every curator call the same functions, so a coordinator that shows
parties different things is refused by each honest one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit import sets
from tacit.crypto.sealing import length_prefixed, segment_size
from tacit.crypto.signing import SignatureBroken, Signed, verify
from tacit.errors import Conflict, Invalid
from tacit.protocol.enrolment import EPOCH_KEY_LABEL
from tacit.protocol.identities import KeyNotAnchored, Pin
from tacit.protocol.round import (
    COMMITMENT_LABEL,
    DESCRIPTOR_LABEL,
    AcceptedSet,
    AggregatorEntry,
    Commitment,
    Manifest,
    ProvedPart,
    Reveal,
    RoundDescriptor,
    Transcript,
)
from tacit.protocol.sessions import SEAL_KEY_LABEL
from tacit.protocol.trust import Trust
from tacit.query.functions import dimension
from tacit.query.mechanisms import noisy_aggregators, scheme, shares_its_noise
from tacit.query.query import Query
from tacit.query.words import Sharing, Validity
from tacit.wire import canonical_json

CLOCK_SKEW: Final = timedelta(seconds=300)
"""How far the clocks of honest parties may lie apart."""
TOTAL_LIMIT: Final = 2**62
"""The headroom check keeps every total of a proved query below it."""
_COMMITMENT = b"tacit partial sum v1"
_MANIFEST = b"tacit manifest v2"
_MEMBERS = b"tacit members v2"


class DescriptorRefused(Invalid):
    name = "descriptor_refused"
    title = "The round descriptor breaks a rule that every party checks"


class ManifestRefused(Conflict):
    name = "manifest_refused"
    title = "The manifest is not the one that the signed sets give"


class TooFewParticipants(Conflict):
    name = "too_few_participants"
    title = "Fewer participants than the query's minimum"


class CommitmentRefused(Conflict):
    name = "commitment_refused"
    title = "The commitments are not those of one manifest's quorum"


class RevealRefused(Conflict):
    name = "reveal_refused"
    title = "A partial sum does not match its commitment"


class TranscriptNotBound(Conflict):
    name = "transcript_not_bound"
    title = "The transcript is not the one that the aggregators committed to"


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
    """Raise DescriptorRefused for what is opened later than any honest clock says by now.

    A party that was restored since would take it for something that it cannot have answered.
    """
    if opened > now + CLOCK_SKEW:
        raise DescriptorRefused("it is opened in the future")


def check_descriptor(
    signed: Signed[RoundDescriptor], coordinator_key: bytes, now: datetime
) -> RoundDescriptor:
    """The descriptor, if the coordinator signed it, it is consistent in itself, and opened."""
    descriptor = check_consistent(signed, coordinator_key)
    check_opened(descriptor.opened, now)
    return descriptor


def check_consistent(signed: Signed[RoundDescriptor], coordinator_key: bytes) -> RoundDescriptor:
    """The descriptor, if the coordinator signed it and it is consistent in itself, whenever it was
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
    if len({_key_of(entry) for entry in descriptor.aggregators}) != query.aggregators:
        raise DescriptorRefused("two aggregators share a key that pieces are sealed to")
    if descriptor.segment_size != segment_size_of(query):
        raise DescriptorRefused("the segment size is not the one of this dimension")
    if not descriptor.opened < descriptor.deadline:
        raise DescriptorRefused("the deadline is not after the opening")
    if query.window is not None and query.window != descriptor.window:
        raise DescriptorRefused("the round's window is not the query's")
    return descriptor


def _check_key(entry: AggregatorEntry, descriptor: RoundDescriptor) -> None:
    """Raise unless the aggregator signed the key of its entry, for this round if for one only."""
    if entry.seal_key is not None:
        seal = verify(SEAL_KEY_LABEL, entry.seal_key, entry.identity_key)
        party = seal.party
        if seal.round not in (None, descriptor.round):
            raise DescriptorRefused(f"the seal key of {entry.id} is for another round")
    else:
        assert entry.epoch_key is not None
        party = verify(EPOCH_KEY_LABEL, entry.epoch_key, entry.identity_key).party
    if party != entry.id:
        raise DescriptorRefused(f"the key of {entry.id} names another party")


def _key_of(entry: AggregatorEntry) -> bytes:
    return entry.epoch.public_key if entry.seal_key is None else entry.seal.public_key_hash


def check_anchors(descriptor: RoundDescriptor, anchors: Mapping[str, Pin], now: datetime) -> None:
    """Every aggregator's identity is the one whose fingerprint came with the join token, or follows
    from it.

    Otherwise a coordinator could supply its own keys for all aggregators and read everything.
    Raises what `Pin.check_key` raises.
    """
    for entry in descriptor.aggregators:
        pin = anchors.get(entry.id)
        if pin is None:
            raise KeyNotAnchored(f"aggregator {entry.id} is not anchored by an enrolment")
        pin.check_key(entry.identity_key, now)


def manifest_of(
    descriptor: RoundDescriptor,
    accepted: Sequence[Signed[AcceptedSet]],
    salt: bytes | None = None,
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
    if not _enough_noise(query, contributions):
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
        if not _are_contributors(query, item.contributions):
            raise ManifestRefused("an accepted set lists noise that no aggregator can contribute")
        if is_proved(query) != (item.parts is not None):
            raise ManifestRefused("parts are listed in proved rounds, and in these only")
        by_index[index] = item
    if len(by_index) < _quorum_size(query):
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
    """The hash of a manifest; of one of an earlier version, its digest."""
    if manifest.salt is None:
        return manifest.digest()
    return manifest_hash_of(
        manifest.round,
        manifest.descriptor_hash,
        manifest.quorum,
        manifest.count,
        manifest.contributions,
        members_hash(manifest.salt, manifest.members, manifest.parts),
    )


def _quorum_size(query: Query) -> int:
    """How many aggregators open a sum, at least."""
    if query.sharing is Sharing.SHAMIR:
        assert query.threshold is not None
        return query.threshold
    return query.aggregators


def _enough_noise(query: Query, contributions: Sequence[int]) -> bool:
    return not shares_its_noise(query) or len(contributions) >= noisy_aggregators(query)


def _are_contributors(query: Query, indices: Sequence[int]) -> bool:
    """Whether these are aggregators, each once, of a query whose aggregators share their noise."""
    if not shares_its_noise(query):
        return not indices
    return len(set(indices)) == len(indices) and set(indices) <= set(range(query.aggregators))


def commitment_hash(
    descriptor_hash: bytes, manifest_hash: bytes, aggregator: str, nonce: bytes, partial: bytes
) -> bytes:
    """SHA-256 over the length-prefixed fields of a commitment."""
    fields = length_prefixed(
        _COMMITMENT, descriptor_hash, manifest_hash, aggregator.encode(), nonce, partial
    )
    return hashlib.sha256(fields).digest()


def check_commitments(
    descriptor: RoundDescriptor,
    manifest_hash: bytes,
    quorum: Sequence[int],
    commitments: Sequence[Signed[Commitment]],
) -> dict[str, Commitment]:
    """The commitments by aggregator, if they are signed, complete, and of this one manifest."""
    digest = descriptor.digest()
    parties = set(quorum)
    if not parties <= set(range(len(descriptor.aggregators))) or len(parties) != len(quorum):
        raise CommitmentRefused("the quorum lists a stranger, or a party twice")
    if len(parties) < _quorum_size(descriptor.query):
        raise CommitmentRefused("the quorum is too small")
    found: dict[str, Commitment] = {}
    for signed in commitments:
        item = signed.statement
        try:
            index = descriptor.index_of(item.aggregator)
            verify(COMMITMENT_LABEL, signed, descriptor.aggregators[index].identity_key)
        except (KeyError, SignatureBroken):
            raise CommitmentRefused("a commitment is not signed by a party of the round") from None
        same = item.round == descriptor.round and item.descriptor_hash == digest
        if not same or item.manifest_hash != manifest_hash:
            raise CommitmentRefused("a commitment names another round or manifest")
        found[item.aggregator] = item
    offsets = {item.offset for item in found.values()}
    if len(offsets) > 1 or any(not _is_offset(descriptor.query, item) for item in offsets):
        raise CommitmentRefused("the commitments name no offset, another one, or too many")
    expected = {descriptor.aggregators[index].id for index in quorum}
    if set(found) != expected or len(commitments) != len(expected):
        raise CommitmentRefused("the commitments are not those of the manifest's whole quorum")
    return found


def _is_offset(query: Query, offset: tuple[str, ...] | None) -> bool:
    """Whether this is the form of an offset of the query's total."""
    if not is_proved(query):
        return offset is None
    return offset is not None and len(offset) == dimension(query)


def open_sum(
    descriptor: RoundDescriptor,
    manifest_hash: bytes,
    quorum: Sequence[int],
    commitments: Sequence[Signed[Commitment]],
    reveals: Sequence[Reveal],
) -> NDArray[np.int64]:
    """The opened total, (d,) signed ring units, after checking every reveal."""
    bound = check_commitments(descriptor, manifest_hash, quorum, commitments)
    query, digest = descriptor.query, descriptor.digest()
    word_bytes = _word_bytes(query)
    partials: dict[int, bytes] = {}
    for reveal in reveals:
        commitment = bound.get(reveal.aggregator)
        if commitment is None or (len(reveal.partial) != word_bytes * dimension(query)):
            raise RevealRefused("a partial sum of a stranger, or of the wrong length")
        expected = commitment_hash(
            digest, manifest_hash, reveal.aggregator, reveal.nonce, reveal.partial
        )
        if expected != commitment.hash:
            raise RevealRefused(f"the partial sum of {reveal.aggregator} is not the committed one")
        partials[descriptor.index_of(reveal.aggregator)] = reveal.partial
    if set(partials) != set(quorum) or len(reveals) != len(quorum):
        raise RevealRefused("a partial sum is missing, or revealed twice")
    try:
        if is_proved(query):
            offset = next(iter(bound.values())).offset or ()
            return proved_total(query, list(partials.values()), [int(item) for item in offset])
        return scheme(query).combine(
            {
                index: np.frombuffer(partial, "<u8").astype(np.uint64)
                for index, partial in partials.items()
            }
        )
    except ValueError as error:
        raise RevealRefused(str(error)) from None


def _word_bytes(query: Query) -> int:
    """Bytes of a word of a partial sum."""
    if not is_proved(query):
        return 8
    from tacit.query.proofs import proof_plan

    return proof_plan(query).word_bytes


def proved_total(
    query: Query, partials: Sequence[bytes], offset: Sequence[int]
) -> NDArray[np.int64]:
    """The total (d,) of a proved round in ring units: partial sums added mod p, centred, moved.

    ValueError: a word is no field element, or the total is none that honest aggregators can give.
    Spec: validity, section 6.
    """
    from tacit.query.proofs import proof_plan

    prio3 = proof_plan(query).of(1).prio3
    field = prio3.circuit.field
    shares = []
    for partial in partials:
        elements, valid = field.decode(np.frombuffer(partial, np.uint8)[np.newaxis])
        if not valid.all():
            raise ValueError("a partial sum holds a word that is no element of the field")
        shares.append(elements[:, :, 0])
    total = [
        value + moved for value, moved in zip(prio3.unshard_centred(shares), offset, strict=True)
    ]
    if any(abs(value) >= TOTAL_LIMIT for value in total):
        raise ValueError("the total is outside of all that the query admits")
    return np.array(total, np.int64)


@dataclass(frozen=True)
class CheckedSum:
    """What a transcript proves.

    `total`: (d,) signed ring units. `anchored`: whether every identity was known from elsewhere;
    else the coordinator alone vouches for its aggregators. `unknown_operators`: aggregators of
    which the verifier does not know who runs them. `participants_bound`: whether the aggregators
    committed to quorum, participants and contributions as the transcript gives them.
    """

    total: NDArray[np.int64]
    anchored: bool
    unknown_operators: tuple[str, ...]
    participants_bound: bool


def check_transcript(
    transcript: Transcript, coordinator_key: bytes, trust: Trust | None = None
) -> CheckedSum:
    """Recombine a published transcript from scratch; what `tacit round verify` does.

    Who took part is known to the parties only; what is published of it must keep the query's rules,
    and be what the aggregators committed to. Without `trust` the aggregators are those that the
    coordinator names: it could have invented all of them. Raises TranscriptNotAnchored (`trust`
    knows another), TranscriptNotBound, and what each single check raises.
    """
    descriptor = check_consistent(transcript.descriptor, coordinator_key)
    everyone = tuple(entry.id for entry in descriptor.aggregators)
    unknown = everyone if trust is None else trust.check(descriptor, coordinator_key)
    query, contributions = descriptor.query, transcript.contributions
    if not query.min_participants <= transcript.participants <= query.n_max:
        raise ManifestRefused("the transcript's participants are not within the query's limits")
    if not _are_contributors(query, contributions) or not _enough_noise(query, contributions):
        raise ManifestRefused("the transcript's noise contributions are not those of the query")
    manifest = transcript.manifest_hash or manifest_hash_of(
        descriptor.round,
        descriptor.digest(),
        transcript.quorum,
        transcript.participants,
        contributions,
        transcript.members_hash or b"",
    )
    committed = {item.statement.manifest_hash for item in transcript.commitments}
    if committed and manifest not in committed:
        raise TranscriptNotBound("quorum, participants or contributions are others")
    if transcript.participants > descriptor.roster_size:
        raise ManifestRefused("the transcript has more participants than the round's roster")
    total = open_sum(
        descriptor, manifest, transcript.quorum, transcript.commitments, transcript.reveals
    )
    return CheckedSum(total, trust is not None, unknown, transcript.members_hash is not None)
