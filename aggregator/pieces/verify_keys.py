"""The verify key of a proved round: fixed before the first contribution, and never stored.

It is made again from this aggregator's verification secret and the others' sealed shares, which are
stored as they came. Spec: validity, section 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aggregator.context import Aggregator, RoundContext, stored_round
from aggregator.errors import KeyShareRefused, RoundClosed, RoundNotKeyed, SealKeyUnavailable
from aggregator.pieces.peer_seals import PublicKeys, incoming_key, outgoing
from aggregator.sealing.seal_keys import SealSecret
from aggregator.store import rounds as store
from tacit.crypto.sealing import SealBroken, open_octets, seal_octets
from tacit.protocol.round.agreement import DescriptorRefused
from tacit.protocol.round.descriptor import RoundDescriptor
from tacit.protocol.round.verdicts import RelayedKeyShares, SealedKeyShare
from tacit.protocol.verifier_shares import key_share, key_share_context, verify_key_of

_KEPT: Final = 256


async def demand_key(aggregator: Aggregator, context: RoundContext) -> None:
    """Raise RoundNotKeyed for a proved round that has no verify key yet."""
    if context.proofs is None or context.id in aggregator.verify_keys:
        return
    async with aggregator.database.reading() as transaction:
        row = await stored_round(transaction, context.id)
    if row.key_check is None:
        raise RoundNotKeyed
    if context.own_key is not None:
        await verify_key(aggregator, context)  # kept: the next piece asks no store


async def verify_key(aggregator: Aggregator, context: RoundContext) -> bytes:
    """The 32 bytes of a round's verify key. Raises RoundNotKeyed, or RoundClosed once this
    aggregator's part of it is destroyed."""
    known = aggregator.verify_keys.get(context.id)
    if known is not None:
        return known
    async with aggregator.database.reading() as transaction:
        shares = await store.document(transaction, context.key, "relayed_key_shares")
    if shares is None:
        raise RoundNotKeyed
    made = made_key(aggregator, context, RelayedKeyShares.model_validate_json(shares).shares)
    remember(aggregator, context, made)
    return made


def remember(aggregator: Aggregator, context: RoundContext, key: bytes) -> None:
    """Keep a verify key that is fixed, in memory."""
    aggregator.verify_keys[context.id] = key
    while len(aggregator.verify_keys) > _KEPT:
        aggregator.verify_keys.popitem(last=False)


def made_key(
    aggregator: Aggregator, context: RoundContext, shares: Sequence[SealedKeyShare]
) -> bytes:
    """The verify key of this aggregator's share and the others', one of each.

    Raises KeyShareRefused; RoundClosed, or SealKeyUnavailable, without the own secret.
    """
    own, descriptor = context.own_key, context.descriptor
    if context.elsewhere:
        raise SealKeyUnavailable
    if own is None or own.verification_secret is None:
        raise RoundClosed("the round's keys are destroyed", extra={"included": False})
    found = {context.index: key_share(own.verification_secret, context.digest, aggregator.id)}
    for share in shares:
        try:
            index = descriptor.index_of(share.sender)
        except KeyError:
            raise KeyShareRefused("a share is of no aggregator of the round") from None
        if index in found or share.receiver != aggregator.id:
            raise KeyShareRefused("a share is for another aggregator, or listed twice")
        entry = descriptor.aggregators[index]
        place = key_share_context(context.digest, share.sender, aggregator.id, context.index)
        try:
            key = incoming_key(aggregator, context, entry, share.announce)
            found[index] = open_octets(key, share.nonce, share.sealed, place)
        except SealBroken:
            raise KeyShareRefused(f"the share of {share.sender} does not open here") from None
    if len(found) != len(descriptor.aggregators):
        raise KeyShareRefused("the share of an aggregator is missing")
    return verify_key_of(context.digest, [found[index] for index in sorted(found)])


def sealed_shares(
    aggregator: Aggregator,
    descriptor: RoundDescriptor,
    digest: bytes,
    own: SealSecret,
    public: PublicKeys,
) -> tuple[SealedKeyShare, ...]:
    """This aggregator's share of a round's verify key, sealed to each other aggregator."""
    if own.verification_secret is None:
        raise DescriptorRefused("the seal key of this aggregator is not in use")
    content = key_share(own.verification_secret, digest, aggregator.id)
    shares = []
    for index, entry in enumerate(descriptor.aggregators):
        if entry.id == aggregator.id:
            continue
        to = outgoing(aggregator, descriptor, own, entry, public)
        place = key_share_context(digest, aggregator.id, entry.id, index)
        nonce, sealed = seal_octets(to.key, content, place)
        shares.append(
            SealedKeyShare(
                sender=aggregator.id,
                receiver=entry.id,
                session=to.session,
                announce=to.announce,
                nonce=nonce,
                sealed=sealed,
            )
        )
    return tuple(shares)
