"""A service's own identities in its store, and the current identity for a store that was restored
from before a replacement.

A service's own identities: the private keys of each, its document, and the link that led to it.

Spec: keys, sections 5.1 and 5.2. One row per identity, numbered from 0; the highest is the one of
now. An identity is a pair (64 secret bytes); it gets a document when its operator commits to the
next pair. Each change is one
transaction, so that a crash leaves the state before or after it, and the same request again gives
the same answer. Private keys of the next pair are never here.

Keys that parties replaced, at a service that has parties on its roster.

Spec: keys, section 5.2. The key of now is on the roster itself. A row here is a key that was there,
the link that replaced it, and until when sessions that it signed are accepted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache, cached_property
from typing import Any, Final

from sqlalchemy import (
    Column,
    Integer,
    LargeBinary,
    MetaData,
    Select,
    String,
    Table,
    Text,
    delete,
    insert,
    select,
    update,
)

from common.store.columns import Instant
from common.store.database import exclusive
from common.store.erasure import to_erase
from common.store.transactions import Transaction
from tacit.crypto.signing import HybridIdentity, HybridPublicKey, Identity
from tacit.errors import Conflict
from tacit.protocol.identities import (
    IDENTITY_LABEL,
    Anchored,
    IdentityChain,
    IdentityDocument,
    IdentitySuperseded,
    KeyChangeUnconfirmed,
    KeyNotAnchored,
    Reason,
    Role,
    SignedDocument,
    SignedSuccession,
    Succession,
    SuccessionRefused,
    check_document,
    commitment,
    follow,
    revocation,
    succeed,
)
from tacit.protocol.party_identities import PartyChain, SignedPartySuccession, follow_party

LOCK: Final = "identity"


class NextKeyCommitted(Conflict):
    """A second document of one key would be a fork."""

    name = "next_key_committed"
    title = "The identity is committed to another next key"


class SecretGone(LookupError):
    """The private keys of an identity were destroyed."""


@dataclass(frozen=True)
class OwnIdentity:
    """One identity. `secret`: None once it is destroyed; `until`: of a replaced one, from when
    on it is refused; `link`: the replacement of the identity before. The end of a revoked one is
    only a link."""

    serial: int
    secret: bytes | None = field(repr=False)
    document: SignedDocument | None
    link: SignedSuccession | None
    until: datetime | None

    @property
    def revokes(self) -> bool:
        """Whether this is no identity, but the end of the one before."""
        return self.link is not None and self.document is None

    @cached_property
    def signer(self) -> Identity:
        """Its Ed25519 key, made once. Raises SecretGone."""
        if self.secret is None:
            raise SecretGone(self.serial)
        return Identity.from_bytes(self.secret[:32])

    @property
    def public_key(self) -> bytes:
        """Its public Ed25519 key."""
        if self.document is not None:
            return self.document.statement.ed25519
        return self.signer.public_key


@dataclass(frozen=True)
class Replacement:
    """An operator's request: the committed pair, the public keys of the pair after it, and for
    how long the old identity is accepted as well (not at all if it was `compromised`)."""

    successor: HybridIdentity = field(repr=False)
    following: HybridPublicKey
    reason: Reason
    overlap: timedelta = timedelta()


def identity_table(metadata: MetaData) -> Table:
    """The table `identity`, added to a service's own metadata."""
    return Table(
        "identity",
        metadata,
        Column("serial", Integer, primary_key=True, autoincrement=False),
        Column("secret", LargeBinary, nullable=True),
        Column("document", Text, nullable=True),
        Column("link", Text, nullable=True),
        Column("until", Instant, nullable=True),
        Column("destroyed", Instant, nullable=True),
    )


async def identities(transaction: Transaction, table: Table) -> tuple[OwnIdentity, ...]:
    """All of them, the one of now last."""
    rows = await transaction.execute(_all_of(table))
    return tuple(_identity(row) for row in rows)


@cache
def _all_of(table: Table) -> Select[Any]:
    return select(table).order_by(table.c.serial)


async def first_identity(transaction: Transaction, table: Table) -> tuple[OwnIdentity, ...]:
    """All of them; if there is none, a new one."""
    await exclusive(transaction, LOCK)
    identities_held = await identities(transaction, table)
    if identities_held:
        return identities_held
    secret = HybridIdentity.generate().to_bytes()
    await transaction.execute(insert(table).values(serial=0, secret=secret))
    return await identities(transaction, table)


async def commit_next(
    transaction: Transaction, table: Table, role: Role, name: str, following: HybridPublicKey
) -> SignedDocument:
    """Give an identity its document, which commits to the next pair. A repetition changes
    nothing. Raises NextKeyCommitted for another pair, IdentitySuperseded once it is revoked."""
    await exclusive(transaction, LOCK)
    current = (await identities(transaction, table))[-1]
    if current.revokes:
        raise IdentitySuperseded("it was revoked")
    if current.document is not None:
        if current.document.statement.next != commitment(following):
            raise NextKeyCommitted
        return current.document
    if current.secret is None:
        raise SecretGone(current.serial)
    signed = _document(role, name, current.serial, HybridIdentity(current.secret), following)
    await transaction.execute(
        update(table)
        .where(table.c.serial == current.serial)
        .values(document=signed.model_dump_json())
    )
    return signed


