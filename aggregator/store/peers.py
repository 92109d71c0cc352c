"""Other aggregators, as this aggregator's operator pinned them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, insert, select

from aggregator.store.tables import pinned_peers
from common.store.transactions import Transaction
from tacit.protocol.identities import IdentityChain, Pin


@dataclass(frozen=True)
class PeerRow:
    """`pin`: what is accepted of it; `shown`: the chain of identities that was handed over last,
    accepted or not."""

    id: str
    operator: str
    pin: Pin
    pinned: datetime
    shown: IdentityChain | None = None

    @property
    def fingerprint(self) -> bytes:
        """SHA-256 of its identity key of now, or of the last one."""
        return self.pin.newest or self.pin.fingerprint


_PINNED = select(pinned_peers).order_by(pinned_peers.c.id)


async def pinned(transaction: Transaction) -> dict[str, PeerRow]:
    """All of them, by id."""
    found = await transaction.execute(_PINNED)
    return {row.id: _peer(row) for row in found}


def _peer(row: Any) -> PeerRow:
    pin = Pin(fingerprint=row.fingerprint)
    if row.pin is not None:
        pin = Pin.model_validate_json(row.pin)
    shown = None if row.shown is None else IdentityChain.model_validate_json(row.shown)
    return PeerRow(row.id, row.operator, pin, row.pinned, shown)


async def put(transaction: Transaction, row: PeerRow) -> None:
    """Pin one, in place of what is pinned under its id."""
    await transaction.execute(delete(pinned_peers).where(pinned_peers.c.id == row.id))
    await transaction.execute(
        insert(pinned_peers).values(
            id=row.id,
            operator=row.operator,
            fingerprint=row.fingerprint,
            pinned=row.pinned,
            pin=row.pin.model_dump_json(),
            shown=None if row.shown is None else row.shown.model_dump_json(),
        )
    )


async def remove(transaction: Transaction, peer: str) -> bool:
    """Unpin one; whether it was pinned."""
    done = await transaction.execute(delete(pinned_peers).where(pinned_peers.c.id == peer))
    return done.rowcount > 0
