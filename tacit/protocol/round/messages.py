"""Messages of a round: accepted sets, verdicts of proved rounds, manifest, commitments, reveals and
the transcript.

Spec: aggregation, section 6; validity, section 10.

What the coordinator and an aggregator exchange besides the messages of a round: steps of many
rounds in one request, and hourly counts of uploads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final, Literal

import numpy as np
from pydantic import Field, StringConstraints, model_validator

from tacit import sets
from tacit.crypto.sealing import Span
from tacit.crypto.signing import Signed
from tacit.protocol.round.descriptor import Hash, RoundDescriptor, RoundId
from tacit.protocol.sealing_sessions import Session, SessionId
from tacit.query.terms import LONGEST_PART, MAX_AGGREGATORS, MAX_CURATORS, Identifier
from tacit.sets import Bits
from tacit.wire import Binary, Instant, KeptModel, WireModel, require

ONLY_PART = 0
"""The number of a host's part in proved rounds: roster number and segment alone say which curators
make one part. With parts of its choice a host could prove one curator at a time, each with the
largest noise. Spec: validity, section 9."""
ACCEPTED_LABEL = "tacit accepted set v1"
PROVED_SET_LABEL = "tacit proved set v1"


class ProvedPart(WireModel):
    """A host's part of a proved round: one contribution for all curators in `presence`, a bitmap
    over `first`..`first + length - 1`. Empty: all of them, as in most parts. The part is counted
    or refused as a whole."""

    segment: Annotated[int, Field(ge=0, lt=2**32)]
    first: Annotated[int, Field(ge=0, lt=2**32)]
    length: Annotated[int, Field(ge=1, le=LONGEST_PART)]
    part: Annotated[int, Field(ge=0, lt=2**32)]
    presence: Annotated[Binary, Field(max_length=LONGEST_PART // 8)]

    @classmethod
    def of(cls, span: Span, part: int, bitmap: bytes) -> ProvedPart:
        """The part of a span, in its shortest form; one boolean per number in the bitmap."""
        is_full = sets.count(bitmap) == span.length
        return cls(
            segment=span.segment,
            first=span.first,
            length=span.length,
            part=part,
            presence=b"" if is_full else bitmap,
        )

    @property
    def place(self) -> tuple[int, int, int, int]:
        """Which part it is, whichever curators are in it."""
        return self.segment, self.first, self.length, self.part

    @property
    def present(self) -> Bits:
        """Which numbers of the span the part has, (length,). Raises ValueError for no bitmap of
        at least one curator."""
        if not self.presence:
            return np.ones(self.length, np.bool_)
        present_bits = sets.unpack(self.presence, self.length)
        if not present_bits.any():
            raise ValueError("a part without curators")
        return present_bits

    @property
    def order(self) -> tuple[int, int, int, int, bytes]:
        """By what lists of parts are sorted."""
        return self.segment, self.first, self.length, self.part, self.presence

    @property
    def curators(self) -> int:
        """n': of how many curators it is."""
        return sets.count(self.presence) if self.presence else self.length


