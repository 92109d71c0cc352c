"""Identities that can be replaced: documents, successions, and the chain that they make.

Spec: keys, sections 5.1 and 5.2. A document commits to the pair of keys that will follow, whose
private halves the service does not have. So who steals a running identity cannot replace it, and
its owner always can. A party that anchored one document goes from it link by link.

    document 0 -- succession --> document 1 -- succession --> document 2 ...

Everything here is a pure function of what was received, what is anchored, and the time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from tacit.crypto.sealing import length_prefixed
from tacit.crypto.signing import (
    HybridIdentity,
    HybridPublicKey,
    SignatureStripped,
    Signed,
    fingerprint,
    verify_hybrid,
)
from tacit.errors import Forbidden
from tacit.protocol.enrolment import Fingerprint, TokenRenewal
from tacit.query.terms import Identifier
from tacit.wire import Binary, Instant, WireModel, require

IDENTITY_LABEL: Final = "tacit identity v1"
SUCCESSION_LABEL: Final = "tacit succession v1"
_NEXT_LABEL: Final = b"tacit next identity v1"
LONGEST_OVERLAP: Final = timedelta(days=30)
CLOCKS_DIFFER: Final = timedelta(seconds=300)
"""A succession may take effect so long after the clock of who reads it."""
MOST_LINKS: Final = 256


class KeyNotAnchored(Forbidden):
    name = "key_not_anchored"
    title = "No chain of successions leads from the anchored identity to this key"


class SuccessionRefused(Forbidden):
    name = "succession_refused"
    title = "The succession is not the one that the anchored identity committed to"


class IdentityForked(Forbidden):
    """One identity has two successors: only its operator knows which is right."""

    name = "identity_forked"
    title = "An identity has two successors, or a key two documents"


class KeyChangeUnconfirmed(Forbidden):
    """`fingerprint`: of the new identity, to be compared out of band."""

    name = "key_change_unconfirmed"
    title = "A person must confirm the new identity"


class IdentitySuperseded(Forbidden):
    name = "identity_superseded"
    title = "The identity was replaced or revoked"


class Role(StrEnum):
    """Whose identity it is."""

    COORDINATOR = "coordinator"
    AGGREGATOR = "aggregator"


class Reason(StrEnum):
    """`compromised`: the old key is refused immediately, and need not have signed."""

    PLANNED = "planned"
    COMPROMISED = "compromised"


class IdentityDocument(WireModel):
    """A service's identity. `next`: the hash of its next pair of keys; without it every
    succession needs a person's confirmation. `serial` counts from 0."""

    format: Literal["tacit.identity/1"] = "tacit.identity/1"
    role: Role
    name: Identifier
    serial: Annotated[int, Field(ge=0, lt=2**31)]
    ed25519: Annotated[Binary, Field(min_length=32, max_length=32)]
    mldsa65: Annotated[Binary, Field(min_length=1952, max_length=1952)]
    next: Fingerprint | None = None

    @property
    def key(self) -> HybridPublicKey:
        """Its pair."""
        return HybridPublicKey(ed25519=self.ed25519, mldsa65=self.mldsa65)

    @property
    def fingerprint(self) -> bytes:
        """What is pinned: 32 bytes over the whole document."""
        return hashlib.sha256(IDENTITY_LABEL.encode() + b"\0" + self.canonical()).digest()


class Succession(WireModel):
    """One link: the document with fingerprint `from` is replaced. Without `document` it is
    revoked; `revoked_by` is then the next pair, which no document shows."""

    format: Literal["tacit.succession/1"] = "tacit.succession/1"
    deployment: Identifier
    role: Role
    name: Identifier
    replaced: Fingerprint = Field(alias="from")
    document: IdentityDocument | None = None
    revoked_by: HybridPublicKey | None = None
    effective: Instant
    overlap_until: Instant
    reason: Reason

    @model_validator(mode="after")
    def _whole(self) -> Self:
        require(
            (self.document is None) != (self.revoked_by is None),
            None,
            "a document, or the keys that revoke, is needed",
        )
        overlap = self.overlap_until - self.effective
        require(
            timedelta() <= overlap <= LONGEST_OVERLAP,
            None,
            "the overlap is at most 30 days, and not negative",
        )
        at_once = self.reason is Reason.COMPROMISED or self.document is None
        require(not at_once or not overlap, None, "a key that is lost has no overlap")
        return self

    @property
    def key(self) -> HybridPublicKey:
        """The pair that the identity before committed to."""
        if self.document is not None:
            return self.document.key
        assert self.revoked_by is not None
        return self.revoked_by


