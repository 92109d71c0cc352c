"""A proved round gets its verify key: once, before the first contribution.

Spec: validity, section 7.
"""

from __future__ import annotations

import asyncio

from aggregator.context import Aggregator, wire_json
from aggregator.errors import KeyShareRefused, RoundClosed, VerifyKeyFixed
from aggregator.pieces import verify_keys
from aggregator.pieces.intake import Intake, TransitionItem
from aggregator.store import rounds as store
from common.store.transactions import Transaction
from tacit.protocol.round.descriptor import RoundState
from tacit.protocol.round.verdicts import KeyCheck, RelayedKeyShares
from tacit.protocol.verifier_shares import key_check_of


async def fix_key(
    aggregator: Aggregator, intake: Intake, round_id: str, relayed: RelayedKeyShares
) -> str:
    """Keep the others' shares as they came, with the check of the key that they make.

    The same shares get the same answer. Raises VerifyKeyFixed for others, KeyShareRefused, and
    RoundClosed after the freeze.
    """
    context = await aggregator.round(round_id)
    if context.proofs is None:
        raise KeyShareRefused("the round's contributions carry no proofs")
    ordered = sorted(relayed.shares, key=lambda share: share.sender)
    stored = wire_json(RelayedKeyShares(shares=tuple(ordered)))

    async def run(transaction: Transaction) -> tuple[bytes, bytes | None]:
        """The check, and the key if it was made here."""
        row = await store.round_by_key(transaction, context.key)
        if row.key_check is not None:
            known = await store.document(transaction, context.key, "relayed_key_shares")
            if known != stored:
                raise VerifyKeyFixed
            return row.key_check, None
        if row.state is not RoundState.OPEN:
            raise RoundClosed(extra={"included": False, "state": row.state.value})
        key = await asyncio.to_thread(verify_keys.made_key, aggregator, context, ordered)
        check = key_check_of(context.digest, key)
        await store.advance(
            transaction,
            context.key,
            RoundState.OPEN,
            RoundState.OPEN,
            relayed_key_shares=stored,
            key_check=check,
        )
        return check, key

    async with aggregator.lock(round_id):
        check, key = await intake.submit(TransitionItem(context, run))
    if key is not None:  # it is fixed now: contributions need not make it again
        verify_keys.remember(aggregator, context, key)
    return wire_json(KeyCheck(round=context.id, descriptor_hash=context.digest, key_check=check))
