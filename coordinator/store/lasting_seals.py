"""Seals that are believed for years: of transcripts by aggregators, of the ledger's head by day.

Days are counted from 1970-01-01 (UTC).
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, insert, select

from common.store.transactions import Transaction
from coordinator.store.tables import ledger_seals, transcript_seals
from tacit.protocol.seals import ShownLedgerSeal, ShownSeal


async def put_transcript_seals(
    transaction: Transaction, round_id: str, found: Sequence[ShownSeal]
) -> None:
    """Keep the seals of a round, in place of those that the same aggregators made before."""
    table = transcript_seals
    for each in found:
        mine = (table.c.round == round_id) & (table.c.aggregator == each.aggregator)
        await transaction.execute(delete(table).where(mine))
        text = each.model_dump_json(exclude_none=True)
        await transaction.execute(
            insert(table).values(round=round_id, aggregator=each.aggregator, content=text)
        )


async def seals_of(transaction: Transaction, round_id: str) -> list[str]:
    """The seals of a round's transcript, by aggregator, in JSON."""
    table = transcript_seals
    query = select(table.c.content).where(table.c.round == round_id).order_by(table.c.aggregator)
    return list((await transaction.execute(query)).scalars())


async def has_ledger_seal(transaction: Transaction, day: int) -> bool:
    """Whether the ledger's head was sealed on a day."""
    query = select(ledger_seals.c.day).where(ledger_seals.c.day == day)
    return (await transaction.execute(query)).first() is not None


async def add_ledger_seal(transaction: Transaction, day: int, seal: ShownLedgerSeal) -> None:
    """Keep the seal of a day."""
    text = seal.model_dump_json(exclude_none=True)
    await transaction.execute(insert(ledger_seals).values(day=day, content=text))


async def list_ledger_seals(
    transaction: Transaction, after: int | None, limit: int
) -> list[tuple[int, str]]:
    """(day, seal in JSON) of the days after one, the oldest first."""
    query = select(ledger_seals.c.day, ledger_seals.c.content).order_by(ledger_seals.c.day)
    if after is not None:
        query = query.where(ledger_seals.c.day > after)
    return [(row.day, row.content) for row in await transaction.execute(query.limit(limit))]