class SignedSuccession(WireModel):
    """`signature`: by the next pair; `old_signature`: by the replaced one, if the succession was
    planned."""

    statement: Succession
    signature: Binary
    old_signature: Binary | None = None


SignedDocument = Signed[IdentityDocument]


def commitment(key: HybridPublicKey) -> bytes:
    """A document's commitment to the pair of keys that will follow."""
    return hashlib.sha256(length_prefixed(_NEXT_LABEL, key.ed25519, key.mldsa65)).digest()


def succeed(
    statement: Succession, successor: HybridIdentity, replaced: HybridIdentity | None
) -> SignedSuccession:
    """A signed link. `replaced`: the pair before, of a planned one."""
    old = None if replaced is None else replaced.sign(SUCCESSION_LABEL, statement).signature
    new_signature = successor.sign(SUCCESSION_LABEL, statement)
    return SignedSuccession(
        statement=statement, signature=new_signature.signature, old_signature=old
    )


def revocation(
    deployment: str,
    replaced: IdentityDocument,
    successor: HybridPublicKey,
    reason: Reason,
    now: datetime,
) -> Succession:
    """What ends an identity without another one."""
    return Succession(
        deployment=deployment,
        role=replaced.role,
        name=replaced.name,
        replaced=replaced.fingerprint,
        revoked_by=successor,
        effective=now,
        overlap_until=now,
        reason=reason,
    )


class Anchored(WireModel):
    """What a party stores of another's identity: the document that it anchored, and all links
    since.

    `forked`: two successors were shown; neither is accepted until a person confirms one.
    """

    deployment: Identifier
    root: IdentityDocument
    links: Annotated[tuple[SignedSuccession, ...], Field(max_length=MOST_LINKS)] = ()
    forked: bool = False

    @property
    def documents(self) -> tuple[IdentityDocument, ...]:
        """The anchored one and its successors, the newest last."""
        successors = (link.statement.document for link in self.links)
        return (self.root, *(document for document in successors if document is not None))

    @property
    def current(self) -> IdentityDocument | None:
        """The identity of now; None once it is revoked."""
        if self.links and self.links[-1].statement.document is None:
            return None
        return self.documents[-1]

    def check_key(self, ed25519: bytes, now: datetime) -> None:
        """Raise unless statements of this Ed25519 key are accepted now.

        IdentityForked, IdentitySuperseded for an earlier key whose overlap is over,
        KeyNotAnchored for any other: fetch the chain, and `follow` it.
        """
        if self.forked:
            raise IdentityForked
        current = self.current
        if current is not None and current.ed25519 == ed25519:
            return
        for document, link in zip(self.documents, self.links, strict=False):
            if document.ed25519 == ed25519:
                if now < link.statement.overlap_until:
                    return
                raise IdentitySuperseded
        raise KeyNotAnchored

    def keys(self, now: datetime) -> tuple[bytes, ...]:
        """The Ed25519 keys whose statements are accepted now, the newest first.

        Raises IdentityForked, IdentitySuperseded if there is none.
        """
        if self.forked:
            raise IdentityForked
        replaced = zip(self.documents, self.links, strict=False)
        old = [
            document.ed25519 for document, link in replaced if now < link.statement.overlap_until
        ]
        usable = (*([] if self.current is None else [self.current.ed25519]), *reversed(old))
        if not usable:
            raise IdentitySuperseded
        return usable

    def forking(self) -> Anchored:
        """The anchor marked as forked until a person confirms: store it when `follow` raises
        IdentityForked."""
        return self.model_copy(update={"forked": True})


class IdentityChain(WireModel):
    """What a service publishes of its identity: all its documents, each signed by its own pair,
    and the links between them."""

    documents: Annotated[tuple[SignedDocument, ...], Field(min_length=1, max_length=MOST_LINKS + 1)]
    links: Annotated[tuple[SignedSuccession, ...], Field(max_length=MOST_LINKS)] = ()


def revoked_for(
    deployment: str, chain: IdentityChain, successor: HybridIdentity, now: datetime
) -> IdentityChain:
    """A chain with the end of its last identity, signed only by the following pair: for a service
    that no longer exists.

    This function does not verify the chain; every recipient checks each link. Raises
    SuccessionRefused, KeyChangeUnconfirmed, IdentitySuperseded if the chain has ended already.
    """
    first = chain.documents[0]
    chain_known = follow(anchor(deployment, first, first.statement.fingerprint), chain.links, now)
    if chain_known.current is None:
        raise IdentitySuperseded("it was revoked")
    statement = revocation(
        deployment, chain_known.current, successor.public, Reason.COMPROMISED, now
    )
    link = succeed(statement, successor, None)
    follow(chain_known, [link], now)
    return IdentityChain(documents=chain.documents, links=(*chain.links, link))


