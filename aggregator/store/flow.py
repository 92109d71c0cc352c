"""Uploads counted by hour, form and outcome; no row tells of a curator or a round."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias

from sqlalchemy import bindparam, delete, insert, select, update

from aggregator.store.tables import uploads
from common.store.database import exclusive
from common.store.transactions import Transaction

Key: TypeAlias = tuple[datetime, str, str]
"""(hour, form, outcome)."""
_LOCK = "aggregator uploads"
_ADD = (
    update(uploads)
    .where(
        uploads.c.hour == bindparam("at"),
        uploads.c.form == bindparam("of"),
        uploads.c.outcome == bindparam("came"),
    )
    .values(count=uploads.c.count + bindparam("more"))
)


async def add(transaction: Transaction, counts: Mapping[Key, int]) -> None:
    """Add to the counts that are kept."""
    await exclusive(transaction, _LOCK)
    for (hour, form, outcome), count in counts.items():
        done = await transaction.execute(
            _ADD, {"at": hour, "of": form, "came": outcome, "more": count}
        )
        if done.rowcount == 0:
            await transaction.execute(
                insert(uploads).values(hour=hour, form=form, outcome=outcome, count=count)
            )


async def between(
    transaction: Transaction, start: datetime, end: datetime
) -> dict[tuple[datetime, str], Counter[str]]:
    """The outcomes of each hour and form from `start` to before `end`, in order."""
    found: defaultdict[tuple[datetime, str], Counter[str]] = defaultdict(Counter)
    rows = await transaction.execute(
        select(uploads)
        .where(uploads.c.hour >= start, uploads.c.hour < end)
        .order_by(uploads.c.hour, uploads.c.form)
    )
    for hour, form, outcome, count in rows:
        found[hour, form][outcome] = count
    return found


async def forget(transaction: Transaction, before: datetime) -> None:
    """Drop the hours before an instant."""
    await transaction.execute(delete(uploads).where(uploads.c.hour < before))
