"""What is summed and how it is opened: manifest, commitments, reveals, and the transcript of all.

Spec: aggregation, section 6.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tacit.crypto.signing import Signed
from tacit.protocol.round.accepted import AcceptedSet, ProvedPart
from tacit.protocol.round.descriptor import Hash, RoundDescriptor, RoundId
from tacit.protocol.round.verdicts import Verdict
from tacit.query.words import MAX_AGGREGATORS, Identifier
from tacit.wire import Binary, WireModel

WholeNumber = Annotated[str, Field(pattern=r"^(0|-?[1-9][0-9]{0,38})$")]
"""A whole number in decimal digits, which JSON readers take for no float."""

COMMITMENT_LABEL = "tacit commitment v1"


class Manifest(WireModel):
    """What is summed: the quorum (indices) and the intersection of its accepted sets.

    `salt`: drawn by the coordinator and known to the parties only. Without it an outsider who holds
    a transcript could try guesses of who took part.
    `parts`: in proved rounds those of hosts that are counted.
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
    """What the manifest follows from: every aggregator computes it. The coordinator forwards all
    signed sets, in a proved round all verdicts (and no sets, or those that were verified). It gives
    what it knows alone, the `salt`, with the manifest's hash."""

    salt: Hash
    manifest_hash: Hash
    accepted: tuple[Signed[AcceptedSet], ...]
    verdicts: tuple[Signed[Verdict], ...] | None = None


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


class Transcript(WireModel):
    """What anyone needs to check a released sum. The manifest's members are for the parties: here
    is their salted hash, from which a verifier computes the manifest's hash itself, so that quorum,
    participants and contributions are those that every aggregator committed to.
    """

    format: Literal["tacit.transcript/1"] = "tacit.transcript/1"
    descriptor: Signed[RoundDescriptor]
    members_hash: Hash
    quorum: tuple[Annotated[int, Field(ge=0, lt=MAX_AGGREGATORS)], ...]
    participants: Annotated[int, Field(ge=0, lt=2**32)]
    contributions: tuple[Annotated[int, Field(ge=0, lt=MAX_AGGREGATORS)], ...]
    commitments: tuple[Signed[Commitment], ...]
    reveals: tuple[Reveal, ...]
