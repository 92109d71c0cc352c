"""The trust file of identities that a verifier received out of band, and signatures that stay valid
for years.

Spec: keys, section 6.1. A verifier fills the file from a join token, or from the fingerprints that
each operator reads out. Without it the aggregators of a round are those that the coordinator names,
and it could name invented ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from tacit.crypto.sealing import length_prefixed
from tacit.crypto.signing import SignatureStripped, Signed, fingerprint, verify_hybrid
from tacit.errors import Forbidden
from tacit.protocol.identities import (
    CLOCKS_DIFFER,
    Anchored,
    IdentityChain,
    IdentityDocument,
    KeyNotAnchored,
    Pin,
    Reason,
    Role,
    SignedDocument,
    check_document,
)
from tacit.protocol.round.descriptor import AggregatorEntry, RoundDescriptor
from tacit.protocol.round.messages import Transcript
from tacit.protocol.sealing_sessions import SealKeyStatement
from tacit.query.terms import Identifier
from tacit.wire import Binary, Instant, WireModel, require

HexFingerprint = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", examples=["0" * 64])]
"""SHA-256 of an identity key, as operators read it out."""

MOST_FINGERPRINTS = 64
MOST_AGGREGATORS = 256


_ANCHORS_LABEL = b"tacit anchors v1"
_GROUPS, _GROUP_BYTES = 8, 2


def anchors_line(deployment: str, coordinator: bytes, aggregators: Mapping[str, bytes]) -> str:
    """The line by which people compare all anchors: eight groups of four digits. Fingerprints of 32
    bytes. Spec: keys, section 7.

    A verifier with invented anchors sees a line that differs from the published one.
    """
    fields = [_ANCHORS_LABEL, deployment.encode(), coordinator]
    for name in sorted(aggregators):
        fields += [name.encode(), aggregators[name]]
    digest = hashlib.sha256(length_prefixed(*fields)).digest()
    starts = range(0, _GROUPS * _GROUP_BYTES, _GROUP_BYTES)
    return " ".join(digest[start : start + _GROUP_BYTES].hex() for start in starts)


def _followed(
    deployment: str,
    pinned: Sequence[str],
    chain: IdentityChain,
    now: datetime,
    role: Role,
    name: str,
) -> Anchored:
    """What leads on from the earliest document of which the key is pinned."""
    for signed in chain.documents:
        key = fingerprint(signed.statement.ed25519)
        if key.hex() in pinned:
            anchored = Pin(fingerprint=key).follow(deployment, chain, now, role, name).anchored
            assert anchored is not None
            return anchored
    raise KeyNotAnchored(f"no identity that {name} shows is pinned")


class TranscriptNotAnchored(Forbidden):
    name = "transcript_not_anchored"
    title = "The transcript depends on an identity that the trust file does not have"


class Pinned(WireModel):
    """One identity of an aggregator, for rounds opened in [from, until)."""

    fingerprint: HexFingerprint
    since: Instant | None = Field(None, alias="from")
    until: Instant | None = None
    compromised: bool = False

    def holds(self, opened: datetime) -> bool:
        """Whether a round that was opened then may rest on it."""
        begun = self.since is None or self.since <= opened
        return not self.compromised and begun and (self.until is None or opened < self.until)


class TrustedAggregator(WireModel):
    """An aggregator by name; `operator` where the verifier knows who runs it."""

    id: Identifier
    operator: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    fingerprints: Annotated[tuple[Pinned, ...], Field(max_length=MOST_FINGERPRINTS)] = ()


class Trust(WireModel):
    """Who is who in one deployment, as the verifier learned it out of band."""

    format: Literal["tacit.trust/1"] = "tacit.trust/1"
    deployment: Identifier
    coordinator: Annotated[
        tuple[HexFingerprint, ...], Field(min_length=1, max_length=MOST_FINGERPRINTS)
    ]
    aggregators: Annotated[tuple[TrustedAggregator, ...], Field(max_length=MOST_AGGREGATORS)] = ()

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        """Of two entries one would be overlooked, with what it marks as stolen."""
        ids = [item.id for item in self.aggregators]
        require(len(set(ids)) == len(ids), None, "an aggregator is listed twice")
        pins = [pin.fingerprint for item in self.aggregators for pin in item.fingerprints]
        require(len(set(pins)) == len(pins), None, "a fingerprint is pinned twice")
        return self

    def named(self, name: str) -> TrustedAggregator:
        """An aggregator; a new one without fingerprints if it is not there."""
        matching = (item for item in self.aggregators if item.id == name)
        return next(matching, TrustedAggregator(id=name))

    def pinning(self, name: str, pinned: str, operator: str | None = None) -> Self:
        """With one more fingerprint of an aggregator. Raises ValueError for a different
        operator, and for an identity that is marked as stolen."""
        aggregator = self.named(name)
        if any(item.compromised and item.fingerprint == pinned for item in aggregator.fingerprints):
            raise ValueError(f"this identity of {name} is marked as stolen")
        if None not in (aggregator.operator, operator) and aggregator.operator != operator:
            raise ValueError(f"{name} is run by {aggregator.operator}, not by {operator}")
        pins = {item.fingerprint: item for item in aggregator.fingerprints}
        pins.setdefault(pinned, Pinned(fingerprint=pinned))
        return self.replacing(
            TrustedAggregator(
                id=name, operator=operator or aggregator.operator, fingerprints=tuple(pins.values())
            )
        )

    def pinning_coordinator(self, pinned: str) -> Self:
        """With one more fingerprint of the coordinator."""
        pins = dict.fromkeys((*self.coordinator, pinned))
        return self._with(coordinator=tuple(pins))

    def compromising(self, name: str, pinned: str) -> Self:
        """With one fingerprint marked as stolen: no round that depends on it is accepted. Raises
        ValueError."""
        aggregator = self.named(name)
        if pinned not in {item.fingerprint for item in aggregator.fingerprints}:
            raise ValueError(f"{name} has no such fingerprint")
        marked = tuple(
            item.model_copy(update={"compromised": True}) if item.fingerprint == pinned else item
            for item in aggregator.fingerprints
        )
        return self.replacing(aggregator.model_copy(update={"fingerprints": marked}))

    def following(self, name: str, chain: IdentityChain, now: datetime) -> Self:
        """With the successors of a pinned identity of an aggregator.

        Each later key counts from its succession on, each earlier one until its overlap ended;
        or it is marked as stolen. Raises KeyNotAnchored if none of its identities is pinned, and
        as `Pin.follow`.
        """
        aggregator = self.named(name)
        pins = {item.fingerprint: item for item in aggregator.fingerprints}
        anchored = _followed(self.deployment, list(pins), chain, now, Role.AGGREGATOR, name)
        since: datetime | None = None
        ends = (*anchored.links, None)
        for document, link in zip(anchored.documents, ends, strict=False):
            key = fingerprint(document.ed25519).hex()
            pin = pins.get(key, Pinned(fingerprint=key, since=since))
            if link is not None:
                stolen = pin.compromised or link.statement.reason is Reason.COMPROMISED
                until = link.statement.overlap_until
                pin = pin.model_copy(update={"until": until, "compromised": stolen})
                since = link.statement.effective - CLOCKS_DIFFER
            pins[key] = pin
        return self.replacing(aggregator.model_copy(update={"fingerprints": tuple(pins.values())}))

    def following_coordinator(self, chain: IdentityChain, now: datetime) -> Self:
        """The same for the coordinator; an identity of it that was stolen is no longer pinned."""
        name = self.deployment
        anchored = _followed(name, self.coordinator, chain, now, Role.COORDINATOR, name)
        pins = dict.fromkeys(self.coordinator)
        ends = (*anchored.links, None)
        for document, link in zip(anchored.documents, ends, strict=False):
            key = fingerprint(document.ed25519).hex()
            pins[key] = None
            if link is not None and link.statement.reason is Reason.COMPROMISED:
                del pins[key]
        return self._with(coordinator=tuple(pins))

    def replacing(self, aggregator: TrustedAggregator) -> Self:
        """With one aggregator in place of the one of its name."""
        others = {item.id: item for item in self.aggregators} | {aggregator.id: aggregator}
        return self._with(aggregators=tuple(others.values()))

    def _with(self, **changes: Any) -> Self:
        """With some fields changed and validated, so that what is written can be read. Raises
        ValueError."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self)(**{**fields, **changes})

    def check(self, descriptor: RoundDescriptor, coordinator_key: bytes) -> tuple[str, ...]:
        """The aggregators whose operator the file does not name, so that only the round states it.

        *Every* aggregator of the descriptor must be pinned, not only the quorum: genuine
        aggregators among invented ones would give a right sum, but no secrecy. Raises
        TranscriptNotAnchored.
        """
        if descriptor.deployment != self.deployment:
            raise TranscriptNotAnchored(
                f"the round is of deployment {descriptor.deployment}, the trust file of another"
            )
        if fingerprint(coordinator_key).hex() not in self.coordinator:
            raise TranscriptNotAnchored("the coordinator shows an identity that is not pinned")
        for entry in descriptor.aggregators:
            trusted = self.named(entry.id)
            holding = [item for item in trusted.fingerprints if item.holds(descriptor.opened)]
            if entry.fingerprint.hex() not in {item.fingerprint for item in holding}:
                raise TranscriptNotAnchored(
                    f"aggregator {entry.id} shows an identity that is not pinned for this round"
                )
            if trusted.operator not in (None, entry.operator):
                raise TranscriptNotAnchored(
                    f"the round says that {entry.operator} operates {entry.id}, the trust file not"
                )
        unnamed = (item.id for item in descriptor.aggregators)
        return tuple(name for name in unnamed if self.named(name).operator is None)


