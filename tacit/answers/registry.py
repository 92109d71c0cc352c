"""Answers about participants: services, parties, curators, grants, groups, and what aggregators
answer about themselves.

A fingerprint is the SHA-256 of an identity's public key, in hex.
"""

from __future__ import annotations

from typing import Literal

from tacit.answers.base import Answer, Figure, Octets, Time
from tacit.query.disclosure import DisclosureRule


class CoordinatorIdentity(Answer):
    """Who a coordinator is."""

    deployment: str
    identity_key: Octets
    fingerprint: str


class PolicyOfAggregator(Answer):
    """Which rounds an aggregator accepts; durations in seconds."""

    min_participants: int
    max_curators: int
    max_roster: int
    max_dimension: int
    max_round_s: int
    exact_rule: DisclosureRule | None
    allow_paper: bool


class PairedAggregator(Answer):
    """A paired aggregator. The other fields, on request: what the coordinator's last check
    found. `fingerprint_seen`: of the identity that it shows, which may differ from the paired
    one; `epoch`: of its sealing key; `ahead_s`: how far its clock is ahead of the coordinator's;
    `problem`: why it is not reachable."""

    id: str
    url: str
    operator: str
    identity_key: Octets
    fingerprint: str
    reachable: bool | None = None
    looked: Time | None = None
    ahead_s: int | None = None
    problem: str | None = None
    fingerprint_seen: str | None = None
    epoch: int | None = None
    policy: PolicyOfAggregator | None = None


class PairedAggregators(Answer):
    """The paired aggregators, by name."""

    aggregators: list[PairedAggregator]


class OpenGrant(Answer):
    """A grant that is neither used nor expired, without its secret."""

    id: str
    party: str
    kind: Literal["curator", "host"]
    max_curators: int
    expires: Time


class ListOfGrants(Answer):
    """The open grants."""

    grants: list[OpenGrant]


class EnrolledParty(Answer):
    """A curator or host: the numbers of its curators begin at `first`."""

    id: str
    kind: Literal["curator", "host"]
    first: int
    curators: int
    enrolled: Time
    left: Time | None


class ListOfParties(Answer):
    """A page of parties, by name; `total`: of all pages."""

    parties: list[EnrolledParty]
    total: int


class RosterEntry(Answer):
    """A curator with its number, and its party."""

    number: int
    id: str
    party: str


class RosterPage(Answer):
    """A page of the roster, by number; `total`: of all pages."""

    curators: list[RosterEntry]
    total: int


class FollowedIdentity(Answer):
    """The identity of a party that is known now."""

    party: str
    fingerprint: str


class ReturnedParty(Answer):
    """A party that is back; `token` is shown in this answer alone."""

    party: str
    token: str


class EndedTokens(Answer):
    """How many tokens ended, by scope."""

    ended: dict[str, int]


class SealsAsked(Answer):
    """How many seals there are now."""

    seals: int


class StorageKeyState(Answer):
    """The storage key in use. `left`: rows that a rotation has not yet encrypted again."""

    generation: int
    state: str
    left: int
    kept_in: str


class SignInCode(Answer):
    """A code for a browser, valid once and for `valid_s` seconds; `path`: the page that accepts
    it."""

    code: str
    path: str
    valid_s: int


class Group(Answer):
    """A group, without its curators. `curators`: how many; `parent`: the group that contains it."""

    name: str
    parent: str | None
    curators: int
    created: Time


class ListOfGroups(Answer):
    """A page of groups, by name."""

    groups: list[Group]


class GroupCurator(Answer):
    """A curator of a group, by its number on the roster."""

    number: int
    id: str


class CuratorsOfGroup(Answer):
    """A page of a group's curators, by number."""

    curators: list[GroupCurator]


# Answers of aggregators, except the signed statements of rounds (`tacit.protocol.round`).


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
    """A peer's public seal key is stored; the answer has no fields."""


class RoundProgress(Answer):
    """The state of a round. `accepted`: the curators whose pieces the aggregator has;
    `contributions`: indices of the aggregators whose noise it has; `reason`: why it was aborted."""

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
    many rounds the audit finds a curator without noise."""

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
    """Which curators may add no noise in local rounds. `cannot`: what this audit does not find."""

    alpha: float
    look: NoiseLook
    tests: int
    families: list[NoiseFamily]
    proposed: NoiseProposals
    proposals: list[NoiseProposal]
    cannot: str
