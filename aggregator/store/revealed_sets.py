"""The sets of curators whose sums this aggregator helped to open: one row per family of a round.

A row outlives its round, its pieces and their hashes, and has no reference to it: it is needed
permanently, because a later round over the same time may be opened at any time.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import delete

from aggregator.store.tables import revealed_sets
from common.store.released_sets import ReleasedSets
from common.store.transactions import Transaction

REVEALED: Final = ReleasedSets(revealed_sets, revealed_sets.c.round)


async def forget(transaction: Transaction, round_id: str) -> None:
    """Delete the set of a round whose sum nobody can open any more."""
    await transaction.execute(delete(revealed_sets).where(revealed_sets.c.round == round_id))
