"""The coordinator's own identity is replaced by command. Spec: keys, section 5.2.

Its key signs only what is new: descriptors, and checkpoints of the ledger. A round that runs was
signed when it opened, and goes on under the identity of then; so the private half of a replaced
identity is destroyed at once. Aggregators are given the chain, curators ask for it. Where the old
key may be stolen, the rounds that it signed are aborted in the transaction that replaces it. What a
crash left is done by the sweep of the next start, or by the same command.
"""

from __future__ import annotations

from typing import Final

from common.runtime.background import Repeating
from common.runtime.clock import Clock
from common.runtime.logs import get_logger
from common.store.database import exclusive
from common.store.erasure import Erasure
from common.store.identities import LOCK, destroy_identity, replace, revoke
from common.store.own_identities import OwnIdentities
from common.web import own_identity
from common.web.own_identity import (
    IdentityAnswer,
    RevocationAnswer,
    RevocationRequest,
    SuccessorRequest,
    answer_of,
    revoked_answer,
)
from common.web.tokens import end_renewable
from coordinator.registry.identities import Identities
from coordinator.registry.registry import Registry
from coordinator.store import rounds as round_store
from coordinator.store.tables import tokens
from tacit.crypto.hybrid_signing import HybridIdentity, HybridPublicKey
from tacit.protocol.identities import Role

REASON: Final = "identity_superseded"
SWEEP_S: Final = 30.0
_logger = get_logger("tacit.coordinator.identity")


class ToldAnswer(IdentityAnswer):
    """The identity of now. `untold`: aggregators that did not take the chain yet; they are given it
    again before their next round."""

    untold: tuple[str, ...]


async def commit(
    registry: Registry, identities: Identities, following: HybridPublicKey
) -> ToldAnswer:
    """Commit to the next pair; the same again changes nothing. Raises NextKeyCommitted."""
    own = registry.own
    done = await own_identity.commit(own, Role.COORDINATOR, registry.deployment, following)
    return ToldAnswer(**dict(done), untold=await identities.tell())


async def rotate(
    registry: Registry, identities: Identities, erasure: Erasure, request: SuccessorRequest
) -> ToldAnswer:
    """Replace the identity; the same request again finishes what a crash left, and changes nothing
    else. Raises KeyChangeUnconfirmed, SuccessionRefused, NextKeyCommitted."""
    own, asked = registry.own, request.replacement()
    async with own.database.begin() as transaction:
        await exclusive(transaction, LOCK)
        await own.load_in(transaction)
        before = own.serial
        now = registry.clock.now()
        new = await replace(transaction, own.table, registry.deployment, asked, now)
        if request.compromised and new.serial != before:
            await round_store.wish_all_end(transaction, REASON)
            await end_renewable(transaction, tokens, now)
    await sweep(own, erasure, registry.clock)
    await registry.ledger.checkpoint(instead=True)  # the next start believes no other key's
    assert new.document is not None
    told = answer_of(new.document.statement)
    return ToldAnswer(**dict(told), untold=await identities.tell())


class RevokedAnswer(RevocationAnswer):
    """`untold`: aggregators that did not take the revocation; their operators end the pairing."""

    untold: tuple[str, ...]


async def end(
    registry: Registry, identities: Identities, erasure: Erasure, request: RevocationRequest
) -> RevokedAnswer:
    """Revoke the identity: unfinished rounds end, and none is opened any more. The same request
    again finishes what a crash left. Raises as `rotate`."""
    own = registry.own
    async with own.database.begin() as transaction:
        await exclusive(transaction, LOCK)
        successor, now = HybridIdentity(request.secret), registry.clock.now()
        ended = await revoke(
            transaction, own.table, registry.deployment, successor, request.reason, now
        )
        await round_store.wish_all_end(transaction, REASON)
    await sweep(own, erasure, registry.clock)
    return RevokedAnswer(**dict(revoked_answer(ended)), untold=await identities.tell())


class Sweeper(Repeating):
    """Does again what a crash or an open reader left of a replacement, also by another process."""

    def __init__(self, own: OwnIdentities, erasure: Erasure, clock: Clock) -> None:
        super().__init__("identity_sweep", _logger, SWEEP_S)
        self._parts = own, erasure, clock

    async def look(self) -> None:
        """Sweep once."""
        await sweep(*self._parts)


async def sweep(own: OwnIdentities, erasure: Erasure, clock: Clock) -> None:
    """Destroy the private halves of replaced identities."""
    await own.load()
    for old in own.replaced():
        async with own.database.begin() as transaction:
            await destroy_identity(transaction, own.table, old.serial, clock.now())
    await own.load()
    await erasure.erase()  # also what a crash left in the log
