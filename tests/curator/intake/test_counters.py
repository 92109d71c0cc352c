"""Counters taken together are what they are one after the other, in any order."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from common.store.transactions import Transaction
from curator.intake.counters import (
    ACCEPTED,
    CONFLICT,
    DIP_US,
    DUPLICATE,
    Sent,
    Total,
    difference,
    merge_totals,
    take_totals,
)

SENT = st.builds(
    Sent,
    time=st.integers(0, 12).map(lambda part: part * DIP_US // 6),
    total=st.integers(0, 30),
    rollover=st.none() | st.just(32),
    random=st.integers(0, 1000),
    correction=st.booleans(),
)


def one_by_one(sent: list[Sent]) -> tuple[list[str], dict[int, int], list[Total]]:
    """Each reading by itself."""
    totals: dict[int, tuple[int, int | None]] = {}
    deltas: dict[int, int] = {}
    statuses = []
    for each in sent:
        merged = merge_totals([(t, *totals[t]) for t in sorted(totals)], [each])
        statuses += merged.statuses
        totals |= {time: (total, rollover) for time, total, rollover in merged.totals}
        deltas |= dict(merged.deltas)
    return statuses, deltas, [(t, *totals[t]) for t in sorted(totals)]


@given(sent=st.lists(SENT, max_size=30), cut=st.integers(0, 30))
def test_together_or_one_by_one(sent: list[Sent], cut: int) -> None:
    statuses, deltas, totals = one_by_one(sent)
    first = merge_totals([], sent[:cut])
    second = merge_totals(first.totals, sent[cut:])
    assert list(first.statuses + second.statuses) == statuses
    assert dict(first.deltas) | dict(second.deltas) == deltas
    assert deltas == plainly(totals)


def plainly(totals: list[Total]) -> dict[int, int]:
    """What is booked, by the words of the rules."""
    dips = {
        within[0]
        for first, before in enumerate(totals)
        for last, back in enumerate(totals[first + 1 :], first + 1)
        if back[1] >= before[1] and back[0] - before[0] <= DIP_US
        if all(within[1] < before[1] for within in totals[first + 1 : last])
        for within in totals[first + 1 : last]
    }
    valid = [total for total in totals if total[0] not in dips]
    booked = {a[0]: difference(a[1], b[1], b[2]) for a, b in pairwise(valid)}
    return booked | dict.fromkeys(dips, 0)


@given(totals=st.dictionaries(st.integers(0, 50), st.integers(0, 10**6), min_size=2))
def test_a_counter_that_only_grows_gives_back_what_it_counted(totals: dict[int, int]) -> None:
    times = sorted(totals)
    grown = dict(zip(times, sorted(totals.values()), strict=True))
    sent = [Sent(time, grown[time], None, 0) for time in totals]
    merged = merge_totals([], sent)
    assert sum(delta for _, delta in merged.deltas) == grown[times[-1]] - grown[times[0]]
    assert [time for time, _ in merged.deltas] == times[:-1]


@pytest.mark.parametrize(
    ("before", "now", "rollover", "counted"),
    [
        (90, 10, 100, 20),
        (51, 0, 100, 49),
        (50, 0, 100, 0),  # half of it is a replaced meter, which counts from zero
        (60, 10, 100, 10),
        (51, 0, 101, 50),  # below half of an odd size
        (50, 0, 101, 0),
        (60, 10, None, 10),
        (10, 10, 100, 0),
        (10, 60, 100, 50),
    ],
)
def test_a_rollover_is_less_than_half_of_the_counter(
    before: int, now: int, rollover: int | None, counted: int
) -> None:
    assert difference(before, now, rollover) == counted


def test_a_time_that_is_known_keeps_its_total_unless_it_is_corrected() -> None:
    known: list[Total] = [(5, 10, None), (7, 12, None)]
    sent = [
        Sent(5, 10, None, 1),
        Sent(5, 11, None, 2),
        Sent(5, 11, 99, 3, correction=True),
        Sent(5, 10, None, 4),
        Sent(7, 12, 99, 5, correction=True),
    ]
    merged = merge_totals(known, sent)
    assert merged.statuses == (DUPLICATE, CONFLICT, ACCEPTED, CONFLICT, DUPLICATE)
    assert merged.totals == ((5, 11, 99),)
    assert merged.deltas == ((5, 1),)


def test_what_is_sent_and_what_follows_cannot_be_changed() -> None:
    for item, name in ((Sent(0, 0, None, 0), "total"), (merge_totals([], []), "deltas")):
        with pytest.raises(FrozenInstanceError):
            setattr(item, name, None)


async def test_a_delta_has_the_place_of_its_own_reading_or_a_spare_one(
    transaction: Transaction,
) -> None:
    """The newest reading has no delta yet: its place is made up when the next one comes."""
    meter, other = (3, 1), (4, 1)
    curators = {3: 30, 4: 40}

    async def rows() -> list[tuple[int, ...]]:
        found = await transaction.execute(
            text("SELECT device, curator, time, quantity, random FROM reading ORDER BY 1, 3")
        )
        return [tuple(row) for row in found]

    first = await take_totals(transaction, {meter: [Sent(0, 100, None, 8)]}, curators)
    assert (first[meter].statuses, await rows()) == ((ACCEPTED,), [])
    second = await take_totals(
        transaction,
        {
            other: [Sent(5, 1, None, 90), Sent(6, 4, None, 91)],
            meter: [Sent(10, 105, None, 6), Sent(10, 105, None, 6), Sent(20, 106, None, 9)],
        },
        curators,
    )
    statuses = {name: merged.statuses for name, merged in second.items()}
    assert statuses == {meter: (ACCEPTED, DUPLICATE, ACCEPTED), other: (ACCEPTED, ACCEPTED)}
    assert [row[:4] for row in await rows()] == [(3, 30, 0, 5), (3, 30, 10, 1), (4, 40, 5, 3)]
    assert [row[4] for row in await rows()] == [7, 6, 90]