class AcceptedSet(WireModel):
    """Whose pieces an aggregator has at the freeze, and whose noise contributions (aggregator
    indices).

    Declared rounds: `members`, a bitmap over roster numbers. Proved rounds: `parts` of hosts,
    sorted, and `lone`, a compressed bitmap of all others.
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
        require((self.lone is None) == (self.parts is None), None, "lone goes with parts")
        return self

    def held(self, size: int) -> bytes:
        """All curators of the set, a bitmap over `size` numbers. Raises ValueError if it is
        malformed."""
        if self.lone is None:
            return self.members or b""
        held_bits = sets.unpack(sets.decompressed(self.lone, size), size).copy()
        for part in self.parts or ():
            held_bits[part.first : part.first + part.length] |= part.present
        return sets.pack(held_bits)


class FreezeRequest(WireModel):
    """Freeze once pieces of `accepted` curators have arrived, within `wait_s`; without it, now.

    `salt`, `manifest_hash`: of the manifest that the coordinator expects, with all aggregators
    as the quorum. An aggregator whose pieces give the same manifest commits to it immediately.
    """

    accepted: Annotated[int, Field(ge=1, le=MAX_CURATORS)]
    wait_s: Annotated[float, Field(ge=0, le=30)] = 0
    salt: Hash | None = None
    manifest_hash: Hash | None = None


# Messages between aggregators of a proved round (spec: validity, sections 7 and 10).

VERIFICATION_LABEL = "tacit verification v1"
VERDICT_LABEL = "tacit verdict v1"


class SealedKeyShare(WireModel):
    """An aggregator's share of a proved round's verify key, sealed to another aggregator. Spec:
    validity, section 7."""

    sender: Identifier
    receiver: Identifier
    session: SessionId | None = None
    announce: Signed[Session] | None = None
    nonce: Annotated[Binary, Field(min_length=12, max_length=12)]
    sealed: Annotated[Binary, Field(min_length=48, max_length=48)]


class RelayedKeyShares(WireModel):
    """The shares of all other aggregators for one aggregator, as the coordinator relays them."""

    shares: Annotated[tuple[SealedKeyShare, ...], Field(max_length=MAX_AGGREGATORS)]


class KeyCheck(WireModel):
    """An aggregator's fingerprint of a round's verify key: equal keys have equal fingerprints."""

    round: RoundId
    descriptor_hash: Hash
    key_check: Hash


class VerificationRequest(WireModel):
    """The signed accepted sets of all aggregators, from which each computes the candidates."""

    accepted: tuple[Signed[AcceptedSet], ...]


class Verification(WireModel):
    """An aggregator's commitment to its verifier shares, before it sees those of others.

    `items`: how many contributions are candidates; `shares_hash`: SHA-256 of all its shares in
    their order.
    """

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
    """The answer to a verification; `shares`: its sealed verifier shares, if they are one short
    chunk. Longer ones are fetched separately."""

    verification: Signed[Verification]
    shares: Annotated[Binary, Field(max_length=SHORT_SHARES)] | None = None


class VerdictRequest(WireModel):
    """The signed verifications of all aggregators. `shares`: by index, the one short chunk of
    each aggregator whose verifier shares were not relayed before; or none at all."""

    verifications: tuple[Signed[Verification], ...]
    shares: Annotated[
        tuple[Annotated[Binary, Field(max_length=SHORT_SHARES)] | None, ...],
        Field(max_length=MAX_AGGREGATORS),
    ] = ()


REFUSED_BY_PROOF: Final = (
    "refused by the proof: its software is faulty, it lies, or an aggregator does"
)
"""The words for a curator whose contribution was not counted, for parties and reports."""


class ProofReason(StrEnum):
    """Why an aggregator does not count a contribution."""

    PROOF = "proof"
    JOINT_RANDOMNESS = "joint_randomness"
    POINT = "point"


class Verdict(WireModel):
    """Which candidates an aggregator refuses, and on the basis of which verifier shares; it counts
    all others.

    `shares_hashes`: by index. `reasons`: a bitmap over the candidates, in their order, of those
    refused.
    """

    round: RoundId
    descriptor_hash: Hash
    aggregator: Identifier
    candidates_hash: Hash
    shares_hashes: tuple[Hash, ...]
    reasons: dict[ProofReason, Binary]


# Manifest, commitments, reveals, and the transcript with all of them (spec: aggregation, section
# 6).

WholeNumber = Annotated[str, Field(pattern=r"^(0|-?[1-9][0-9]{0,38})$", examples=["-12"])]
"""A whole number in decimal digits, which JSON readers take for no float."""

COMMITMENT_LABEL = "tacit commitment v1"


class Manifest(WireModel):
    """What is summed: the quorum (indices) and the intersection of its accepted sets.

    `salt`: drawn by the coordinator and known to the parties only. Without it an outsider with a
    transcript could test guesses of who participated. `parts`: in proved rounds those of hosts
    that are counted.
    """

    round: RoundId
    descriptor_hash: Hash
    quorum: tuple[int, ...]
    members: Binary
    count: Annotated[int, Field(ge=0)]
    contributions: tuple[int, ...]
    salt: Hash
    parts: tuple[ProvedPart, ...] | None = None


class ManifestRequest(WireModel):
    """What every aggregator needs to compute the manifest.

    The coordinator forwards all signed sets; in a proved round all verdicts (and no sets, or
    those that were verified). It adds the `salt`, which only the coordinator knows, and the
    manifest's hash.
    """

    salt: Hash
    manifest_hash: Hash
    accepted: tuple[Signed[AcceptedSet], ...]
    verdicts: tuple[Signed[Verdict], ...] | None = None


class Commitment(KeptModel):
    """A hash that binds an aggregator to its partial sum before it sees those of others.
    `offset`: of a proved round's total, per coordinate, in ring units; it follows from the
    manifest."""

    round: RoundId
    descriptor_hash: Hash
    manifest_hash: Hash
    aggregator: Identifier
    hash: Hash
    offset: tuple[WholeNumber, ...] | None = None

    def canonical(self) -> bytes:
        """The bytes that its signature covers; kept but for one with an offset, which is long."""
        return super().canonical() if self.offset is None else WireModel.canonical(self)

    def digest(self) -> bytes:
        """SHA-256 of the canonical form, 32 bytes."""
        return super().digest() if self.offset is None else WireModel.digest(self)


class RevealRequest(WireModel):
    """The commitments of the manifest's whole quorum."""

    commitments: tuple[Signed[Commitment], ...]


