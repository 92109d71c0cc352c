"""Commitments, reveals and the sum that they open; a published transcript checked from scratch.

Pure (spec: aggregation, section 6, steps 7 and 8).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tacit.crypto.sealing import length_prefixed
from tacit.crypto.signing import SignatureBroken, Signed, verify
from tacit.errors import Conflict
from tacit.protocol.round.agreement import (
    ManifestRefused,
    are_contributors,
    check_consistent,
    enough_noise,
    is_proved,
    manifest_hash_of,
    quorum_size,
)
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.round.messages import COMMITMENT_LABEL, Commitment, Reveal, Transcript
from tacit.protocol.trust import Trust
from tacit.query.disclosure import check_shares
from tacit.query.functions import dimension
from tacit.query.mechanisms import scheme
from tacit.query.query import Query

TOTAL_LIMIT: Final = 2**62
"""The headroom check keeps every total of a proved query below it."""

_COMMITMENT = b"tacit partial sum v1"


class CommitmentRefused(Conflict):
    name = "commitment_refused"
    title = "The commitments are not those of one manifest's quorum"


class RevealRefused(Conflict):
    name = "reveal_refused"
    title = "A partial sum does not match its commitment"


class TranscriptNotBound(Conflict):
    name = "transcript_not_bound"
    title = "The transcript is not the one that the aggregators committed to"


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
    """The commitments by aggregator, if they are signed, complete, and all of this manifest."""
    digest = descriptor.digest()
    parties = set(quorum)
    if not parties <= set(range(len(descriptor.aggregators))) or len(parties) != len(quorum):
        raise CommitmentRefused("the quorum lists a stranger, or a party twice")
    if len(parties) < quorum_size(descriptor.query):
        raise CommitmentRefused("the quorum is too small")
    commitment_of: dict[str, Commitment] = {}
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
        commitment_of[item.aggregator] = item
    offsets = {item.offset for item in commitment_of.values()}
    if len(offsets) > 1 or any(not _is_offset(descriptor.query, item) for item in offsets):
        raise CommitmentRefused("the commitments name no offset, another one, or too many")
    expected = {descriptor.aggregators[index].id for index in quorum}
    if set(commitment_of) != expected or len(commitments) != len(expected):
        raise CommitmentRefused("the commitments are not those of the manifest's whole quorum")
    return commitment_of


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
    """The opened total, (d,) signed ring units, after checking every reveal. Raises RuleNotMet
    if the query's rule on shares forbids the release."""
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
            total = proved_total(query, list(partials.values()), [int(item) for item in offset])
            check_shares(query, total)
            return total
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
    """The total (d,) of a proved round in ring units: partial sums added mod p, centred and
    shifted.

    ValueError: a word is no field element, or honest aggregators cannot give this total. Spec:
    validity, section 6.
    """
    from tacit.query.proofs import proof_plan

    prio3 = proof_plan(query).of(1).prio3
    field = prio3.circuit.field
    shares = []
    for partial in partials:
        elements, valid = field.decode(np.frombuffer(partial, np.uint8)[np.newaxis])
        if not valid.all():
            raise ValueError("a partial sum has a word that is not an element of the field")
        shares.append(elements[:, :, 0])
    total = [
        value + moved for value, moved in zip(prio3.unshard_centred(shares), offset, strict=True)
    ]
    if any(abs(value) >= TOTAL_LIMIT for value in total):
        raise ValueError("the total is outside of all that the query admits")
    return np.array(total, np.int64)


@dataclass(frozen=True)
class CheckedSum:
    """What a transcript proves. `total`: (d,) signed ring units. `anchored`: whether every
    identity was known independently; otherwise only the coordinator vouches for its aggregators.
    `unknown_operators`: aggregators whose operator the verifier does not know."""

    total: NDArray[np.int64]
    anchored: bool
    unknown_operators: tuple[str, ...]


def check_transcript(
    transcript: Transcript, coordinator_key: bytes, trust: Trust | None = None
) -> CheckedSum:
    """Recombine a published transcript from scratch, as `tacit round verify` does.

    Only the parties know who participated. What is published about that must agree with the
    query's rules and with the aggregators' commitments. Without `trust` the aggregators are
    those that the coordinator names: it could have invented all of them. Raises
    TranscriptNotAnchored (`trust` has other identities), TranscriptNotBound, and the errors of
    each single check.
    """
    descriptor = check_consistent(transcript.descriptor, coordinator_key)
    everyone = tuple(entry.id for entry in descriptor.aggregators)
    unknown = everyone if trust is None else trust.check(descriptor, coordinator_key)
    query, contributions = descriptor.query, transcript.contributions
    if not query.min_participants <= transcript.participants <= query.n_max:
        raise ManifestRefused("the transcript's participants are not within the query's limits")
    if not are_contributors(query, contributions) or not enough_noise(query, contributions):
        raise ManifestRefused("the transcript's noise contributions are not those of the query")
    manifest = manifest_hash_of(
        descriptor.round,
        descriptor.digest(),
        transcript.quorum,
        transcript.participants,
        contributions,
        transcript.members_hash,
    )
    committed = {item.statement.manifest_hash for item in transcript.commitments}
    if committed and manifest not in committed:
        raise TranscriptNotBound("quorum, participants or contributions are others")
    if transcript.participants > descriptor.roster_size:
        raise ManifestRefused("the transcript has more participants than the round's roster")
    total = open_sum(
        descriptor, manifest, transcript.quorum, transcript.commitments, transcript.reveals
    )
    return CheckedSum(total, trust is not None, unknown)
