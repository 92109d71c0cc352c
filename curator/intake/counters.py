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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from common.store.transactions import Transaction
from curator.intake.reading import MAX_STORED
from curator.store import bulk_insert
from curator.store.blocks import Columns
from curator.store.bulk_insert import Span
from curator.store.readings import Row

Total = tuple[int, int, int | None]
"""time, total, rollover."""
Meter = tuple[int, int]
"""device, register."""
DIP_US: Final = 3600 * 10**6
ACCEPTED, DUPLICATE, CONFLICT = OUTCOMES = "accepted", "duplicate", "conflict"


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


async def _known(
    transaction: Transaction, register: int, sent: Mapping[int, Sequence[Sent]]
) -> dict[int, list[Total]]:
    """By device, the stored readings that can change the amounts: the neighbours of the new
    ones, or all within two hours before and after if the counter may have dipped for an hour."""
    spans = [
        (device, min(each.time for each in items), max(each.time for each in items))
        for device, items in sent.items()
    ]
    near = await _around(transaction, register, spans)
    hours = [(device, first - DIP_US, first) for device, first, _ in spans]
    highest = await bulk_insert.highest(transaction, register, hours)
    wide = []
    for (device, first, last), high in zip(spans, highest, strict=True):
        items = sent[device]
        totals = [(time, total) for time, total, _ in near[device]]
        order = sorted([*totals, *((each.time, each.total) for each in items)])
        ascending = all(before[1] <= after[1] for before, after in pairwise(order))
        if not ascending or high > order[0][1] or any(each.correction for each in items):
            wide.append((device, first - 2 * DIP_US, last + 2 * DIP_US))
    return near | await _around(transaction, register, wide)


async def _around(
    transaction: Transaction, register: int, spans: Sequence[Span]
) -> dict[int, list[Total]]:
    around: dict[int, list[Total]] = {device: [] for device, *_ in spans}
    totals_around = await bulk_insert.around(transaction, register, spans)
    for place, time, total, rollover in totals_around:
        around[spans[place][0]].append((time, total, rollover))
    return around


async def take_totals(
    transaction: Transaction, sent: Mapping[Meter, Sequence[Sent]], curators: Mapping[int, int]
) -> dict[Meter, Merged]:
    """Store readings of many counters and the resulting deltas.

    `curators` maps each device to its curator. The transaction has locked them
    (`lock_curators`), so stored readings do not change meanwhile.
    """
    result: dict[Meter, Merged] = {}
    totals: list[tuple[int, int, int, int, int | None]] = []
    rows: list[Row] = []
    for register in sorted({register for _, register in sent}):
        items_of_register = {
            device: items for (device, key), items in sent.items() if key == register
        }
        stored = await _known(transaction, register, items_of_register)
        for device, items in items_of_register.items():
            merged = merge_totals(stored[device], items)
            result[device, register] = merged
            totals += [(device, register, *total) for total in merged.totals]
            randoms = {total.time: total.random for total in items}
            spare = items[0].random ^ 1
            rows += [
                (register, time, device, curators[device], delta, randoms.get(time, spare), None)
                for time, delta in merged.deltas
            ]
    await bulk_insert.put_totals(transaction, sorted(totals, key=lambda row: row[:3]))
    await bulk_insert.put_readings(transaction, sorted(rows, key=lambda row: row[:3]))
    return result


async def take_columns(
    transaction: Transaction, register: int, columns: Columns, rollover: int | None
) -> NDArray[np.int8]:
    """As `take_totals` for one register, as columns by time: their outcomes, as the indices of
    ACCEPTED, DUPLICATE and CONFLICT in `OUTCOMES`. Nothing is corrected.

    A counter that never falls, as nearly all, is processed by column; the amounts of the others
    follow from `merge_totals`.
    """
    devices, first, place = np.unique(columns.devices, return_index=True, return_inverse=True)
    last = columns.times.size - 1 - np.unique(columns.devices[::-1], return_index=True)[1]
    ends = (devices, columns.times[first], columns.times[last])
    spans = list(zip(*(end.tolist() for end in ends), strict=True))
    near = await bulk_insert.around(transaction, register, spans)
    hours = [(device, begin - DIP_US, begin) for device, begin, _ in spans]
    highest = np.array(await bulk_insert.highest(transaction, register, hours), np.int64)
    there = np.array([row[:3] for row in near], np.int64).reshape(-1, 3)

    # All of them, by device and time: of one time the known one is first, then those sent.
    stored_count = there.shape[0]
    whose = np.concatenate([there[:, 0], place])
    when = np.concatenate([there[:, 1], columns.times])
    totals = np.concatenate([there[:, 2], columns.quantities])
    sent = np.arange(whose.size) - stored_count
    order = np.lexsort((sent, when, whose))
    whose, when, totals, sent = whose[order], when[order], totals[order], sent[order]
    heads = np.concatenate(([True], (whose[1:] != whose[:-1]) | (when[1:] != when[:-1])))
    same = totals == totals[np.maximum.accumulate(np.where(heads, np.arange(heads.size), 0))]
    outcome_of = np.where(heads, 0, np.where(same, 1, 2)).astype(np.int8)
    outcomes = np.empty(columns.times.size, np.int8)
    outcomes[sent[sent >= 0]] = outcome_of[sent >= 0]

    whose, when, totals, sent = whose[heads], when[heads], totals[heads], sent[heads]
    follows = whose[1:] == whose[:-1]
    steps = np.diff(totals)
    begins = np.concatenate(([True], ~follows))
    uneven = np.zeros(devices.size, np.bool_)
    uneven[whose[1:][follows & (steps < 0)]] = True
    uneven |= highest > totals[begins]
    falls = uneven[whose]

    new = sent >= 0
    at = np.flatnonzero(new & ~falls)
    await bulk_insert.put_totals(
        transaction,
        [
            (device, register, time, total, rollover)
            for device, time, total in _lists(devices[whose[at]], when[at], totals[at])
        ],
    )
    changed = np.flatnonzero(follows & (new[1:] | new[:-1]) & ~falls[1:])
    columns_of = np.where(new[changed], sent[changed], first[whose[changed]])
    # A known reading that has had none after it is not booked yet: its place is made up.
    randoms = np.where(new[changed], columns.randoms[columns_of], columns.randoms[columns_of] ^ 1)
    booked = (
        *(when[changed], devices[whose[changed]], columns.curators[columns_of]),
        *(np.minimum(steps[changed], MAX_STORED), randoms),
    )
    by_place = np.lexsort((booked[1], booked[0]))
    rows = zip(*(column[by_place].tolist() for column in booked), strict=True)
    await bulk_insert.put_readings(transaction, [(register, *row, None) for row in rows])

    places_left = np.flatnonzero(uneven[place])
    if places_left.size:
        items: dict[Meter, list[Sent]] = {}
        places: dict[Meter, list[int]] = {}
        some = columns[places_left]
        sending = _lists(places_left, some.times, some.devices, some.quantities, some.randoms)
        for number, time, device, total, random in sending:
            items.setdefault((device, register), []).append(Sent(time, total, rollover, random))
            places.setdefault((device, register), []).append(number)
        whom = dict(zip(some.devices.tolist(), some.curators.tolist(), strict=True))
        for meter, merged in (await take_totals(transaction, items, whom)).items():
            outcomes[places[meter]] = [OUTCOMES.index(status) for status in merged.statuses]
    return outcomes


def _lists(*columns: NDArray[np.int64]) -> Iterator[tuple[int, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)
