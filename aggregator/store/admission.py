"""Who may call: the one paired coordinator."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, insert, or_, select, update

from aggregator.store.tables import coordinators, tokens
from common.store.transactions import Transaction
from common.web.tokens import Scope


@dataclass(frozen=True)
class CoordinatorRow:
    deployment: str
    identity_key: bytes


_COORDINATOR = select(coordinators)


async def coordinator(transaction: Transaction) -> CoordinatorRow | None:
    """The coordinator that this aggregator is paired with."""
    row = (await transaction.execute(_COORDINATOR)).first()
    return None if row is None else CoordinatorRow(row.deployment, row.identity_key)


async def put_coordinator(transaction: Transaction, row: CoordinatorRow, now: datetime) -> None:
    """Pair with a coordinator, in place of any other."""
    await transaction.execute(delete(coordinators))
    await transaction.execute(
        insert(coordinators).values(
            id=1, deployment=row.deployment, identity_key=row.identity_key, paired=now
        )
    )


async def remove_coordinator(transaction: Transaction) -> bool:
    """Remove the pairing; whether there was a coordinator."""
    done = await transaction.execute(delete(coordinators))
    return done.rowcount > 0


async def end_scope(
    transaction: Transaction, scope: Scope, now: datetime, overlap: timedelta = timedelta()
) -> None:
    """Revoke all tokens that were made for one scope, or let them end after an overlap."""
    valid = tokens.c.scopes == scope.value, tokens.c.revoked.is_(None)
    if not overlap:
        await transaction.execute(update(tokens).where(*valid).values(revoked=now))
        return
    end = now + overlap
    longer = or_(tokens.c.expires.is_(None), tokens.c.expires > end)
    await transaction.execute(update(tokens).where(*valid, longer).values(expires=end))
