"""What is decided on the candidates of a proved round, and who is counted and summed.

Pure, as `agreement`: the coordinator and every aggregator call the same functions.

Spec: validity, section 10.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit import sets
from tacit.crypto.signing import SignatureBroken, Signed, verify
from tacit.errors import Conflict
from tacit.protocol.candidates import Candidates
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.round.manifests import ManifestRefused, check_count
from tacit.protocol.round.transcript import Manifest
from tacit.protocol.round.verdicts import (
    VERDICT_LABEL,
    VERIFICATION_LABEL,
    ProofReason,
    Verdict,
    Verification,
)
from tacit.query.proofs import ProofPlan
from tacit.sets import Bits
from tacit.validity.prio3 import Outcome

Statement = TypeVar("Statement", Verification, Verdict)
_REASONS: Final[Mapping[Outcome, ProofReason]] = {
    Outcome.POINT: ProofReason.POINT,
    Outcome.PROOF: ProofReason.PROOF,
    Outcome.JOINT_RANDOMNESS: ProofReason.JOINT_RANDOMNESS,
}


class VerificationRefused(Conflict):
    name = "verification_refused"
    title = "The verifications are not those of all aggregators over these candidates"


# --- decisions -----------------------------------------------------------------------------------


def check_verifications(
    descriptor: RoundDescriptor,
    candidates: Candidates,
    verifications: Sequence[Signed[Verification]],
) -> tuple[Verification, ...]:
    """The verifications by index: of all aggregators, over these candidates. Raises
    VerificationRefused."""
    found = _of_all(
        descriptor, VERIFICATION_LABEL, verifications, VerificationRefused, "verification"
    )
    for item in found:
        if item.candidates_hash != candidates.hash or item.items != candidates.items:
            raise VerificationRefused(f"{item.aggregator} verified other candidates")
    return found


def verdict_of(
    descriptor: RoundDescriptor,
    aggregator: str,
    candidates: Candidates,
    verifications: Sequence[Verification],
    outcomes: NDArray[np.uint8],
) -> Verdict:
    """What an aggregator says of the candidates; outcomes (items,): values of `Outcome`."""
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
    found = _of_all(descriptor, VERDICT_LABEL, verdicts, ManifestRefused, "verdict")
    for item in found:
        if item.candidates_hash != candidates.hash:
            raise ManifestRefused(f"{item.aggregator} decided on other candidates")
        if len(item.shares_hashes) != len(descriptor.aggregators):
            raise ManifestRefused("a verdict names the shares of too few aggregators, or of more")
        _refused(candidates, item)
    return found


def _of_all(
    descriptor: RoundDescriptor,
    label: str,
    statements: Sequence[Signed[Statement]],
    refused: type[Conflict],
    what: str,
) -> tuple[Statement, ...]:
    """One signed statement of each aggregator about this round, by index. Raises `refused`."""
    found: dict[int, Statement] = {}
    for signed in statements:
        item = signed.statement
        try:
            index = descriptor.index_of(item.aggregator)
            verify(label, signed, descriptor.aggregators[index].identity_key)
        except (KeyError, SignatureBroken):
            raise refused(f"a {what} is not signed by an aggregator") from None
        if item.round != descriptor.round or item.descriptor_hash != descriptor.digest():
            raise refused(f"a {what} belongs to another round")
        found[index] = item
    count = len(descriptor.aggregators)
    if len(found) != count or len(statements) != count:
        raise refused(f"the {what}s are not one of each aggregator")
    return tuple(found[index] for index in range(count))


def _refused(candidates: Candidates, verdict: Verdict) -> Bits:
    """The contributions (items,) that a verdict refuses, each for one reason."""
    refused = np.zeros(candidates.items, np.bool_)
    for bitmap in verdict.reasons.values():
        try:
            own = sets.unpack(bitmap, candidates.items)
        except ValueError:
            raise ManifestRefused("a verdict's reasons are none of these candidates") from None
        if not own.any() or (refused & own).any():
            raise ManifestRefused("a verdict gives an empty reason, or two for a contribution")
        refused |= own
    return refused


def proved_manifest_of(
    descriptor: RoundDescriptor, candidates: Candidates, verdicts: Sequence[Verdict], salt: bytes
) -> Manifest:
    """The one manifest that all signed sets, through their candidates, and all verdicts give, as
    `check_verdicts` found these. Raises TooFewParticipants.
    """
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
    """What the opened total of a manifest is moved by, per coordinate: a commitment's `offset`."""
    hosted = [part.curators for part in manifest.parts or ()]
    offset = plan.offset(manifest.count - sum(hosted), hosted)
    return tuple(str(value) for value in offset)


# --- who was refused -----------------------------------------------------------------------------


def refused_curators(
    candidates: Candidates, verdicts: Sequence[Verdict]
) -> dict[ProofReason, Bits]:
    """The curators (roster_size,) that any verdict refuses, by its reason; reasons without one are
    left out."""
    found: dict[ProofReason, Bits] = {}
    for verdict in verdicts:
        for reason, bitmap in verdict.reasons.items():
            numbers = candidates.numbers(sets.unpack(bitmap, candidates.items))
            found[reason] = found.get(reason, np.zeros_like(numbers)) | numbers
    return found


def contradictions(
    verifications: Sequence[Verification], verdicts: Sequence[Verdict]
) -> Iterator[str]:
    """Sentences on what aggregators signed that cannot all be true, naming these (spec: validity,
    section 10, step 5). Verdicts may differ in joint randomness: a curator alone can do that."""
    for verdict in verdicts:
        for own, hashed in zip(verifications, verdict.shares_hashes, strict=True):
            if hashed != own.shares_hash:
                yield (
                    f"{own.aggregator} signed two verifications, or {verdict.aggregator} decided "
                    f"on shares that {own.aggregator} did not sign"
                )
    for place, one in enumerate(verdicts):
        for other in verdicts[place + 1 :]:
            same = one.shares_hashes == other.shares_hashes
            if same and _by_all_shares(one) != _by_all_shares(other):
                yield f"{one.aggregator} or {other.aggregator} signed a false verdict"


def _by_all_shares(verdict: Verdict) -> dict[ProofReason, bytes]:
    """The reasons that follow from the verifier shares, and so are the same for each aggregator."""
    common = (ProofReason.PROOF, ProofReason.POINT)
    return {reason: verdict.reasons[reason] for reason in common if reason in verdict.reasons}
