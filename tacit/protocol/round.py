"""A round on the wire: descriptor, accepted sets, manifest, commitments, reveals, transcript.

Spec: aggregation, section 6. The hash of the descriptor is in every sealed piece, signed set,
commitment and debit: parties that were shown different descriptors cannot end up in one sum.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal

import numpy as np
from pydantic import Field, model_validator

from tacit import sets
from tacit.crypto.sealing import Span
from tacit.crypto.signing import Signed, fingerprint
from tacit.protocol.enrolment import EpochKey, PublicKey
from tacit.protocol.sessions import SealKeyStatement, Session, SessionId
from tacit.query.fields import Window
from tacit.query.query import Query
from tacit.query.words import LONGEST_PART, MAX_AGGREGATORS, MAX_CURATORS, Identifier
from tacit.sets import Bits
from tacit.wire import Binary, Instant, KeptModel, WireModel, require

Hash = Annotated[Binary, Field(min_length=32, max_length=32)]
WholeNumber = Annotated[str, Field(pattern=r"^(0|-?[1-9][0-9]{0,38})$")]
"""A whole number in decimal digits, which JSON readers take for no float."""
RoundId = Annotated[str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")]

MAX_GROUP_ROSTER = 2**26
"""A longer bitmap (8 MiB) of a descriptor that was not verified yet is never unpacked."""

DESCRIPTOR_LABEL = "tacit round descriptor v1"
ACCEPTED_LABEL = "tacit accepted set v1"
PROVED_SET_LABEL = "tacit accepted set v2"
COMMITMENT_LABEL = "tacit commitment v1"
ABORT_LABEL = "tacit abort v1"
VERIFICATION_LABEL = "tacit verification v1"
VERDICT_LABEL = "tacit verdict v2"
LISTING_VERDICT_LABEL = "tacit verdict v1"
"""Of verdicts of an earlier version, which list whom they count."""


class RoundState(StrEnum):
    """`verified`: of proved rounds only (spec: validity, section 10)."""

    OPEN = "open"
    FROZEN = "frozen"
    VERIFIED = "verified"
    COMMITTED = "committed"
    RELEASED = "released"
    ABORTED = "aborted"


class AggregatorEntry(WireModel):
    """One aggregator of a round: its identity, the key that pieces are sealed to, signed by it, and
    who runs it. In rounds of format 1 that is an epoch key, in those of format 2 a seal key."""

    id: Identifier
    operator: Annotated[str, Field(min_length=1, max_length=128)]
    url: str
    identity_key: PublicKey
    epoch_key: Signed[EpochKey] | None = None
    seal_key: Signed[SealKeyStatement] | None = None

    @property
    def epoch(self) -> EpochKey:
        """The epoch key. Raises ValueError in a round of format 2."""
        if self.epoch_key is None:
            raise ValueError("a round of format 2 has no epoch keys")
        return self.epoch_key.statement

    @property
    def seal(self) -> SealKeyStatement:
        """The seal key. Raises ValueError in a round of format 1."""
        if self.seal_key is None:
            raise ValueError("a round of format 1 has no seal keys")
        return self.seal_key.statement

    @property
    def fingerprint(self) -> bytes:
        """SHA-256 of the identity key: what a join token pins."""
        return fingerprint(self.identity_key)


class LedgerHead(WireModel):
    """The newest event of the coordinator's budget ledger: its number and hash. Whoever keeps a
    descriptor can tell when the ledger was cut or rewritten since."""

    seq: Annotated[int, Field(ge=0)]
    head: Hash


class RoundDescriptor(KeptModel):
    """Everything the parties of a round must agree on. Signed by the coordinator.

    `members`: of the query's group, or the curators whose pieces a job's first round accepted, a
    compressed bitmap over the roster; nobody else takes part.
    """

    format: Literal["tacit.round/1", "tacit.round/2"] = "tacit.round/1"
    deployment: Identifier
    round: RoundId
    query_id: Identifier
    query: Query
    window: Window
    opened: Instant
    deadline: Instant
    aggregators: tuple[AggregatorEntry, ...]
    roster_version: Annotated[int, Field(ge=0)]
    roster_size: Annotated[int, Field(ge=0, le=2**32)]
    segment_size: Annotated[int, Field(ge=64, le=262_144)]
    ledger: LedgerHead | None = None
    members: Binary | None = None

    def __hash__(self) -> int:
        """Of few fields: caches ask for it again and again."""
        return hash((self.round, self.roster_version))

    @model_validator(mode="after")
    def _keys_of_the_format(self) -> RoundDescriptor:
        wanted = (False, True) if self.sessions else (True, False)
        for entry in self.aggregators:
            found = entry.epoch_key is not None, entry.seal_key is not None
            require(found == wanted, None, "epoch keys in format 1, seal keys in format 2")
        return self

    @property
    def sessions(self) -> bool:
        """Whether pieces are sealed under sessions: format 2 (spec: keys, section 2)."""
        return self.format == "tacit.round/2"

    @model_validator(mode="after")
    def _members_of_the_group(self) -> RoundDescriptor:
        if self.query.group is not None:
            require(self.members is not None, None, "a group and its members go together")
        if self.members is not None:
            named = self.query.group is not None or self.query.job is not None
            require(named, None, "members are those of a group or of a job")
            limit = MAX_GROUP_ROSTER
            require(
                self.roster_size <= limit,
                None,
                f"a roster with members has at most {limit} numbers",
            )
            try:
                found = sets.decompressed(self.members, self.roster_size)
            except ValueError as error:
                require(False, None, f"members: {error}")
            else:
                require(any(found), None, "nobody is a member")
        return self

    def invited(self) -> sets.Bits | None:
        """Who may participate, one boolean per roster number; None for everyone."""
        bitmap = self.invited_bitmap()
        return None if bitmap is None else sets.unpack(bitmap, self.roster_size)

    def invited_bitmap(self) -> bytes | None:
        """The same as a bitmap over the roster."""
        return None if self.members is None else sets.decompressed(self.members, self.roster_size)

    @property
    def operators(self) -> tuple[str, ...]:
        """Who runs each aggregator."""
        return tuple(entry.operator for entry in self.aggregators)

    def index_of(self, aggregator: str) -> int:
        """The share index 0..c-1 of an aggregator. Raises KeyError for a stranger."""
        for index, entry in enumerate(self.aggregators):
            if entry.id == aggregator:
                return index
        raise KeyError(aggregator)


class Piece(WireModel):
    """One sealed piece of one sender for one aggregator; words inside are little-endian.

    In a round of format 1 it names the epoch of the sender's key. In one of format 2 it names a
    session, and carries its announcement until the aggregator has answered under it.
    """

    sender: Identifier
    key_epoch: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    session: SessionId | None = None
    nonce: Annotated[Binary, Field(min_length=12, max_length=12)]
    sealed: Binary
    announce: Signed[Session] | None = None

    @model_validator(mode="after")
    def _one_key(self) -> Piece:
        named = (self.key_epoch is None) != (self.session is None)
        require(named, None, "either the epoch of a key or a session")
        alone = self.announce is None or self.announce.statement.session == self.session
        require(alone, None, "the announcement is of another session")
        return self


class CarriedPiece(Piece):
    """A piece among those of several parties in one request: each with its own party's token, and
    with its round where the request is for several."""

    token: Annotated[str, Field(max_length=512)] | None = None
    round: RoundId | None = None


class CarriedBatch(WireModel):
    """A sealed batch among several in one request: each with its own host's token, and with its
    round where the request is for several."""

    body: Binary
    token: Annotated[str, Field(max_length=512)] | None = None
    round: RoundId | None = None


class Contribution(WireModel):
    """An aggregator's own noise as a shared value (Shamir), one sealed piece per aggregator."""

    aggregator: Identifier
    pieces: tuple[Piece, ...]


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


