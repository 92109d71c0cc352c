"""What a service shows and is asked of its own identity: its chain, the commitment to the next pair
of keys, and its replacement.

Spec: keys, sections 5.1 and 5.2. The private halves of the next pair stay with the operator, where
the service is not, until they are needed.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from common.store.identities import OwnIdentity, Replacement, commit_next
from common.store.own_identities import OwnIdentities
from tacit.crypto.signing import SECRET_BYTES, HybridIdentity, HybridPublicKey, fingerprint
from tacit.errors import Invalid, NotFound
from tacit.protocol.enrolment import Fingerprint
from tacit.protocol.identities import (
    LONGEST_OVERLAP,
    IdentityChain,
    IdentityDocument,
    Reason,
    Role,
)
from tacit.wire import Binary, Instant, WireModel, encode_binary


class NoIdentityDocument(NotFound):
    name = "no_identity_document"
    title = "The identity has no document: no next key was committed to"


class IdentityAnswer(WireModel):
    """The current identity. `fingerprint`: of its document, in hex, as people compare it;
    `key_fingerprint`: of its Ed25519 key, which pairings and join tokens name."""

    serial: int
    fingerprint: str
    key_fingerprint: str
    next: str


class ConfirmationRequest(WireModel):
    """The fingerprint of an identity document, as a person compared it out of band."""

    fingerprint: Fingerprint


class SuccessorRequest(WireModel):
    """The next pair, with its private halves, and the public halves of the pair after it.
    `compromised`: the old identity is refused immediately, and its rounds abort; otherwise it is
    accepted for `overlap_s` seconds more."""

    secret: Annotated[Binary, Field(min_length=SECRET_BYTES, max_length=SECRET_BYTES, repr=False)]
    following: HybridPublicKey
    compromised: bool = False
    overlap_s: Annotated[int, Field(ge=0, le=int(LONGEST_OVERLAP.total_seconds()))] = 604_800

    def replacement(self) -> Replacement:
        """What to store. Raises Invalid if the pair would follow itself."""
        successor = HybridIdentity(self.secret)
        if successor.public == self.following:
            raise Invalid("is the pair that becomes the identity now", pointer="/following")
        reason = Reason.COMPROMISED if self.compromised else Reason.PLANNED
        overlap = timedelta() if self.compromised else timedelta(seconds=self.overlap_s)
        return Replacement(successor, self.following, reason, overlap)


class RevocationRequest(WireModel):
    """The next pair, with its private halves: the identity ends immediately, without a
    successor. `compromised`: a thief may have signed earlier statements."""

    secret: Annotated[Binary, Field(min_length=SECRET_BYTES, max_length=SECRET_BYTES, repr=False)]
    compromised: bool = False

    @property
    def reason(self) -> Reason:
        """As the link says it."""
        return Reason.COMPROMISED if self.compromised else Reason.PLANNED


class RevocationAnswer(WireModel):
    """The fingerprint of the document that was revoked, in hex; since when."""

    fingerprint: str
    effective: Instant


def revoked_answer(ended: OwnIdentity) -> RevocationAnswer:
    """What its operator sees of a revocation."""
    assert ended.link is not None
    said = ended.link.statement
    return RevocationAnswer(fingerprint=said.replaced.hex(), effective=said.effective)


async def shown(identities: OwnIdentities) -> IdentityChain:
    """All documents and links. Raises NoIdentityDocument."""
    await identities.load()
    if identities.chain is None:
        raise NoIdentityDocument
    return identities.chain


async def commit(
    identities: OwnIdentities, role: Role, name: str, following: HybridPublicKey
) -> IdentityAnswer:
    """Commit to the next pair; a repetition changes nothing. Raises NextKeyCommitted."""
    async with identities.database.begin() as transaction:
        signed = await commit_next(transaction, identities.table, role, name, following)
    await identities.load()
    return answer_of(signed.statement)


def answer_of(document: IdentityDocument) -> IdentityAnswer:
    """What its operator learns about an identity that commits to a next one."""
    assert document.next is not None
    return IdentityAnswer(
        serial=document.serial,
        fingerprint=document.fingerprint.hex(),
        key_fingerprint=fingerprint(document.ed25519).hex(),
        next=encode_binary(document.next),
    )
