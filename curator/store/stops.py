"""Which curators are stopped, and which of their sealed bytes must not be sent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import numpy as np
from sqlalchemy import bindparam, delete, select, update

from common.store.transactions import Transaction
from curator.ledger import Bits, presence_bits
from curator.store import parties as party_store
from curator.store.accounts import IDS
from curator.store.outbox import Place
from curator.store.tables import STOPPED, curators, debits, noisy_reports, parties

PROCESS: Final = "stopped"
"""The fact of the store that holds since when the whole process is stopped."""
# Asked for every party of a round: made once, and so compiled once.
_WITHIN: Final = select(curators.c.key).where(
    curators.c.key >= bindparam("first"), curators.c.key < bindparam("end"), STOPPED
)
_ANY: Final = select(curators.c.key).where(STOPPED).limit(1)


async def process(transaction: Transaction) -> datetime | None:
    """Since when the whole process is stopped, if it is."""
    text = await party_store.fact(transaction, PROCESS)
    return None if text is None else datetime.fromisoformat(text)


async def set_process(transaction: Transaction, since: datetime | None) -> None:
    """Stop the whole process, or resume it."""
    if since is None:
        await party_store.drop_fact(transaction, PROCESS)
    elif await party_store.fact(transaction, PROCESS) is None:
        await party_store.put_fact(transaction, PROCESS, since.isoformat())


async def set_curator(
    transaction: Transaction, curator: int, since: datetime | None, *, by_owner: bool
) -> None:
    """Stop a curator, by its key, or remove the stop. A stop keeps its first time."""
    column = curators.c.stopped_by_owner if by_owner else curators.c.stopped_by_operator
    change = update(curators).where(curators.c.key == curator).values({column.name: since})
    await transaction.execute(change if since is None else change.where(column.is_(None)))


async def members(transaction: Transaction, first_key: int, length: int) -> Bits:
    """(length,) which curators of a run are stopped, alone or with the whole process."""
    if await process(transaction) is not None:
        return np.ones(length, np.bool_)
    stopped = np.zeros(length, np.bool_)
    values = {"first": first_key, "end": first_key + length}
    keys = (await transaction.execute(_WITHIN, values)).scalars().all()
    stopped[[key - first_key for key in keys]] = True
    return stopped


async def held(transaction: Transaction, places: Sequence[Place]) -> set[Place]:
    """The sealed bytes that contain something of a stopped curator. A host's batch is sealed as
    one, so it is held whole."""
    if await process(transaction) is not None:
        return set(places)
    if (await transaction.execute(_ANY)).first() is None:
        return set()
    stopped: set[tuple[int, int, int]] = set()
    ids = sorted({place.contribution for place in places})
    for start in range(0, len(ids), IDS):
        rows = await transaction.execute(
            select(
                debits.c.contribution,
                debits.c.segment,
                debits.c.part,
                debits.c.offset,
                debits.c.length,
                debits.c.presence,
                parties.c.first_key,
            )
            .join(parties, parties.c.id == debits.c.party)
            .where(debits.c.contribution.in_(ids[start : start + IDS]))
        )
        for row in rows:
            out = await members(transaction, row.first_key + row.offset, row.length)
            if (out & presence_bits(row.presence, row.length)).any():
                stopped.add((row.contribution, row.segment, row.part))
    return {place for place in places if (place.contribution, place.segment, place.part) in stopped}


async def withdraw_reports(transaction: Transaction, job: str, party: str) -> None:
    """Drop what stopped curators of a party would still report to a job. Its debit stays."""
    unsent = delete(noisy_reports).where(
        noisy_reports.c.job == job,
        noisy_reports.c.party == party,
        noisy_reports.c.status.is_(None),
    )
    if await process(transaction) is None:
        unsent = unsent.where(noisy_reports.c.curator.in_(select(curators.c.key).where(STOPPED)))
    await transaction.execute(unsent)
