"""Other aggregators, as this aggregator's operator pinned them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete, insert, select

from aggregator.store.tables import pinned_peers
from common.store.transactions import Transaction


@dataclass(frozen=True)
class PeerRow:
    """`fingerprint`: SHA-256 of the identity key."""

    id: str
    operator: str
    fingerprint: bytes
    pinned: datetime


async def pinned(transaction: Transaction) -> dict[str, PeerRow]:
    """All of them, by id."""
    found = await transaction.execute(select(pinned_peers).order_by(pinned_peers.c.id))
    return {row.id: PeerRow(row.id, row.operator, row.fingerprint, row.pinned) for row in found}


async def put(transaction: Transaction, row: PeerRow) -> None:
    """Pin one, in place of what is pinned under its id."""
    await transaction.execute(delete(pinned_peers).where(pinned_peers.c.id == row.id))
    await transaction.execute(
        insert(pinned_peers).values(
            id=row.id, operator=row.operator, fingerprint=row.fingerprint, pinned=row.pinned
        )
    )


async def remove(transaction: Transaction, peer: str) -> bool:
    """Unpin one; whether it was pinned."""
    done = await transaction.execute(delete(pinned_peers).where(pinned_peers.c.id == peer))
    return done.rowcount > 0
