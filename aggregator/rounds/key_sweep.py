"""Seal keys end by this aggregator's own clock.

A period's key dies when no live round names it, and at the latest `TACIT_SEAL_KEY_HOLD_S` after its
period: what still names it then is aborted, however far its deadline. The steps of a destruction
are those of `aggregator.sealing.seal_keys`; each is repeated by every sweep until it is done.
Spec: keys, section 2.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aggregator.context import Aggregator
from aggregator.pieces.intake import Intake
from aggregator.pieces.peer_seals import KEPT
from aggregator.rounds import key_ends, state_machine
from aggregator.store import seal_keys as store
from common.runtime.logs import describe, get_logger
from tacit.protocol.round import AbortRequest

REASON: Final = "seal_key_gone"
_logger = get_logger("tacit.aggregator.keys")


async def sweep(aggregator: Aggregator, intake: Intake) -> int:
    """Destroy every key whose time is over, or whose wrapping file is gone; how many. Forget public
    keys of others that are not needed any more."""
    keyring = aggregator.seal_keyring
    await keyring.tidy()
    numbers = sorted({*await keyring.due(), *await keyring.lost()})
    await destroy(aggregator, intake, numbers)
    async with aggregator.database.begin() as transaction:
        await store.forget_peer_keys(transaction, aggregator.clock.now() - KEPT)
    return len(numbers)


async def destroy(aggregator: Aggregator, intake: Intake, numbers: Sequence[int]) -> None:
    """Abort what still names these keys, and destroy them. A round that cannot be aborted now holds
    nothing back: the next sweep aborts it."""
    await _abort_rounds(aggregator, intake, numbers)
    if not numbers:
        return
    aggregator.seal_keyring.forget(numbers)
    aggregator.forget_rounds()
    for number in numbers:
        await key_ends.destroy(aggregator, number)


async def _abort_rounds(aggregator: Aggregator, intake: Intake, numbers: Sequence[int]) -> None:
    async with aggregator.database.reading() as transaction:
        names = await store.live_rounds(transaction, numbers)
    for round_id in names:
        try:
            await state_machine.abort(aggregator, intake, round_id, AbortRequest(reason=REASON))
        except Exception as error:
            _logger.warning("round_not_aborted", round=round_id, **describe(error))
