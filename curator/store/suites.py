"""The least suite of a deployment's rounds that parties here take part in. It only rises.

Spec: keys, section 3.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import func, or_, select, update

from common.store.transactions import Transaction
from curator.store.parties import ACTIVE
from curator.store.tables import parties

FIRST: Final = 1


async def raise_suite(
    transaction: Transaction, coordinator_key: bytes, deployment: str, suite: int
) -> bool:
    """No party of a coordinator's deployment takes part in rounds of a lower suite from now on;
    whether that is new to one of them."""
    done = await transaction.execute(
        update(parties)
        .where(
            parties.c.coordinator_key == coordinator_key,
            parties.c.deployment == deployment,
            parties.c.minimum_suite < suite,
        )
        .values(minimum_suite=suite)
    )
    return done.rowcount > 0


async def least_suite(transaction: Transaction, coordinator_key: bytes, deployment: str) -> int:
    """What any party here has learned of the least suite of a coordinator's deployment."""
    found = await transaction.execute(
        select(func.max(parties.c.minimum_suite)).where(
            parties.c.coordinator_key == coordinator_key, parties.c.deployment == deployment
        )
    )
    highest: int | None = found.scalar_one()
    return FIRST if highest is None else highest


async def untold(transaction: Transaction, software: str) -> list[str]:
    """Enrolled parties whose coordinator was not told what this software can do."""
    told = parties.c.software_told
    rows = await transaction.execute(
        select(parties.c.id).where(
            parties.c.state == ACTIVE,
            parties.c.coordinator_token.is_not(None),
            or_(told.is_(None), told != software),
        )
    )
    return list(rows.scalars())