class CoordinatorRenewal(WireModel):
    """A coordinator whose token at an aggregator was revoked replaces it, signed by its current
    identity; with the chain that leads to that identity, if there is one."""

    renewal: Signed[TokenRenewal]
    chain: IdentityChain | None = None


class Pin(WireModel):
    """What a party stores of a service: the fingerprint of its Ed25519 key as received out of
    band and, once the service has shown its documents, the chain followed from there."""

    fingerprint: Fingerprint
    anchored: Anchored | None = None

    @property
    def newest(self) -> bytes | None:
        """The fingerprint of the Ed25519 key of now; None of a revoked identity."""
        if self.anchored is None:
            return self.fingerprint
        current = self.anchored.current
        return None if current is None else fingerprint(current.ed25519)

    def check_key(self, ed25519: bytes, now: datetime) -> None:
        """Raise as `Anchored.check_key`, KeyNotAnchored for a key other than the pinned one."""
        if self.anchored is not None:
            self.anchored.check_key(ed25519, now)
        elif fingerprint(ed25519) != self.fingerprint:
            raise KeyNotAnchored

    def follow(
        self,
        deployment: str,
        shown: IdentityChain,
        now: datetime,
        role: Role,
        name: str,
        confirmed: Collection[bytes] | None = None,
    ) -> Pin:
        """Follow the shown chain, from the anchor or from the document of the pinned key.

        Raises as `follow`; IdentityForked also for a second document of an anchored key: then
        store `forking()`. KeyNotAnchored for documents of another role or name. `confirmed` as
        in `follow`.
        """
        anchored = self.anchored
        if anchored is None:
            anchored = anchor(deployment, self._pinned(shown), self.fingerprint)
            if (anchored.root.role, anchored.root.name) != (role, name):
                raise KeyNotAnchored("the document is of another service")
        elif anchored.forked:
            raise IdentityForked
        for signed in shown.documents:
            check_upgrade(anchored, signed)
        anchored_chain = follow(anchored, shown.links, now, confirmed)
        return Pin(fingerprint=self.fingerprint, anchored=anchored_chain)

    def confirmed(self, deployment: str, shown: IdentityChain, compared: bytes) -> Pin:
        """The document of this fingerprint, as a person compared it, in place of what was
        anchored; its successors are followed at the next check. Raises KeyNotAnchored if it is
        not shown."""
        for signed in shown.documents:
            if signed.statement.fingerprint == compared:
                anchored = confirm(deployment, signed, compared)
                pin = fingerprint(signed.statement.ed25519)
                return Pin(fingerprint=pin, anchored=anchored)
        raise KeyNotAnchored("no document of this fingerprint is shown")

    def forking(self) -> Pin:
        """The same, until a person confirms."""
        if self.anchored is None:
            return self
        return Pin(fingerprint=self.fingerprint, anchored=self.anchored.forking())

    def _pinned(self, shown: IdentityChain) -> SignedDocument:
        for signed in shown.documents:
            if fingerprint(signed.statement.ed25519) == self.fingerprint:
                return signed
        raise KeyNotAnchored("no document is of the pinned key")


def check_document(signed: SignedDocument) -> IdentityDocument:
    """A document that its own pair signed. Raises SignatureStripped."""
    return verify_hybrid(IDENTITY_LABEL, signed, signed.statement.key)


def anchor(deployment: str, signed: SignedDocument, pinned: bytes) -> Anchored:
    """Anchor a document by what was pinned out of band: its fingerprint, or SHA-256 of the Ed25519
    key alone, as pairings and join tokens name it. That key signed the document; a second document
    of it is a fork.

    Raises SignatureStripped, KeyNotAnchored.
    """
    document = check_document(signed)
    if pinned not in (document.fingerprint, fingerprint(document.ed25519)):
        raise KeyNotAnchored("the document is not the one that was pinned")
    return Anchored(deployment=deployment, root=document)


def check_upgrade(anchored: Anchored, signed: SignedDocument) -> None:
    """Raise IdentityForked for a second document of a key that is anchored by another document."""
    document = check_document(signed)
    for earlier in anchored.documents:
        if earlier.ed25519 == document.ed25519 and earlier != document:
            raise IdentityForked("two documents of one key")


def confirm(deployment: str, signed: SignedDocument, compared: bytes) -> Anchored:
    """Anchor the document that a person compared out of band, in place of everything anchored
    before. Raises SignatureStripped, KeyNotAnchored for a document other than the compared one."""
    document = check_document(signed)
    if document.fingerprint != compared:
        raise KeyNotAnchored("the document is not the one that was compared")
    return Anchored(deployment=deployment, root=document)


