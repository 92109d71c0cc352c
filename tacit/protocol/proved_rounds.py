"""The verification of a proved round: its candidates, the verify key and verifier shares between
aggregators, and the decision who is summed.

The candidates are the contributions that every aggregator holds alike, in one order everywhere:
lone curators by number, then hosts' parts as listed (spec: validity, section 10, step 1).
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from tacit import sets
from tacit.crypto.sealing import (
    NONCE_BYTES,
    TAG_BYTES,
    SealBroken,
    Span,
    in_segment,
    length_prefixed,
)
from tacit.crypto.signing import SignatureBroken, Signed, verify
from tacit.errors import Conflict
from tacit.protocol.round.agreement import (
    ManifestRefused,
    accepted_by_index,
    check_count,
    parts_text,
)
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.round.messages import (
    ONLY_PART,
    VERDICT_LABEL,
    VERIFICATION_LABEL,
    AcceptedSet,
    Manifest,
    ProofReason,
    ProvedPart,
    Verdict,
    Verification,
)
from tacit.query.proofs import ProofPlan
from tacit.sets import Bits
from tacit.validity.prio3 import Outcome
from tacit.wire import Binary, WireModel

_CANDIDATES = b"tacit candidates v1"
_ALL: Final = slice(None)
"""The whole of a part's span."""


class CandidateList(WireModel):
    """Candidates as they are stored; `lone`: a bitmap over roster numbers, compressed."""

    lone: Binary
    parts: tuple[ProvedPart, ...]


@dataclass(frozen=True, eq=False)
class Candidates:
    """The contributions that every aggregator has received identically: these are verified.

    `lone`: the numbers (n,) of lone curators, ascending. `hash`: binds them to the round.
    """

    lone: NDArray[np.int64]
    parts: tuple[ProvedPart, ...]
    roster_size: int
    hash: bytes

    @classmethod
    def of(cls, listed: CandidateList, roster_size: int, digest: bytes) -> Candidates:
        """Those of a list that was stored with their hash."""
        lone = sets.unpack(sets.decompressed(listed.lone, roster_size), roster_size)
        return cls(np.flatnonzero(lone), listed.parts, roster_size, digest)

    def listed(self) -> CandidateList:
        """As they are stored."""
        lone = np.zeros(self.roster_size, np.bool_)
        lone[self.lone] = True
        return CandidateList(lone=sets.compressed(sets.pack(lone)), parts=self.parts)

    @property
    def items(self) -> int:
        """How many contributions they are."""
        return len(self.lone) + len(self.parts)

    @property
    def curators(self) -> int:
        """Of how many curators these are."""
        return len(self.lone) + sum(part.curators for part in self.parts)

    def alike(self, at: int, stop: int) -> tuple[int, int]:
        """How many curators the contribution at an index stands for, and where the run of
        contributions of equally many ends, at `stop` at the latest."""
        lone = len(self.lone)
        if at < lone:
            return 1, min(stop, lone)
        curators, until = self.parts[at - lone].curators, at + 1
        while until < stop and self.parts[until - lone].curators == curators:
            until += 1
        return curators, until

    def numbers(self, chosen: Bits) -> Bits:
        """The curators (roster_size,) of the chosen ones among the contributions (items,)."""
        is_numbered = np.zeros(self.roster_size, np.bool_)
        is_numbered[self.lone[chosen[: len(self.lone)]]] = True
        for part in self.parts_of(chosen):
            is_numbered[_slice(part)][part.present if part.presence else _ALL] = True
        return is_numbered

    def parts_of(self, chosen: Bits) -> tuple[ProvedPart, ...]:
        """The parts among the chosen contributions (items,)."""
        of_parts = chosen[len(self.lone) :].tolist()
        return tuple(
            part for part, is_chosen in zip(self.parts, of_parts, strict=True) if is_chosen
        )