class Anchors(WireModel):
    """What a curator service records of a round that it answered: which round it was, the key of
    its coordinator, and the identities that received the answer."""

    descriptor_hash: Binary
    coordinator_key: Binary
    trust: Trust


# Signatures that stay valid for years: of seal keys, transcripts and ledgers' heads (spec: keys,
# section 4). Short-lived statements are signed with Ed25519 alone; here ML-DSA-65 signs, too. The
# key is that of the identity's document, which comes with the seal: a verifier that keeps the
# document's fingerprint need not trust anything that is signed with Ed25519 alone.

LASTING_SEAL_KEY_LABEL: Final = "tacit lasting seal key v1"
TRANSCRIPT_SEAL_LABEL: Final = "tacit transcript seal v1"
LEDGER_SEAL_LABEL: Final = "tacit ledger seal v1"

Hash = Annotated[Binary, Field(min_length=32, max_length=32)]


class SealRefused(Forbidden):
    name = "seal_refused"
    title = "The seal is not of this transcript or key, or not by this identity"


class TranscriptSeal(WireModel):
    """An aggregator of the quorum has recomputed the transcript with this hash, at this time."""

    format: Literal["tacit.transcript-seal/1"] = "tacit.transcript-seal/1"
    round: str
    transcript: Hash
    time: Instant