def follow(
    anchored: Anchored,
    shown: Sequence[SignedSuccession],
    now: datetime,
    confirmed: Collection[bytes] | None = None,
) -> Anchored:
    """Follow the shown chain from the anchor, link by link, as far as it leads.

    `confirmed`: fingerprints that a person compared, if every change needs that; None if no
    change does. Links that do not start at an identity of the chain are ignored. Raises what
    `_check_link` raises; IdentityForked, after which the caller stores `anchored.forking()`.
    """
    if anchored.forked:
        raise IdentityForked
    _refuse_forks(anchored, shown, now)
    while anchored.current is not None:
        successors = [
            link for link in shown if link.statement.replaced == anchored.current.fingerprint
        ]
        if not successors:
            return anchored
        link = _valid(anchored, anchored.current, successors, now)
        successor = link.statement.document
        if confirmed is not None and successor is not None:
            _check_confirmed(successor, confirmed)
        anchored = Anchored(
            deployment=anchored.deployment, root=anchored.root, links=(*anchored.links, link)
        )
    return anchored


def _valid(
    anchored: Anchored,
    replaced: IdentityDocument,
    links: Sequence[SignedSuccession],
    now: datetime,
) -> SignedSuccession:
    """The one valid link of several. Invalid ones have no effect, as anyone can add one.

    If none is valid, raises what the first one raises; IdentityForked if two are valid.
    """
    errors, valid = [], {}
    for link in links:
        try:
            _check_link(anchored.deployment, replaced, link, now)
        except (KeyNotAnchored, SuccessionRefused, KeyChangeUnconfirmed) as error:
            errors.append(error)
        else:
            valid[link.statement.digest()] = link
    if len(valid) > 1:
        raise IdentityForked("two successors of one identity")
    if not valid:
        raise errors[0]
    return next(iter(valid.values()))


def _refuse_forks(anchored: Anchored, shown: Sequence[SignedSuccession], now: datetime) -> None:
    """Raise IdentityForked for a valid link other than the one already followed."""
    for replaced, known_link in zip(anchored.documents, anchored.links, strict=False):
        other_links = [
            link
            for link in shown
            if link.statement.replaced == replaced.fingerprint
            and link.statement != known_link.statement
        ]
        for other in other_links:
            try:
                _check_link(anchored.deployment, replaced, other, now)
            except (KeyNotAnchored, SuccessionRefused, KeyChangeUnconfirmed):
                continue
            raise IdentityForked("another successor than was followed")


def _check_link(
    deployment: str, replaced: IdentityDocument, link: SignedSuccession, now: datetime
) -> None:
    """Raise unless a link leads on from a document.

    KeyNotAnchored for another identity's link, KeyChangeUnconfirmed if the document committed to
    no next pair, SuccessionRefused if the link differs from that commitment in any other way.
    """
    said = link.statement
    if (said.deployment, said.role, said.name) != (deployment, replaced.role, replaced.name):
        raise KeyNotAnchored("the succession is of another identity")
    successor = said.document
    if successor is not None:
        identity = (successor.role, successor.name, successor.serial)
        if identity != (replaced.role, replaced.name, replaced.serial + 1):
            raise KeyNotAnchored("the new document is not the next one of this identity")
    if replaced.next is None:
        extra = {} if successor is None else {"fingerprint": successor.fingerprint.hex()}
        raise KeyChangeUnconfirmed("the identity committed to no next key", extra=extra)
    if commitment(said.key) != replaced.next:
        raise SuccessionRefused("not the keys that the identity committed to")
    if said.effective > now + CLOCKS_DIFFER:
        raise SuccessionRefused("the succession has not taken effect")
    signatures = [(link.signature, said.key)]
    if said.reason is Reason.PLANNED:
        if link.old_signature is None:
            raise SuccessionRefused("a planned succession is signed by the old keys, too")
        signatures.append((link.old_signature, replaced.key))
    for signature, key in signatures:
        signed = Signed[Succession](statement=said, signature=signature)
        try:
            verify_hybrid(SUCCESSION_LABEL, signed, key)
        except SignatureStripped as error:
            raise SuccessionRefused(error.detail) from None


def _check_confirmed(successor: IdentityDocument, confirmed: Collection[bytes]) -> None:
    if successor.fingerprint not in confirmed:
        extra = {"fingerprint": successor.fingerprint.hex()}
        raise KeyChangeUnconfirmed("compare the fingerprint out of band", extra=extra)