class ProvedPart(WireModel):
    """A host's part of a proved round: one contribution for all curators that `presence` tells, a
    bitmap over `first`..`first + length - 1`; empty: all of them, as in most parts. It is counted
    or refused whole."""

    segment: Annotated[int, Field(ge=0, lt=2**32)]
    first: Annotated[int, Field(ge=0, lt=2**32)]
    length: Annotated[int, Field(ge=1, le=LONGEST_PART)]
    part: Annotated[int, Field(ge=0, lt=2**32)]
    presence: Annotated[Binary, Field(max_length=LONGEST_PART // 8)]

    @classmethod
    def of(cls, span: Span, part: int, bitmap: bytes) -> ProvedPart:
        """The part of a span, in its shortest form; one boolean per number in the bitmap."""
        whole = sets.count(bitmap) == span.length
        return cls(
            segment=span.segment,
            first=span.first,
            length=span.length,
            part=part,
            presence=b"" if whole else bitmap,
        )

    @property
    def place(self) -> tuple[int, int, int, int]:
        """Which part it is, whoever is in it."""
        return self.segment, self.first, self.length, self.part

    @property
    def present(self) -> Bits:
        """Which numbers of the span it is of, (length,). Raises ValueError for no bitmap of one
        curator or more."""
        if not self.presence:
            return np.ones(self.length, np.bool_)
        found = sets.unpack(self.presence, self.length)
        if not found.any():
            raise ValueError("a part of nobody")
        return found

    @property
    def order(self) -> tuple[int, int, int, int, bytes]:
        """By what lists of parts are sorted."""
        return self.segment, self.first, self.length, self.part, self.presence

    @property
    def curators(self) -> int:
        """n': of how many curators it is."""
        return sets.count(self.presence) if self.presence else self.length


class AcceptedSet(WireModel):
    """Whose pieces an aggregator holds at the freeze, and whose noise contributions (aggregator
    indices).

    Declared rounds: `members`, a bitmap over roster numbers. Proved rounds: `parts` of hosts,
    sorted, and `lone`, a compressed bitmap of all others; in sets of an earlier version `members`
    of both instead, signed for another purpose.
    """

    round: RoundId
    descriptor_hash: Hash
    aggregator: Identifier
    members: Binary | None = None
    contributions: tuple[int, ...]
    lone: Binary | None = None
    parts: tuple[ProvedPart, ...] | None = None

    @property
    def label(self) -> str:
        """For what purpose it is signed."""
        return ACCEPTED_LABEL if self.lone is None else PROVED_SET_LABEL

    @model_validator(mode="after")
    def _one_form(self) -> AcceptedSet:
        one = (self.members is None) != (self.lone is None)
        require(one, None, "either members, or lone curators and parts")
        require(self.lone is None or self.parts is not None, None, "lone goes with parts")
        return self

    def held(self, size: int) -> bytes:
        """Everybody in it, a bitmap over `size` numbers. Raises ValueError if it is malformed."""
        if self.lone is None:
            return self.members or b""
        found = sets.unpack(sets.decompressed(self.lone, size), size).copy()
        for part in self.parts or ():
            found[part.first : part.first + part.length] |= part.present
        return sets.pack(found)


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
    refused. Only verdicts of an earlier version say whom they count, too: `members`, a bitmap over
    roster numbers, and `parts`; their signatures are for another purpose.
    """

    round: RoundId
    descriptor_hash: Hash
    aggregator: Identifier
    candidates_hash: Hash
    shares_hashes: tuple[Hash, ...]
    members: Binary | None = None
    parts: tuple[ProvedPart, ...] | None = None
    reasons: dict[ProofReason, Binary]

    @property
    def label(self) -> str:
        """For what purpose it is signed."""
        return VERDICT_LABEL if self.members is None else LISTING_VERDICT_LABEL

    @model_validator(mode="after")
    def _listed_whole(self) -> Verdict:
        together = (self.members is None) == (self.parts is None)
        require(together, None, "members and parts go together")
        return self


class Manifest(WireModel):
    """What is summed: the quorum (indices) and the intersection of its accepted sets.

    `salt`: drawn by the coordinator and known to the parties only. Without it an outsider who holds
    a transcript could try guesses of who took part. Only manifests of an earlier version have none.
    `parts`: in proved rounds those of hosts that are counted.
    """

    round: RoundId
    descriptor_hash: Hash
    quorum: tuple[int, ...]
    members: Binary
    count: Annotated[int, Field(ge=0)]
    contributions: tuple[int, ...]
    salt: Hash | None = None
    parts: tuple[ProvedPart, ...] | None = None


class ManifestRequest(WireModel):
    """What the manifest follows from: every aggregator computes it. The coordinator forwards all
    signed sets, in a proved round all verdicts (and no sets, or those that were verified). It gives
    its own manifest, or what it knows alone, the `salt`, with the manifest's hash."""

    manifest: Manifest | None = None
    salt: Hash | None = None
    manifest_hash: Hash | None = None
    accepted: tuple[Signed[AcceptedSet], ...]
    verdicts: tuple[Signed[Verdict], ...] | None = None

    @model_validator(mode="after")
    def _one_manifest(self) -> ManifestRequest:
        given = {self.manifest is None, self.salt is not None, self.manifest_hash is not None}
        require(len(given) == 1, None, "either a manifest, or a salt and the manifest's hash")
        return self


class Commitment(WireModel):
    """A hash that binds an aggregator to its partial sum before it sees the others'. `offset`: of a
    proved round's total, per coordinate, in ring units; it follows from the manifest."""

    round: RoundId
    descriptor_hash: Hash
    manifest_hash: Hash
    aggregator: Identifier
    hash: Hash
    offset: tuple[WholeNumber, ...] | None = None


class RevealRequest(WireModel):
    """The commitments of the manifest's whole quorum."""

    commitments: tuple[Signed[Commitment], ...]


class Reveal(WireModel):
    """A partial sum: d ring words (in proved rounds field elements of 8 or 16 bytes),
    little-endian, and the nonce of its commitment."""

    aggregator: Identifier
    nonce: Annotated[Binary, Field(min_length=32, max_length=32)]
    partial: Binary


class FreezeRequest(WireModel):
    """Freeze once pieces of `accepted` curators are held, within `wait_s`; without it, now."""

    accepted: Annotated[int, Field(ge=1, le=MAX_CURATORS)]
    wait_s: Annotated[float, Field(ge=0, le=30)] = 0


class AbortRequest(WireModel):
    reason: Annotated[str, Field(min_length=1, max_length=256)]


class Frozen(StrEnum):
    """Whether an aggregator had signed a round's accepted set. `maybe`: as after a restore from a
    backup."""

    NEVER = "never"
    MAYBE = "maybe"
    YES = "yes"


class AbortStatement(WireModel):
    """An aggregator's word that a round is over without a sum; `frozen` tells whether it had
    signed an accepted set before, or may have, in rounds of format 1 as one truth value. A
    statement "never frozen" may earn a credit."""

    round: RoundId
    descriptor_hash: Hash
    aggregator: Identifier
    frozen: bool | Frozen
    reason: str


class RefusalGround(StrEnum):
    """Why curators refuse a round, as far as a coordinator is told. Nothing here depends on
    readings; what depends on a curator's own ledger or past is `own`, whichever it is."""

    POLICY = "policy"
    DESCRIPTOR = "descriptor"
    OWN = "own"


class Awaited(WireModel):
    """Curators of a round that may deliver yet: a bitmap over its roster."""

    members: Annotated[Binary, Field(max_length=MAX_CURATORS // 8 + 1)]


class Refusal(WireModel):
    """Which of its curators a party keeps out of a round: a bitmap in the order of its run of
    numbers, and how many on each ground."""

    members: Annotated[Binary, Field(max_length=MAX_CURATORS // 8)]
    grounds: Annotated[dict[RefusalGround, Annotated[int, Field(ge=1)]], Field(min_length=1)]


class Transcript(WireModel):
    """What anyone needs to check a released sum. The manifest's members are for the parties: here
    is their salted hash, from which a verifier computes the manifest's hash itself, so that quorum,
    participants and contributions are those that every aggregator committed to.

    Format 1, of an earlier version, gives the manifest's hash instead, which binds none of these.
    """

    format: Literal["tacit.transcript/1", "tacit.transcript/2"] = "tacit.transcript/2"
    descriptor: Signed[RoundDescriptor]
    manifest_hash: Hash | None = None
    members_hash: Hash | None = None
    quorum: tuple[Annotated[int, Field(ge=0, lt=MAX_AGGREGATORS)], ...]
    participants: Annotated[int, Field(ge=0, lt=2**32)]
    contributions: tuple[Annotated[int, Field(ge=0, lt=MAX_AGGREGATORS)], ...]
    commitments: tuple[Signed[Commitment], ...]
    reveals: tuple[Reveal, ...]

    @model_validator(mode="after")
    def _one_hash(self) -> Transcript:
        first = self.format == "tacit.transcript/1"
        fits = (self.manifest_hash is not None, self.members_hash is not None) == (first, not first)
        require(fits, None, "manifest_hash in format 1, members_hash in format 2")
        return self


class ItemAnswer(WireModel):
    """The answer to one item of a bulk upload. `status` as if it had come alone; `included`, once
    the round takes nothing more: whether this very piece is in."""

    index: int
    status: int
    problem: str | None = None
    detail: str | None = None
    included: bool | None = None