class Reveal(WireModel):
    """A partial sum: d ring words (in proved rounds field elements of 8 or 16 bytes),
    little-endian, and the nonce of its commitment."""

    aggregator: Identifier
    nonce: Annotated[Binary, Field(min_length=32, max_length=32)]
    partial: Binary


class Transcript(WireModel):
    """What anyone needs to check a released sum.

    The manifest's members are known to the parties only. The transcript has their salted hash,
    from which a verifier computes the manifest's hash, so that quorum, number of participants
    and noise contributions are those to which every aggregator committed.
    """

    format: Literal["tacit.transcript/1"] = "tacit.transcript/1"
    descriptor: Signed[RoundDescriptor]
    members_hash: Hash
    quorum: tuple[Annotated[int, Field(ge=0, lt=MAX_AGGREGATORS)], ...]
    participants: Annotated[int, Field(ge=0, lt=2**32)]
    contributions: tuple[Annotated[int, Field(ge=0, lt=MAX_AGGREGATORS)], ...]
    commitments: tuple[Signed[Commitment], ...]
    reveals: tuple[Reveal, ...]


MOST_STEPS: Final = 256


class StepName(StrEnum):
    """A step, named as the route that does it alone."""

    OPEN = "open"
    CONTRIBUTE = "contribute"
    KEYS = "keys"
    MISSING = "missing"
    FREEZE = "freeze"
    VERIFICATION = "verification"
    VERDICT = "verdict"
    COMMIT = "commit"
    REVEAL = "reveal"


class Step(WireModel):
    """One step of one round. `body`: the JSON that its own route accepts, as text."""

    name: StepName
    round: RoundId
    body: str = ""


class Steps(WireModel):
    """Steps of different rounds, in any order."""

    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=MOST_STEPS)]


class StepAnswer(WireModel):
    """What the step's own route answers: HTTP status, and JSON or problem+json as text."""

    status: Annotated[int, Field(ge=200, le=599)]
    body: str


class StepAnswers(WireModel):
    """The answers, in the order of the steps."""

    answers: tuple[StepAnswer, ...]


# Counts of uploads at an aggregator by hour, none below five (spec: console, section 7). An hour is
# reported once, when it is over, so that no second report shows what one more upload changed.
# Uploads are counted, not curators: a batch is one, and a retry is counted again.

HOUR: Final = timedelta(hours=1)
KEPT: Final = timedelta(days=31)
"""How long counts are kept."""
LEAST: Final = 5
"""The smallest count that is reported by name."""
OTHER: Final = "other"
"""The name of smaller counts together, if they are as large."""

Form = Literal["lone", "batch"]
Outcome = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
"""`stored`, `known`, the name of a problem, or `other`."""


class FlowHour(WireModel):
    """One hour's uploads of one form, by outcome."""

    hour: Instant
    form: Form
    outcomes: Annotated[
        dict[Outcome, Annotated[int, Field(ge=LEAST, lt=1 << 53)]], Field(max_length=256)
    ]


class Flow(WireModel):
    """The requested hours that are over; `until`: the end of the last one."""

    until: Instant
    hours: Annotated[tuple[FlowHour, ...], Field(max_length=2 * (int(KEPT / HOUR) + 1))]


def hour_of(at: datetime) -> datetime:
    """When the hour of an instant began."""
    return at.replace(minute=0, second=0, microsecond=0)


def reported(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts that may be reported: counts below `LEAST` are added up, and their sum is
    reported unless it is below `LEAST` too."""
    named = {name: count for name, count in counts.items() if count >= LEAST and name != OTHER}
    rest = sum(counts.values()) - sum(named.values())
    return named | ({OTHER: rest} if rest >= LEAST else {})


def totals(hours: Iterable[FlowHour], form: Form) -> dict[str, int]:
    """The reported counts of a form, summed over hours."""
    counts: Counter[str] = Counter()
    for hour in hours:
        if hour.form == form:
            counts.update(hour.outcomes)
    return dict(counts)