def candidates_of(
    descriptor: RoundDescriptor, accepted: Sequence[Signed[AcceptedSet]]
) -> Candidates:
    """Lone numbers that are in all signed sets, and parts that are equal in all.

    Raises ManifestRefused for malformed sets, for sets that are not from all aggregators, and
    above n_max; TooFewParticipants, in which case nothing may be evaluated.
    """
    return _candidates_of(descriptor, tuple(accepted))


# The same sets are checked at the verification and at the commitment: a passed check of equal sets
# is cached, a refusal is not.
@lru_cache(maxsize=2)
def _candidates_of(
    descriptor: RoundDescriptor, accepted: tuple[Signed[AcceptedSet], ...]
) -> Candidates:
    by_index = accepted_by_index(descriptor, accepted)
    size = descriptor.roster_size
    alone: list[bytes] = []
    common: set[ProvedPart] | None = None
    listed: tuple[ProvedPart, ...] = ()
    covered = bytes(sets.byte_length(size))
    for item in by_index.values():
        parts = item.parts or ()
        if parts != listed:  # mostly all hold the same
            listed, covered = parts, sets.pack(_covered(descriptor, parts))
        alone.append(_alone(item, covered, size))
        common = set(parts) if common is None else common & set(parts)
    chosen = tuple(sorted(common or (), key=lambda part: part.order))
    lone = sets.intersection(alone)
    digest = hashlib.sha256(
        length_prefixed(_CANDIDATES, descriptor.digest(), lone, parts_text(chosen))
    ).digest()
    numbers = np.flatnonzero(sets.unpack(lone, size))
    numbers.flags.writeable = False
    candidates_here = Candidates(numbers, chosen, size, digest)
    check_count(descriptor.query, candidates_here.curators)
    return candidates_here


def _alone(item: AcceptedSet, covered: bytes, size: int) -> bytes:
    """A set's lone numbers: a bitmap over the roster. `covered`: the numbers of its parts."""
    if item.lone is None:
        raise ManifestRefused("an accepted set is that of a declared round")
    try:
        lone = sets.decompressed(item.lone, size)
    except ValueError:
        raise ManifestRefused("an accepted set is malformed") from None
    if sets.difference(lone, covered) != lone:
        raise ManifestRefused("an accepted set lists a curator alone and in a part")
    return lone


def _covered(descriptor: RoundDescriptor, parts: Sequence[ProvedPart]) -> Bits:
    """The numbers (roster_size,) of a set's parts, each in one of them."""
    covered = np.zeros(descriptor.roster_size, np.bool_)
    order = [part.place for part in parts]
    if any(one >= other for one, other in itertools.pairwise(order)) or any(
        part.part != ONLY_PART for part in parts
    ):
        raise ManifestRefused("an accepted set's parts are not sorted, one for each span")
    for part in parts:
        span, own = covered[_slice(part)], None
        with contextlib.suppress(ValueError):
            own = part.present if part.presence else _ALL
        if own is None or not _on_roster(part, descriptor) or span[own].any():
            raise ManifestRefused("an accepted set lists parts that no host can have sent")
        span[own] = True
    return covered


def _slice(part: ProvedPart) -> slice:
    return slice(part.first, part.first + part.length)


def _on_roster(part: ProvedPart, descriptor: RoundDescriptor) -> bool:
    span, end = Span(part.segment, part.first, part.length), part.first + part.length
    return in_segment(span, descriptor.segment_size) and end <= descriptor.roster_size


# The verify key, and verifier shares in transit between aggregators (spec: validity, sections 7 and
# 10).

SECRET_BYTES: Final = 32
CHUNK_BYTES: Final = 4 << 20
"""A chunk of verifier shares, sealed: at most this long."""
_KEY_SHARE = b"tacit verify key share v1"
_KEY = b"tacit verify key v1"
_KEY_CHECK = b"tacit verify key check v1"
_SHARES = b"tacit verifier shares v1"
_MAGIC = b"TVS1"
_CHUNK = struct.Struct("<4s32s32sBIII")