class ShownSeal(WireModel):
    """A seal, with the document of the identity that made it."""

    aggregator: Identifier
    document: SignedDocument
    seal: Signed[TranscriptSeal]


class LedgerSeal(WireModel):
    """A coordinator's ledger had this head, after this many rows, at this time."""

    format: Literal["tacit.ledger-seal/1"] = "tacit.ledger-seal/1"
    deployment: Identifier
    rows: Annotated[int, Field(ge=0)]
    head: Hash
    time: Instant


class ShownLedgerSeal(WireModel):
    """A seal, with the document of the identity that made it."""

    document: SignedDocument
    seal: Signed[LedgerSeal]


def check_lasting(
    signed: Signed[SealKeyStatement], entry: AggregatorEntry, documents: Sequence[IdentityDocument]
) -> None:
    """Raise SealRefused unless both keys of an anchored document signed the seal key of a
    round's entry. `documents`: those that were followed from the pinned one."""
    matching = [document for document in documents if document.ed25519 == entry.identity_key]
    if signed.statement != entry.seal or not matching:
        raise SealRefused(f"{entry.id}: another seal key, or an identity without a document")
    try:
        verify_hybrid(LASTING_SEAL_KEY_LABEL, signed, matching[0].key)
    except SignatureStripped as error:
        raise SealRefused(f"{entry.id}: {error.detail}") from None


def check_seal(transcript: Transcript, shown: ShownSeal) -> bytes:
    """The fingerprint of the document behind a seal of this transcript, to compare with a stored
    one. Raises SealRefused."""
    descriptor = transcript.descriptor.statement
    quorum = [descriptor.aggregators[index] for index in transcript.quorum]
    entry = next(
        (entry_of_quorum for entry_of_quorum in quorum if entry_of_quorum.id == shown.aggregator),
        None,
    )
    document = shown.document.statement
    if entry is None or (document.role, document.name) != (Role.AGGREGATOR, entry.id):
        raise SealRefused(f"{shown.aggregator} is no aggregator of the quorum")
    said = shown.seal.statement
    if (said.round, said.transcript) != (descriptor.round, transcript.digest()):
        raise SealRefused(f"{entry.id} sealed another transcript")
    if document.ed25519 != entry.identity_key:
        raise SealRefused(f"{entry.id} sealed by another identity than the round names")
    try:
        check_document(shown.document)
        verify_hybrid(TRANSCRIPT_SEAL_LABEL, shown.seal, document.key)
    except SignatureStripped as error:
        raise SealRefused(f"{entry.id}: {error.detail}") from None
    return document.fingerprint


def check_ledger_seal(shown: ShownLedgerSeal) -> bytes:
    """The fingerprint of the document behind a seal of a ledger's head, to compare with a stored
    one. Raises SealRefused."""
    document = shown.document.statement
    said = shown.seal.statement
    if (document.role, document.name) != (Role.COORDINATOR, said.deployment):
        raise SealRefused("the identity is not that of the deployment's coordinator")
    try:
        check_document(shown.document)
        verify_hybrid(LEDGER_SEAL_LABEL, shown.seal, document.key)
    except SignatureStripped as error:
        raise SealRefused(error.detail) from None
    return document.fingerprint
