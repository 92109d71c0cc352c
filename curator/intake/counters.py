"""Counters (`total_increasing`): what is summed is the difference to the reading before,

    delta = total(next) - total(t), booked at t, where its interval begins

- The newest reading of a counter gives no delta yet.
- A smaller total is a rollover if the item declares the counter's size (`rollover`) and the delta
  across the end is below half of it; otherwise the meter was replaced or reset: the new one
  counts from zero, so the delta is the new total. What the old meter counted after its last
  reading is lost.
- A dip is passed over: readings below the one before them, where the counter is back at that one
  or above within an hour. A device that restarts sends 0 until it has read its meter; two devices
  with one id do the same. The step across is booked before the dip, and nothing in it. A counter
  that was really reset and passed its old total within the hour is booked too low, by that total.
- A late reading splits the interval that contains it: the delta before it is computed again, and
  where it ends a dip, those of the dip; a contribution that was made before is not changed.
- A step beyond what a reading can be (2^61 nano-units) is booked as that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from common.store.database import exclusive
from common.store.transactions import Transaction
from curator.intake.reading import MAX_STORED
from curator.store import bulk_insert
from curator.store.bulk_insert import Meter, Total
from curator.store.readings import Row

DIP_US: Final = 3600 * 10**6
ACCEPTED, DUPLICATE, CONFLICT = "accepted", "duplicate", "conflict"


def difference(before: int, now: int, rollover: int | None) -> int:
    """What a counter counted between two readings, by the rules above."""
    step = now
    if now >= before:
        step = now - before
    elif rollover is not None and 2 * (now + rollover - before) < rollover:
        step = now + rollover - before
    return min(step, MAX_STORED)


def _dips(totals: Sequence[Total]) -> list[bool]:
    """Which readings are in a dip, of a counter's in their order."""
    begun = [0] * (len(totals) + 1)
    waiting: list[int] = []  # readings that no later one has reached; their totals descend
    for place, (time, total, _) in enumerate(totals):
        while waiting and totals[waiting[-1]][1] <= total:
            before = waiting.pop()
            if place > before + 1 and time - totals[before][0] <= DIP_US:
                begun[before + 1] += 1
                begun[place] -= 1
        waiting.append(place)
    return [depth > 0 for depth in accumulate(begun[:-1])]


def deltas_of(totals: Sequence[Total]) -> dict[int, int]:
    """What a counter counted from each reading on, by its time."""
    dips = _dips(totals)
    deltas = {total[0]: 0 for total, dip in zip(totals, dips, strict=True) if dip}
    valid = [total for total, dip in zip(totals, dips, strict=True) if not dip]
    for before, after in pairwise(valid):
        deltas[before[0]] = difference(before[1], after[1], after[2])
    return deltas


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
    """Readings of one counter, merged: a status each, new totals, deltas by their time."""

    statuses: tuple[str, ...]
    totals: tuple[Total, ...]
    deltas: tuple[tuple[int, int], ...]
    corrected: tuple[int, ...] = ()
    """Which of those sent replaced another total."""


def merge_totals(known: Sequence[Total], sent: Sequence[Sent]) -> Merged:
    """Merge readings, in order, with the known ones around them; the result is the same as if they
    arrived one after the other, in any order. Only deltas that change are returned."""
    earlier = deltas_of(known)
    totals = {time: (total, rollover) for time, total, rollover in known}
    new: set[int] = set()
    statuses = []
    corrected = []
    for place, meter in enumerate(sent):
        there = totals.get(meter.time)
        if there is not None and there[0] == meter.total:
            statuses.append(DUPLICATE)
        elif there is not None and not meter.correction:
            statuses.append(CONFLICT)
        else:
            totals[meter.time] = (meter.total, meter.rollover)
            new.add(meter.time)
            statuses.append(ACCEPTED)
            corrected += [place] * (there is not None)
    now = deltas_of([(time, *totals[time]) for time in sorted(totals)])
    deltas = tuple((time, now[time]) for time in sorted(now) if earlier.get(time) != now[time])
    changed = tuple((time, *totals[time]) for time in sorted(new))
    return Merged(tuple(statuses), changed, deltas, tuple(corrected))


async def _around(transaction: Transaction, meter: Meter, sent: Sequence[Sent]) -> list[Total]:
    """The known readings on which what is booked may depend: the neighbours of those sent, or two
    hours on both sides where there may be a dip (a reading in one depends on others within one)."""
    first, last = min(each.time for each in sent), max(each.time for each in sent)
    near = await bulk_insert.around(transaction, meter, first, last)
    order = sorted([(time, total) for time, total, _ in near] + [(s.time, s.total) for s in sent])
    highest = await bulk_insert.highest(transaction, meter, first - DIP_US, first)
    ascending = all(before[1] <= after[1] for before, after in pairwise(order))
    if ascending and highest <= order[0][1] and not any(each.correction for each in sent):
        return near
    wide = (first - 2 * DIP_US, last + 2 * DIP_US)
    return await bulk_insert.around(transaction, meter, *wide)


async def take_totals(
    transaction: Transaction, sent: dict[Meter, list[Sent]], curators: dict[int, int]
) -> dict[Meter, Merged]:
    """Store readings of many counters and the resulting deltas. `curators` maps each device to its
    curator."""
    result: dict[Meter, Merged] = {}
    totals: list[tuple[Meter, Total]] = []
    rows: list[Row] = []
    for meter in sorted(sent):  # everybody locks in the same order
        device, register = meter
        await exclusive(transaction, f"counter {device}")
        around = await _around(transaction, meter, sent[meter])
        merged = merge_totals(around, sent[meter])
        result[meter] = merged
        totals += [(meter, total) for total in merged.totals]
        randoms = {total.time: total.random for total in sent[meter]}
        spare = sent[meter][0].random ^ 1
        rows += [
            (register, time, device, curators[device], delta, randoms.get(time, spare), None)
            for time, delta in merged.deltas
        ]
    await bulk_insert.put_totals(transaction, totals)
    await bulk_insert.put_readings(transaction, sorted(rows, key=lambda row: row[:3]))
    return result