def key_share(secret: bytes, descriptor_hash: bytes, aggregator: str) -> bytes:
    """An aggregator's 32-byte share of a round's verify key, always the same for one secret."""
    return _derived(secret, _KEY_SHARE, length_prefixed(descriptor_hash, aggregator.encode()))


def key_share_context(descriptor_hash: bytes, sender: str, receiver: str, index: int) -> bytes:
    """The associated data of a sealed share; `index`: the receiver's."""
    return length_prefixed(
        _KEY, descriptor_hash, sender.encode(), receiver.encode(), str(index).encode()
    )


def verify_key_of(descriptor_hash: bytes, shares: Sequence[bytes]) -> bytes:
    """The 32-byte verify key of all aggregators' shares, in their order."""
    return hashlib.sha256(length_prefixed(_KEY, descriptor_hash, *shares)).digest()


def key_check_of(descriptor_hash: bytes, verify_key: bytes) -> bytes:
    """A fingerprint of a verify key: it only shows whether two are the same."""
    return hashlib.sha256(length_prefixed(_KEY_CHECK, descriptor_hash, verify_key)).digest()


def _derived(secret: bytes, salt: bytes, info: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=info).derive(secret)


def share_lengths(plan: ProofPlan, candidates: Candidates) -> NDArray[np.int64]:
    """Bytes of each candidate's verifier share, (items,)."""
    lengths, at = np.zeros(candidates.items, np.int64), 0
    while at < candidates.items:
        curators, until = candidates.alike(at, candidates.items)
        lengths[at:until] = plan.of(curators).prio3.verifier_share_bytes
        at = until
    return lengths


def chunk_slices(lengths: NDArray[np.int64]) -> list[slice]:
    """The items of each chunk: whole ones, as many as fit `CHUNK_BYTES`."""
    room = CHUNK_BYTES - _CHUNK.size - NONCE_BYTES - TAG_BYTES
    ends = np.cumsum(lengths)
    slices, start = [], 0
    while start < len(lengths):
        before = int(ends[start - 1]) if start else 0
        end = int(np.searchsorted(ends, before + room, side="right"))
        assert end > start, "a verifier share is shorter than a chunk"
        slices.append(slice(start, end))
        start = end
    return slices


@dataclass(frozen=True)
class ChunkPlace:
    """Which chunk of whose verifier shares it is."""

    descriptor_hash: bytes
    candidates_hash: bytes
    index: int
    chunk: int
    chunks: int
    items: int

    def header(self) -> bytes:
        """As the chunk begins."""
        return _CHUNK.pack(
            _MAGIC,
            self.descriptor_hash,
            self.candidates_hash,
            self.index,
            self.chunk,
            self.chunks,
            self.items,
        )


def chunk_key(verify_key: bytes, descriptor_hash: bytes, aggregator: str) -> bytes:
    """The key with which an aggregator seals its chunks of a round; the coordinator does not
    have it."""
    return _derived(verify_key, _SHARES, length_prefixed(descriptor_hash, aggregator.encode()))


def seal_chunk(key: bytes, place: ChunkPlace, shares: bytes) -> bytes:
    """A chunk of verifier shares as it travels."""
    head = place.header() + os.urandom(NONCE_BYTES)
    return head + AESGCM(key).encrypt(head[-NONCE_BYTES:], shares, head)


def stands_at(place: ChunkPlace, body: bytes) -> bool:
    """Whether a body claims to be this chunk, and is no longer than one."""
    return len(body) <= CHUNK_BYTES and body.startswith(place.header())


def open_chunk(key: bytes, place: ChunkPlace, body: bytes) -> bytes:
    """The verifier shares of a chunk. Raises SealBroken unless its aggregator made it for this
    use."""
    end = _CHUNK.size + NONCE_BYTES
    if not stands_at(place, body):
        raise SealBroken("a chunk of another place")
    try:
        return AESGCM(key).decrypt(body[_CHUNK.size : end], body[end:], body[:end])
    except (InvalidTag, ValueError, OverflowError):
        raise SealBroken("a chunk that its aggregator did not make") from None


