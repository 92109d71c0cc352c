"""This aggregator's own identity: what it shows of it, and the commitment to the next pair of keys.

Spec: keys, section 5.1. The private halves of the next pair stay with the operator, where the
service is not.
"""

from __future__ import annotations

from aggregator.context import Aggregator
from aggregator.store.tables import identities as table
from common.store.identities import chain_of, commit_next, identities
from tacit.crypto.hybrid_signing import HybridPublicKey
from tacit.crypto.signing import fingerprint
from tacit.errors import NotFound
from tacit.protocol.identities import IdentityChain, IdentityDocument, Role
from tacit.wire import WireModel, encode_binary


class NoIdentityDocument(NotFound):
    name = "no_identity_document"
    title = "The identity is a key alone: no next key was committed to"


class IdentityAnswer(WireModel):
    """The identity of now. `fingerprint`: of its document, in hex, as people compare it;
    `key_fingerprint`: of its Ed25519 key, which pairings and join tokens name."""

    serial: int
    fingerprint: str
    key_fingerprint: str
    next: str


async def shown(aggregator: Aggregator) -> IdentityChain:
    """All documents and links. Raises NoIdentityDocument."""
    async with aggregator.database.reading() as transaction:
        found = chain_of(await identities(transaction, table))
    if found is None:
        raise NoIdentityDocument
    return found


async def commit(aggregator: Aggregator, following: HybridPublicKey) -> IdentityAnswer:
    """Commit to the next pair; the same again changes nothing. Raises NextKeyCommitted."""
    async with aggregator.database.begin() as transaction:
        signed = await commit_next(transaction, table, Role.AGGREGATOR, aggregator.id, following)
    await aggregator.keyring.identities.load()
    return answer_of(signed.statement)


def answer_of(document: IdentityDocument) -> IdentityAnswer:
    """What its operator is told of an identity that commits to a next one."""
    assert document.next is not None
    return IdentityAnswer(
        serial=document.serial,
        fingerprint=document.fingerprint.hex(),
        key_fingerprint=fingerprint(document.ed25519).hex(),
        next=encode_binary(document.next),
    )