async def replace(
    transaction: Transaction, table: Table, deployment: str, asked: Replacement, now: datetime
) -> OwnIdentity:
    """Replace the current identity by the one to which it committed; returns the new one.

    A repetition changes nothing. Raises KeyChangeUnconfirmed without a commitment,
    SuccessionRefused for keys other than the committed ones, NextKeyCommitted if the identity
    was already replaced with another pair to follow, IdentitySuperseded once it is revoked.
    """
    await exclusive(transaction, LOCK)
    identities_held = await identities(transaction, table)
    current = identities_held[-1]
    before = _committed(current)
    if before.key == asked.successor.public and current.link is not None:
        if before.next != commitment(asked.following):
            raise NextKeyCommitted
        return current
    if commitment(asked.successor.public) != before.next:
        raise SuccessionRefused("not the keys that the identity committed to")
    serial = current.serial + 1
    document = _document(before.role, before.name, serial, asked.successor, asked.following)
    statement = Succession(
        deployment=deployment,
        role=before.role,
        name=before.name,
        replaced=before.fingerprint,
        document=document.statement,
        effective=now,
        overlap_until=now + asked.overlap,
        reason=asked.reason,
    )
    link = _link(current, statement, asked.successor)
    secret, text = asked.successor.to_bytes(), document.model_dump_json()
    return await _end(transaction, table, current, link, secret=secret, document=text)


async def revoke(
    transaction: Transaction,
    table: Table,
    deployment: str,
    successor: HybridIdentity,
    reason: Reason,
    now: datetime,
) -> OwnIdentity:
    """End the current identity without a successor, signed by the pair to which it committed. A
    repetition changes nothing. Raises as `replace`."""
    await exclusive(transaction, LOCK)
    current = (await identities(transaction, table))[-1]
    if current.link is not None and current.revokes:
        if current.link.statement.revoked_by != successor.public:
            raise SuccessionRefused("it was revoked by other keys")
        return current
    before = _committed(current)
    if commitment(successor.public) != before.next:
        raise SuccessionRefused("not the keys that the identity committed to")
    statement = revocation(deployment, before, successor.public, reason, now)
    return await _end(transaction, table, current, _link(current, statement, successor))


def _committed(current: OwnIdentity) -> IdentityDocument:
    """The document of now. Raises KeyChangeUnconfirmed, IdentitySuperseded."""
    if current.revokes:
        raise IdentitySuperseded("it was revoked")
    if current.document is None:
        raise KeyChangeUnconfirmed("the identity committed to no next key")
    return current.document.statement


async def _end(
    transaction: Transaction,
    table: Table,
    current: OwnIdentity,
    link: SignedSuccession,
    **successor: bytes | str,
) -> OwnIdentity:
    """Store what follows the current identity, after the check that every recipient will make."""
    assert current.document is not None
    anchored = Anchored(deployment=link.statement.deployment, root=current.document.statement)
    follow(anchored, [link], link.statement.effective)
    until = link.statement.overlap_until
    await transaction.execute(
        update(table).where(table.c.serial == current.serial).values(until=until)
    )
    await transaction.execute(
        insert(table).values(serial=current.serial + 1, link=link.model_dump_json(), **successor)
    )
    return (await identities(transaction, table))[-1]


async def destroy_identity(
    transaction: Transaction, table: Table, serial: int, now: datetime
) -> None:
    """Destroy the private keys of a replaced identity. The current identity is not changed."""
    await exclusive(transaction, LOCK)
    await to_erase(transaction)
    await transaction.execute(
        update(table)
        .where(table.c.serial == serial, table.c.until.is_not(None), table.c.secret.is_not(None))
        .values(secret=None, destroyed=now)
    )


def chain_of(identities_held: tuple[OwnIdentity, ...]) -> IdentityChain | None:
    """What others are shown; None before the first commitment."""
    documents = tuple(
        identity.document for identity in identities_held if identity.document is not None
    )
    links = tuple(identity.link for identity in identities_held if identity.link is not None)
    return IdentityChain(documents=documents, links=links) if documents else None


def _document(
    role: Role, name: str, serial: int, pair: HybridIdentity, following: HybridPublicKey
) -> SignedDocument:
    statement = IdentityDocument(
        role=role,
        name=name,
        serial=serial,
        ed25519=pair.public.ed25519,
        mldsa65=pair.public.mldsa65,
        next=commitment(following),
    )
    return pair.sign(IDENTITY_LABEL, statement)


def _link(
    current: OwnIdentity, statement: Succession, successor: HybridIdentity
) -> SignedSuccession:
    """Signed by the pair that the identity committed to and, if it is planned, by its own."""
    if statement.reason is Reason.COMPROMISED:
        return succeed(statement, successor, None)
    if current.secret is None:
        raise SecretGone(current.serial)
    return succeed(statement, successor, HybridIdentity(current.secret))