# The decision on the candidates of a proved round: who is counted and summed (spec: validity,
# section 10). Pure, as `agreement`: the coordinator and every aggregator call the same functions.

Statement = TypeVar("Statement", Verification, Verdict)
_REASONS: Final[Mapping[Outcome, ProofReason]] = {
    Outcome.POINT: ProofReason.POINT,
    Outcome.PROOF: ProofReason.PROOF,
    Outcome.JOINT_RANDOMNESS: ProofReason.JOINT_RANDOMNESS,
}


class VerificationRefused(Conflict):
    name = "verification_refused"
    title = "The verifications are not those of all aggregators over these candidates"


def check_verifications(
    descriptor: RoundDescriptor,
    candidates: Candidates,
    verifications: Sequence[Signed[Verification]],
) -> tuple[Verification, ...]:
    """The verifications by index: of all aggregators, over these candidates. Raises
    VerificationRefused."""
    statements_by_order = _of_all(
        descriptor, VERIFICATION_LABEL, verifications, VerificationRefused, "verification"
    )
    for item in statements_by_order:
        if item.candidates_hash != candidates.hash or item.items != candidates.items:
            raise VerificationRefused(f"{item.aggregator} verified other candidates")
    return statements_by_order


def verdict_of(
    descriptor: RoundDescriptor,
    aggregator: str,
    candidates: Candidates,
    verifications: Sequence[Verification],
    outcomes: NDArray[np.uint8],
) -> Verdict:
    """An aggregator's verdict on the candidates; outcomes (items,): values of `Outcome`."""
    return Verdict(
        round=descriptor.round,
        descriptor_hash=descriptor.digest(),
        aggregator=aggregator,
        candidates_hash=candidates.hash,
        shares_hashes=tuple(item.shares_hash for item in verifications),
        reasons={
            reason: sets.pack(outcomes == outcome)
            for outcome, reason in _REASONS.items()
            if (outcomes == outcome).any()
        },
    )


def check_verdicts(
    descriptor: RoundDescriptor, candidates: Candidates, verdicts: Sequence[Signed[Verdict]]
) -> tuple[Verdict, ...]:
    """The verdicts by index: of all aggregators, over these candidates. Raises ManifestRefused."""
    statements_by_order = _of_all(descriptor, VERDICT_LABEL, verdicts, ManifestRefused, "verdict")
    for item in statements_by_order:
        if item.candidates_hash != candidates.hash:
            raise ManifestRefused(f"{item.aggregator} decided on other candidates")
        if len(item.shares_hashes) != len(descriptor.aggregators):
            raise ManifestRefused("a verdict names the shares of too few aggregators, or of more")
        _refused(candidates, item)
    return statements_by_order


def _of_all(
    descriptor: RoundDescriptor,
    label: str,
    statements: Sequence[Signed[Statement]],
    refused: type[Conflict],
    statement_name: str,
) -> tuple[Statement, ...]:
    """One signed statement of each aggregator about this round, by index. Raises `refused`."""
    statement_at: dict[int, Statement] = {}
    for signed in statements:
        item = signed.statement
        try:
            index = descriptor.index_of(item.aggregator)
            verify(label, signed, descriptor.aggregators[index].identity_key)
        except (KeyError, SignatureBroken):
            raise refused(f"a {statement_name} is not signed by an aggregator") from None
        if item.round != descriptor.round or item.descriptor_hash != descriptor.digest():
            raise refused(f"a {statement_name} belongs to another round")
        statement_at[index] = item
    count = len(descriptor.aggregators)
    if len(statement_at) != count or len(statements) != count:
        raise refused(f"the {statement_name}s are not one of each aggregator")
    return tuple(statement_at[index] for index in range(count))


