"""Answers about who takes part: services and their identities, parties, curators, grants, suites.

A fingerprint is the SHA-256 of an identity's public key, in hex.
"""

from __future__ import annotations

from typing import Literal

from tacit.answers.base import Answer, Octets, Time


class CoordinatorIdentity(Answer):
    """Who a coordinator is."""

    deployment: str
    identity_key: Octets
    fingerprint: str


class PolicyOfAggregator(Answer):
    """Which rounds an aggregator takes part in; durations in seconds."""

    min_participants: int
    max_curators: int
    max_roster: int
    max_dimension: int
    max_round_s: int
    allow_exact: bool
    allow_paper: bool


class PairedAggregator(Answer):
    """An aggregator that is paired. The other fields, if asked for: what was seen when the
    coordinator looked last. `fingerprint_seen`: of the identity it shows, which may be another than
    the paired one; `epoch`: of its sealing key; `problem`: why it is not reachable."""

    id: str
    url: str
    operator: str
    identity_key: Octets
    fingerprint: str
    reachable: bool | None = None
    looked: Time | None = None
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
    """Which storage key seals. `left`: rows that a rotation has still to seal anew."""

    generation: int
    state: str
    left: int
    kept_in: str


class SignInCode(Answer):
    """A code for a browser, good once and for `valid_s` seconds; `path`: the page that takes it."""

    code: str
    path: str
    valid_s: int
