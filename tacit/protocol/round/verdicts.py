"""What aggregators of a proved round say to each other: key shares, verifier shares, verdicts.

Spec: validity, sections 7 and 10.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from tacit.crypto.signing import Signed
from tacit.protocol.round.accepted import AcceptedSet
from tacit.protocol.round.descriptor import Hash, RoundId
from tacit.protocol.sessions import Session, SessionId
from tacit.query.words import MAX_AGGREGATORS, Identifier
from tacit.wire import Binary, WireModel

VERIFICATION_LABEL = "tacit verification v1"
VERDICT_LABEL = "tacit verdict v1"


class SealedKeyShare(WireModel):
    """An aggregator's share of a proved round's verify key, sealed to another one. Spec: validity,
    section 7."""

    sender: Identifier
    receiver: Identifier
    session: SessionId | None = None
    announce: Signed[Session] | None = None
    nonce: Annotated[Binary, Field(min_length=12, max_length=12)]
    sealed: Annotated[Binary, Field(min_length=48, max_length=48)]


class RelayedKeyShares(WireModel):
    """The shares of all others for one aggregator, as the coordinator passes them on."""

    shares: Annotated[tuple[SealedKeyShare, ...], Field(max_length=MAX_AGGREGATORS)]


class KeyCheck(WireModel):
    """What an aggregator tells of a round's verify key: who has the same key gives the same."""

    round: RoundId
    descriptor_hash: Hash
    key_check: Hash


class VerificationRequest(WireModel):
    """The signed accepted sets of all aggregators, from which each computes the candidates."""

    accepted: tuple[Signed[AcceptedSet], ...]


class Verification(WireModel):
    """What an aggregator says of its verifier shares before it sees the others'. `items`: how many
    contributions are candidates; `shares_hash`: SHA-256 of all its shares in their order."""

    round: RoundId
    descriptor_hash: Hash
    aggregator: Identifier
    candidates_hash: Hash
    items: Annotated[int, Field(ge=0)]
    shares_hash: Hash


SHORT_SHARES: Final = 64 << 10
"""Verifier shares that are no longer, sealed, and one chunk travel with the requests around them:
those of all aggregators together are still a small request."""


class Verified(WireModel):
    """The answer to a verification; `shares`: its verifier shares if they are one short chunk,
    sealed. Longer ones are asked for."""

    verification: Signed[Verification]
    shares: Annotated[Binary, Field(max_length=SHORT_SHARES)] | None = None


class VerdictRequest(WireModel):
    """The signed verifications of all aggregators. `shares`: by index, the one short chunk of those
    whose verifier shares were not passed on before; or none at all."""

    verifications: tuple[Signed[Verification], ...]
    shares: Annotated[
        tuple[Annotated[Binary, Field(max_length=SHORT_SHARES)] | None, ...],
        Field(max_length=MAX_AGGREGATORS),
    ] = ()


REFUSED_BY_PROOF: Final = (
    "refused by the proof: its software is faulty, it lies, or an aggregator does"
)
"""What every party and report says of a curator whose contribution was not counted."""


class ProofReason(StrEnum):
    """Why an aggregator does not count a contribution."""

    PROOF = "proof"
    JOINT_RANDOMNESS = "joint_randomness"
    POINT = "point"


class Verdict(WireModel):
    """Whom among the candidates an aggregator refuses, and over which verifier shares it decided;
    it counts all others.

    `shares_hashes`: by index. `reasons`: a bitmap over the candidates, in their order, of those
    refused.
    """

    round: RoundId
    descriptor_hash: Hash
    aggregator: Identifier
    candidates_hash: Hash
    shares_hashes: tuple[Hash, ...]
    reasons: dict[ProofReason, Binary]
