"""Seal keys end by this aggregator's own clock.

A period's key dies when no live round names it, and at the latest `TACIT_SEAL_KEY_HOLD_S` after its
period: what still names it then is aborted, however far its deadline. The steps of a destruction
are those of `aggregator.sealing.seal_keys`; each is repeated by every sweep until it is done.
Spec: keys, section 2.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from aggregator.context import Aggregator
from aggregator.pieces.intake import Intake
from aggregator.pieces.peer_seals import KEPT
from aggregator.rounds import key_ends, state_machine
from aggregator.store import seal_keys as store
from common.runtime.logs import describe, get_logger
from tacit.protocol.round.descriptor import AbortRequest

REASON: Final = "seal_key_gone"
_logger = get_logger("tacit.aggregator.keys")


async def sweep(aggregator: Aggregator, intake: Intake) -> int:
    """Destroy every key whose time is over, or whose wrapping file is gone; how many. Forget what
    is not needed any more of keys that were destroyed, and of other aggregators' keys."""
    keyring, now = aggregator.seal_keyring, aggregator.clock.now()
    if await keyring.tidy():
        aggregator.forget_rounds()
    numbers = sorted({*await keyring.due(), *await keyring.lost()})
    await destroy(aggregator, intake, numbers)
    async with aggregator.database.begin() as transaction:
        await store.forget_peer_keys(transaction, now - KEPT)
        await store.purge(transaction, now - timedelta(seconds=aggregator.settings.retention_s))
    return len(numbers)


@dataclass(frozen=True)
class Rotated:
    """A new key of a period in place of others. `destroyed`: their numbers, if that was asked."""

    number: int
    retired: tuple[int, ...]
    destroyed: tuple[int, ...]


async def rotate(aggregator: Aggregator, intake: Intake, *, destroying: bool) -> Rotated:
    """Retire the keys of periods and make the next, by an operator's command. `destroying`: live
    rounds that name the old ones abort, and they die now; where the process dies meanwhile, the
    same command again, or the end of their time, destroys them.

    Spec: keys, section 5.3.
    """
    made, retired = await aggregator.seal_keyring.rotate()
    if destroying:
        await destroy(aggregator, intake, retired)
    return Rotated(made.statement.number, retired, retired if destroying else ())


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
