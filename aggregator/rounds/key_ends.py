"""A round's own seal key dies with the round. Spec: keys, section 2.4."""

from __future__ import annotations

from aggregator.context import Aggregator, RoundContext
from common.runtime.logs import describe, get_logger

_logger = get_logger("tacit.aggregator.keys")


async def end_round(aggregator: Aggregator, context: RoundContext) -> None:
    """The round is over: destroy the key that was made for it. If that fails, a sweep does it."""
    seal = context.descriptor.aggregators[context.index].seal
    if seal.round is None:
        return
    aggregator.seal_keyring.forget([seal.number])
    aggregator.forget_round(context.id)
    await destroy(aggregator, seal.number)


async def destroy(aggregator: Aggregator, number: int) -> None:
    """Destroy a key; a file that cannot be removed now is for the next sweep."""
    try:
        await aggregator.seal_keyring.destroy(number)
    except OSError as error:
        _logger.warning("key_not_destroyed", number=number, **describe(error))
