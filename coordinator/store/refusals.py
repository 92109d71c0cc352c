"""Refusals of rounds, a row for each party; a row never changes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, bindparam, func, insert, select

from common.runtime.clock import first_uuid7
from common.store.transactions import Transaction
from coordinator.store.tables import parties, refusals
from tacit.protocol.round.descriptor import Refusal, RefusalGround

# Asked again and again of every round: made once, and so compiled once.
_AFTER = (
    select(refusals.c.id, parties.c.first, parties.c.curators, refusals.c.members)
    .join(parties, parties.c.id == refusals.c.party)
    .where(refusals.c.round_id == bindparam("of_round"), refusals.c.id > bindparam("last"))
    .order_by(refusals.c.id)
)


@dataclass(frozen=True)
class RefusalRow:
    """A party's refusal: `members` is a bitmap over its run of roster numbers."""

    id: int
    first: int
    curators: int
    members: bytes


async def add(
    transaction: Transaction, round_id: str, party: str, refusal: Refusal, made: datetime
) -> None:
    """Keep a party's refusal; it has none of this round yet."""
    counts = {ground.value: refusal.grounds.get(ground, 0) for ground in RefusalGround}
    await transaction.execute(
        insert(refusals).values(
            round_id=round_id, party=party, members=refusal.members, made=made, **counts
        )
    )


async def find(transaction: Transaction, round_id: str, party: str) -> Refusal | None:
    """A party's stored refusal."""
    found = await transaction.execute(
        select(refusals).where(refusals.c.round_id == round_id, refusals.c.party == party)
    )
    row = found.first()
    if row is None:
        return None
    counts = {ground: row._mapping[ground.value] for ground in RefusalGround}
    grounds = {ground: count for ground, count in counts.items() if count}
    return Refusal(members=row.members, grounds=grounds)


async def after(transaction: Transaction, round_id: str, last: int) -> list[RefusalRow]:
    """A round's refusals above a row id, in the order in which they were committed."""
    rows = await transaction.execute(_AFTER, {"of_round": round_id, "last": last})
    return [RefusalRow(row.id, row.first, row.curators, row.members) for row in rows]


async def counts(transaction: Transaction, round_id: str) -> dict[RefusalGround, int]:
    """How many curators refuse a round on each ground that there is."""
    return await _counts(transaction, refusals.c.round_id == round_id)


async def counts_between(
    transaction: Transaction, start: datetime, end: datetime
) -> dict[RefusalGround, int]:
    """The same of all rounds that were opened from `start` to before `end`."""
    first, after = first_uuid7(start), first_uuid7(end)
    return await _counts(transaction, refusals.c.round_id >= first, refusals.c.round_id < after)


async def _counts(
    transaction: Transaction, *which: ColumnElement[bool]
) -> dict[RefusalGround, int]:
    sums = [func.sum(refusals.c[ground.value]) for ground in RefusalGround]
    row = (await transaction.execute(select(*sums).where(*which))).one()
    return {ground: int(count) for ground, count in zip(RefusalGround, row, strict=True) if count}
