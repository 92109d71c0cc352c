"""A restored store of before a replacement gets the identity of now, by what the service showed.

Spec: keys, section 5.2. A backup holds the identity of then, which others refuse; to replace it
again would be a fork. The operator's sealed file holds the pair that replaced it, and everybody who
followed the service has its chain. Nothing is signed here: the chain is checked as others check it.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Table, insert, update

from common.store.erasure import to_erase
from common.store.identities import OwnIdentity, identities
from common.store.transactions import Transaction
from tacit.crypto.hybrid_signing import HybridIdentity
from tacit.protocol.identities import (
    Anchored,
    IdentityChain,
    IdentitySuperseded,
    KeyNotAnchored,
    check_document,
    follow,
)


async def continue_by(
    transaction: Transaction,
    table: Table,
    chain: IdentityChain,
    pair: HybridIdentity,
    now: datetime,
) -> int:
    """Add what followed the stored identity, up to the one of this pair; its serial number.

    Private keys of before are destroyed. Raises KeyNotAnchored for a chain of another identity or
    a pair that is not its last, IdentitySuperseded for a revoked one, and what `follow` raises.
    """
    held = await identities(transaction, table)
    known = _known(held[-1], chain)
    links = follow(known, chain.links, now).links
    signed = {each.statement.fingerprint: each for each in chain.documents}
    last = links[-1].statement.document if links else known.root
    if last is None:
        raise IdentitySuperseded("it was revoked: no pair continues it")
    if last.key != pair.public:
        raise KeyNotAnchored("the pair is not that of the last identity of the chain")
    await to_erase(transaction)
    ends = {"secret": None, "destroyed": now}
    root = signed[known.root.fingerprint].model_dump_json()
    await _set(transaction, table, known.root.serial, document=root)
    serial = known.root.serial
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
