"""Signatures that are believed for years: of seal keys, of transcripts, and of ledgers' heads.

Spec: keys, section 4. What is believed for hours is signed with Ed25519 alone; here ML-DSA-65
signs, too. The key is that of the identity's document, which is shown beside the seal: who keeps
the document's fingerprint needs to believe nothing that is signed with Ed25519 alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from pydantic import Field

from tacit.crypto.hybrid_signing import SignatureStripped, verify_hybrid
from tacit.crypto.signing import Signed
from tacit.errors import Forbidden
from tacit.protocol.identities import IdentityDocument, Role, SignedDocument, check_document
from tacit.protocol.round.descriptor import AggregatorEntry
from tacit.protocol.round.transcript import Transcript
from tacit.protocol.sessions import SealKeyStatement
from tacit.query.words import Identifier
from tacit.wire import Binary, Instant, WireModel

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
    """Raise SealRefused unless both keys of a document that is anchored signed the seal key of a
    round's entry. `documents`: those that were followed from what was pinned."""
    known = [each for each in documents if each.ed25519 == entry.identity_key]
    if signed.statement != entry.seal or not known:
        raise SealRefused(f"{entry.id}: another seal key, or an identity without a document")
    try:
        verify_hybrid(LASTING_SEAL_KEY_LABEL, signed, known[0].key)
    except SignatureStripped as error:
        raise SealRefused(f"{entry.id}: {error.detail}") from None


def check_seal(transcript: Transcript, shown: ShownSeal) -> bytes:
    """The fingerprint of the document behind a seal of this transcript, to be compared with one
    that was kept. Raises SealRefused."""
    descriptor = transcript.descriptor.statement
    quorum = [descriptor.aggregators[index] for index in transcript.quorum]
    entry = next((each for each in quorum if each.id == shown.aggregator), None)
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
    """The fingerprint of the document behind a seal of a ledger's head, to be compared with one
    that was kept. Raises SealRefused."""
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
