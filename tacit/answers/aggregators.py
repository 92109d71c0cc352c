"""What aggregators answer, beside the signed statements of rounds (`tacit.protocol.round`)."""

from __future__ import annotations

from typing import Literal

from tacit.answers.base import Answer, Figure, Octets, Time
from tacit.answers.registry import PolicyOfAggregator


class AggregatorIdentity(Answer):
    """Who an aggregator is. `self_test`: of its noise samplers."""

    id: str
    operator: str
    identity_key: Octets
    fingerprint: str
    fingerprint_base64url: str
    policy: PolicyOfAggregator
    self_test: Literal["passed", "failed"]
    version: str


class KnownParty(Answer):
    """A party of the roster; `key` numbers the rows."""

    key: int
    id: str
    kind: Literal["curator", "host"]
    identity_key: Octets
    first: int
    curators: int
    enrolled: Time
    left: Time | None


class PartiesOfRoster(Answer):
    """A page of the roster, in the order of enrolment."""

    parties: list[KnownParty]


class AnnouncedSession(Answer):
    """The session that was announced."""

    party: str
    session: str


class RotatedSealKey(Answer):
    """The number of the new seal key, and of those that were retired and destroyed."""

    number: int
    retired: list[int]
    destroyed: list[int]


class KeptSealKey(Answer):
    """A peer's public seal key is kept; there is nothing to say of it."""


class RoundProgress(Answer):
    """Where a round stands. `accepted`: curators whose pieces it holds; `contributions`: indices of
    the aggregators whose noise it holds; `reason`: why it was aborted."""

    round: str
    state: str
    accepted: int
    contributions: list[int]
    descriptor_hash: Octets
    deadline: Time
    reason: str | None


class HeldContributions(Answer):
    """Indices of the aggregators whose noise it holds."""

    contributions: list[int]


class MissingPieces(Answer):
    """Of how many of these curators it holds no piece."""

    missing: int


class TooEarly(Answer):
    """How many curators were accepted, where a round is not frozen yet."""

    accepted: int


class NoiseLook(Answer):
    """One look: `alpha_each` is its part of the chance of a false proposal."""

    number: int
    time: Time
    alpha_each: float


class NoiseFamily(Answer):
    """Rounds whose noise has one law. `characteristic`: of that law; `rounds_to_tell`: after how
    many rounds a curator without noise is found."""

    part: str
    scale: Figure
    rounds: int
    curators: int
    characteristic: float | None
    rounds_to_tell: int | None


class NoiseProposals(Answer):
    """How many are proposed: for no noise, and for values far out."""

    silent: int
    far: int


class NoiseProposal(Answer):
    """A curator to look at; null where its number has no name any more."""

    number: int
    curator: str | None
    party: str | None
    left: bool | None
    reason: str
    part: str
    scale: Figure
    figures: dict[str, float]


class NoiseAudit(Answer):
    """Who may add no noise in local rounds. `cannot`: what this look does not find."""

    alpha: float
    look: NoiseLook
    tests: int
    families: list[NoiseFamily]
    proposed: NoiseProposals
    proposals: list[NoiseProposal]
    cannot: str
