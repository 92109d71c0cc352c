"""A party replaces its identity: the registry follows the links that it shows.

Spec: keys, section 5.2. A fork shows that a key was stolen: the party's tokens end, so that
neither of the two goes on, until the operators of all services grant it another identity.
"""

from __future__ import annotations

from common.runtime.logs import get_logger
from common.store import party_identities
from common.store.database import exclusive
from common.store.transactions import Database
from common.web.tokens import revoke_subject
from coordinator.errors import UnknownParty
from coordinator.registry.registry import ROSTER, Registry
from coordinator.store import registry as store
from coordinator.store import tables
from tacit.protocol.identities import IdentityForked
from tacit.protocol.party_identities import PartyChain

_logger = get_logger("tacit.coordinator.parties")


async def follow(database: Database, registry: Registry, party: str, shown: PartyChain) -> bytes:
    """Follow a party's links; its key from now on. The same again changes nothing.

    Raises what `follow_party` raises, and UnknownParty.
    """
    now = registry.clock.now()
    key: bytes | None = None
    async with database.begin() as transaction:
        await exclusive(transaction, ROSTER)
        known = await store.party(transaction, party)
        if known is None or known.left is not None:
            raise UnknownParty
        deployment, held = registry.deployment, known.identity_key
        try:
            key = await party_identities.follow(
                transaction, tables.replaced_keys, deployment, party, held, shown, now
            )
        except IdentityForked:
            await revoke_subject(transaction, tables.tokens, party, now)
        else:
            await store.set_identity(transaction, party, key)
    if key is None:
        _logger.warning("party_identity_forked")
        raise IdentityForked("two successors of one key: the party's tokens have ended")
    return key
