"""Counters (`total_increasing`): what is summed is the difference to the reading before.

    delta = total(next) - total(t), booked at t, where its interval begins

so that a half-open window holds the intervals that begin in it.

- The newest reading of a counter gives no delta yet: nobody knows what follows.
- A smaller total is a **rollover** if the item declares the counter's size (`rollover`) and the
  delta across the end is below half of it; otherwise the meter was **replaced** (or reset): the
  new one counts from zero, so the delta is the new total. What the old meter counted between its
  last reading and its removal is lost.
- A late reading splits the interval that it falls into: the delta before it is computed again. A
  contribution that was made before stays as it was.
"""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncConnection

from curator.items import Item
from curator.store import readings as store

Place = tuple[int, int, int]
"""register, time, device."""


def difference(before: int, now: int, rollover: int | None) -> int:
    """What a counter counted between two readings, by the rules above."""
    if now >= before:
        return now - before
    if rollover is not None and now + rollover - before < rollover // 2:
        return now + rollover - before
    return now


async def take(
    connection: AsyncConnection,
    place: Place,
    curator: int,
    item: Item,
    random: int,
    correction: bool,
) -> str:
    """Store a counter's total and the deltas that follow; the status of the item."""
    register, time, device = place
    known = await store.counter(connection, device, register, time)
    if known is not None and known[0] == item.quantity:
        return "duplicate"
    if known is not None and not correction:
        return "conflict"
    await store.put_counter(connection, device, register, time, item.quantity, item.rollover)
    before, after = await store.neighbours(connection, device, register, time)
    if before is not None:
        delta = difference(before[1], item.quantity, item.rollover)
        await store.put_reading(
            connection, (register, before[0], device, curator, delta, random ^ 1, None)
        )
    if after is not None:
        delta = difference(item.quantity, after[1], after[2])
        await store.put_reading(connection, (register, time, device, curator, delta, random, None))
    return "accepted"