def _identity(row: Any) -> OwnIdentity:
    document = None if row.document is None else SignedDocument.model_validate_json(row.document)
    link = None if row.link is None else SignedSuccession.model_validate_json(row.link)
    return OwnIdentity(row.serial, row.secret, document, link, row.until)


# A restored store of before a replacement gets the identity of now, by what the service showed.
#
# Spec: keys, section 5.2. A backup holds the identity of then, which others refuse; to replace it
# again would be a fork. The operator's sealed file holds the pair that replaced it, and everybody
# who followed the service has its chain. Nothing is signed here: the chain is checked as others
# check it.


async def continue_by(
    transaction: Transaction,
    table: Table,
    chain: IdentityChain,
    pair: HybridIdentity,
    now: datetime,
) -> int:
    """Add the successors of the stored identity, up to the one of this pair; returns its serial
    number.

    Earlier private keys are destroyed. Raises KeyNotAnchored for a chain of another identity or
    a pair that is not its last, IdentitySuperseded for a revoked one, and what `follow` raises.
    """
    identities_held = await identities(transaction, table)
    last_known = _known(identities_held[-1], chain)
    links = follow(last_known, chain.links, now).links
    signed = {document.statement.fingerprint: document for document in chain.documents}
    last = links[-1].statement.document if links else last_known.root
    if last is None:
        raise IdentitySuperseded("it was revoked: no pair continues it")
    if last.key != pair.public:
        raise KeyNotAnchored("the pair is not that of the last identity of the chain")
    await to_erase(transaction)
    ends = {"secret": None, "destroyed": now}
    root = signed[last_known.root.fingerprint].model_dump_json()
    await _set(transaction, table, last_known.root.serial, document=root)
    serial = last_known.root.serial
    for link in links:
        document = link.statement.document
        assert document is not None  # a revocation is the last one
        if document.fingerprint not in signed:
            raise KeyNotAnchored("a document of the chain is missing")
        check_document(signed[document.fingerprint])
        await _set(transaction, table, serial, until=link.statement.overlap_until, **ends)
        serial = document.serial
        await transaction.execute(
            insert(table).values(
                serial=serial,
                document=signed[document.fingerprint].model_dump_json(),
                link=link.model_dump_json(),
            )
        )
    await _set(transaction, table, serial, secret=pair.to_bytes())
    return serial


def _known(current: OwnIdentity, chain: IdentityChain) -> Anchored:
    """The stored identity as an anchor in the chain: its document, or that of its key."""
    if current.revokes:
        raise IdentitySuperseded("it was revoked")
    if not chain.links:
        raise KeyNotAnchored("the chain has no succession")
    for signed in chain.documents:
        document = signed.statement
        if current.document in (None, signed) and document.ed25519 == current.public_key:
            check_document(signed)
            return Anchored(deployment=chain.links[0].statement.deployment, root=document)
    raise KeyNotAnchored("the chain is of another identity")


async def _set(transaction: Transaction, table: Table, serial: int, **values: object) -> None:
    await transaction.execute(update(table).where(table.c.serial == serial).values(**values))


@dataclass(frozen=True)
class ReplacedKey:
    """An Ed25519 key that a party had; `until`: sessions that it signed are accepted."""

    identity_key: bytes
    link: SignedPartySuccession
    until: datetime


_NAME: Final = "replaced_party_key"


def replaced_key_table(metadata: MetaData) -> Table:
    """The table `replaced_party_key`, added to a service's own metadata."""
    return Table(
        _NAME,
        metadata,
        Column("party", String(128), primary_key=True),
        Column("identity_key", LargeBinary(32), primary_key=True),
        Column("link", Text, nullable=False),
        Column("until", Instant, nullable=False),
    )


async def replaced_keys(
    transaction: Transaction, table: Table, party: str
) -> tuple[ReplacedKey, ...]:
    """All keys that a party had before, in no order."""
    rows = await transaction.execute(select(table).where(table.c.party == party))
    return tuple(
        ReplacedKey(
            row.identity_key, SignedPartySuccession.model_validate_json(row.link), row.until
        )
        for row in rows
    )


async def follow_replacements(
    transaction: Transaction,
    table: Table,
    deployment: str,
    party: str,
    key_held: bytes,
    shown: PartyChain,
    now: datetime,
) -> bytes:
    """Store the links that lead on from the key on the roster; returns the current key, for the
    roster. Raises as `follow_party`."""
    replacements = await replaced_keys(transaction, table, party)
    followed = {
        replacement.identity_key: replacement.link.statement.identity_key
        for replacement in replacements
    }
    links = follow_party(deployment, party, key_held, followed, shown, now)
    for link in links:
        await transaction.execute(
            insert(table).values(
                party=party,
                identity_key=key_held,
                link=link.model_dump_json(),
                until=link.statement.overlap_until,
            )
        )
        key_held = link.statement.identity_key
    return key_held


async def forget_replaced(transaction: Transaction, table: Table, party: str) -> None:
    """Forget what a party had before: it left, or enrolled again."""
    await transaction.execute(delete(table).where(table.c.party == party))