def _refused(candidates: Candidates, verdict: Verdict) -> Bits:
    """The contributions (items,) that a verdict refuses, by reason; each has one reason."""
    refused = np.zeros(candidates.items, np.bool_)
    for bitmap in verdict.reasons.values():
        try:
            refused_here = sets.unpack(bitmap, candidates.items)
        except ValueError:
            raise ManifestRefused("a verdict's reasons are not those of these candidates") from None
        if not refused_here.any() or (refused & refused_here).any():
            raise ManifestRefused("a verdict gives an empty reason, or two for a contribution")
        refused |= refused_here
    return refused


def proved_manifest_of(
    descriptor: RoundDescriptor, candidates: Candidates, verdicts: Sequence[Verdict], salt: bytes
) -> Manifest:
    """The one manifest that follows from all signed sets, through their candidates, and from all
    verdicts as `check_verdicts` returned them. Raises TooFewParticipants."""
    counted = counted_by_all(candidates, verdicts)
    members, parts = sets.pack(candidates.numbers(counted)), candidates.parts_of(counted)
    count = sets.count(members)
    check_count(descriptor.query, count)
    return Manifest(
        round=descriptor.round,
        descriptor_hash=descriptor.digest(),
        quorum=tuple(range(len(descriptor.aggregators))),
        members=members,
        count=count,
        contributions=(),
        salt=salt,
        parts=parts,
    )


def counted_by_all(candidates: Candidates, verdicts: Sequence[Verdict]) -> Bits:
    """The contributions (items,) that no verdict refuses."""
    counted = np.ones(candidates.items, np.bool_)
    for verdict in verdicts:
        counted &= ~_refused(candidates, verdict)
    return counted


def offset_of(plan: ProofPlan, manifest: Manifest) -> tuple[str, ...]:
    """By how much the opened total of a manifest is shifted, per coordinate: a commitment's
    `offset`."""
    hosted = [part.curators for part in manifest.parts or ()]
    offset = plan.offset(manifest.count - sum(hosted), hosted)
    return tuple(str(value) for value in offset)


def refused_curators(
    candidates: Candidates, verdicts: Sequence[Verdict]
) -> dict[ProofReason, Bits]:
    """The curators (roster_size,) that any verdict refuses, by its reason; reasons that occur
    only."""
    numbers_of: dict[ProofReason, Bits] = {}
    for verdict in verdicts:
        for reason, bitmap in verdict.reasons.items():
            numbers = candidates.numbers(sets.unpack(bitmap, candidates.items))
            numbers_of[reason] = numbers_of.get(reason, np.zeros_like(numbers)) | numbers
    return numbers_of


def contradictions(
    verifications: Sequence[Verification], verdicts: Sequence[Verdict]
) -> Iterator[str]:
    """Sentences on signed statements of these aggregators that cannot all be true (spec:
    validity, section 10, step 5). Verdicts may differ in joint randomness: a curator alone can
    cause that."""
    for verdict in verdicts:
        for verification, hashed in zip(verifications, verdict.shares_hashes, strict=True):
            if hashed != verification.shares_hash:
                yield (
                    f"{verification.aggregator} signed two verifications, or {verdict.aggregator} "
                    f"decided on shares that {verification.aggregator} did not sign"
                )
    for place, one in enumerate(verdicts):
        for other in verdicts[place + 1 :]:
            same = one.shares_hashes == other.shares_hashes
            if same and _by_all_shares(one) != _by_all_shares(other):
                yield f"{one.aggregator} or {other.aggregator} signed a false verdict"


def _by_all_shares(verdict: Verdict) -> dict[ProofReason, bytes]:
    """The reasons that follow from the verifier shares and so are the same for every aggregator."""
    common = (ProofReason.PROOF, ProofReason.POINT)
    return {reason: verdict.reasons[reason] for reason in common if reason in verdict.reasons}
