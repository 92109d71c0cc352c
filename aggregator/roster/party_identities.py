"""A party replaces its identity: the roster follows the links that it shows.

Spec: keys, section 5.2. Sessions that the key before signed are accepted until the link's overlap
is over, as what was sealed under them may still be on its way. A fork shows that a key was stolen:
the party's tokens end, so that neither of the two goes on, until the operators of all services
grant it another identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from aggregator.context import Aggregator
from aggregator.errors import CuratorEnrolled, NotPaired, SessionRefusedHere, UnknownParty
from aggregator.roster.enrolment import ROSTER
from aggregator.store import admission, roster, tables
from aggregator.store.roster import Party
from common.runtime.logs import get_logger
from common.store import party_identities
from common.store.database import exclusive
from common.web.tokens import revoke_subject
from tacit.protocol.identities import IdentityForked, IdentitySuperseded
from tacit.protocol.party_identities import PartyChain

Found = TypeVar("Found")
_logger = get_logger("tacit.aggregator.parties")


async def follow(aggregator: Aggregator, party: str, shown: PartyChain) -> bytes:
    """Follow a party's links; its key from now on. The same again changes nothing.

    Raises what `follow_party` raises, UnknownParty, NotPaired, and CuratorEnrolled for a key that a
    party has.
    """
    now = aggregator.clock.now()
    async with aggregator.database.begin() as transaction:
        await exclusive(transaction, ROSTER)
        known = await roster.active_party(transaction, party)
        coordinator = await admission.coordinator(transaction)
        if known is None:
            raise UnknownParty
        if coordinator is None:
            raise NotPaired
        deployment, held = coordinator.deployment, known.identity_key
        try:
            key = await party_identities.follow(
                transaction, tables.replaced_keys, deployment, party, held, shown, now
            )
        except IdentityForked:
            await revoke_subject(transaction, tables.tokens, party, now)
            key = None
        if key is not None and key != held:
            if await roster.has_identity(transaction, key):
                raise CuratorEnrolled("the identity is enrolled")
            await roster.set_identity(transaction, known.key, key)
    if key is None:
        _logger.warning("party_identity_forked")
        raise IdentityForked("two successors of one key: the party's tokens have ended")
    return key


async def by_any_key(
    aggregator: Aggregator, sender: Party, begin: Callable[[bytes], Found]
) -> Found:
    """What a sender's key begins: that which is known of it, the one on the roster by now, or one
    that was replaced. Raises what `begin` raises for the first, IdentitySuperseded for a key whose
    overlap is over."""
    try:
        return begin(sender.identity_key)
    except SessionRefusedHere as refused:
        async with aggregator.database.reading() as transaction:
            known = await roster.active_party(transaction, sender.id)
            replaced = await party_identities.replaced_keys(
                transaction, tables.replaced_keys, sender.id
            )
        ends = {each.identity_key: each.until for each in replaced}
        for key in (*(() if known is None else (known.identity_key,)), *ends):
            try:
                found = begin(key)
            except SessionRefusedHere:
                continue
            if key in ends and ends[key] <= aggregator.clock.now():
                raise IdentitySuperseded from None
            return found
        raise refused
