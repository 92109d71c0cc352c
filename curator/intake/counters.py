"""Counters (`total_increasing`): what is summed is the difference to the reading before.

    delta = total(next) - total(t), booked at t, where its interval begins

so that a half-open window holds the intervals that begin in it.

- The newest reading of a counter gives no delta yet: the next reading is not known.
- A smaller total is a **rollover** if the item declares the counter's size (`rollover`) and the
  delta across the end is below half of it; otherwise the meter was **replaced** (or reset): the
  new one counts from zero, so the delta is the new total. What the old meter counted between its
  last reading and its removal is lost.
- A late reading splits the interval that contains it: the delta before it is computed again. A
  contribution that was made before is not changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from common.store.database import exclusive
from common.store.transactions import Transaction
from curator.store import counters as store
from curator.store.counters import Meter, Total
from curator.store.readings import Row

ACCEPTED, DUPLICATE, CONFLICT = "accepted", "duplicate", "conflict"


def difference(before: int, now: int, rollover: int | None) -> int:
    """What a counter counted between two readings, by the rules above."""
    if now >= before:
        return now - before
    if rollover is not None and 2 * (now + rollover - before) < rollover:
        return now + rollover - before
    return now


@dataclass(frozen=True)
class Sent:
    """A counter's reading as received. `random` fixes the place of its delta in the order."""

    time: int
    total: int
    rollover: int | None
    random: int
    correction: bool = False


@dataclass(frozen=True)
class Merged:
    """What becomes of readings of one counter: a status each, new totals, deltas by their time."""

    statuses: tuple[str, ...]
    totals: tuple[Total, ...]
    deltas: tuple[tuple[int, int], ...]


def merge(known: Sequence[Total], sent: Sequence[Sent]) -> Merged:
    """Merge readings, in order, with the known ones around them; the result is the same as if they
    arrived one after the other, in any order."""
    totals = {time: (total, rollover) for time, total, rollover in known}
    new: set[int] = set()
    statuses = []
    for each in sent:
        there = totals.get(each.time)
        if there is not None and there[0] == each.total:
            statuses.append(DUPLICATE)
        elif there is not None and not each.correction:
            statuses.append(CONFLICT)
        else:
            totals[each.time] = (each.total, each.rollover)
            new.add(each.time)
            statuses.append(ACCEPTED)
    deltas = tuple(
        (before, difference(totals[before][0], *totals[after]))
        for before, after in pairwise(sorted(totals))
        if before in new or after in new
    )
    return Merged(tuple(statuses), tuple((time, *totals[time]) for time in sorted(new)), deltas)


async def take(
    transaction: Transaction, sent: dict[Meter, list[Sent]], curators: dict[int, int]
) -> dict[Meter, tuple[str, ...]]:
    """Store readings of many counters and the resulting deltas; a status each. `curators` maps each
    device to its curator."""
    found: dict[Meter, tuple[str, ...]] = {}
    totals: list[tuple[Meter, Total]] = []
    rows: list[Row] = []
    for meter in sorted(sent):  # everybody locks in the same order
        device, register = meter
        await exclusive(transaction, f"counter {device}")
        times = [each.time for each in sent[meter]]
        known = await store.around(transaction, meter, min(times), max(times))
        merged = merge(known, sent[meter])
        found[meter] = merged.statuses
        totals += [(meter, total) for total in merged.totals]
        randoms = {each.time: each.random for each in sent[meter]}
        spare = sent[meter][0].random ^ 1
        rows += [
            (register, time, device, curators[device], delta, randoms.get(time, spare), None)
            for time, delta in merged.deltas
        ]
    await store.put_totals(transaction, totals)
    await store.put_readings(transaction, rows)
    return found
