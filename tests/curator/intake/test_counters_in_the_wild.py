"""Counters as devices really send them: what is booked of each, in any order of arrival."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from common.store.transactions import Transaction
from curator.errors import BadItem
from curator.intake.counters import ACCEPTED, OUTCOMES, Sent, take_columns, take_totals
from curator.intake.reading import MAX_STORED, Times, parse_item
from curator.store.blocks import Columns

MINUTE = 60 * 10**6
DAY = 24 * 60
TIMES = Times(946_684_800 * 10**6, 2 * 10**15)

Totals = list[tuple[int, int]]
"""Minute and total, in the order of arrival."""

WILD: dict[str, tuple[Totals, int | None, dict[int, int]]] = {
    # name: totals, rollover, what is booked by minute
    "a restart sends 0 and comes back": (
        [(0, 9000), (5, 9001), (6, 0), (7, 0), (8, 9002), (13, 9003)],
        None,
        {0: 1, 5: 1, 6: 0, 7: 0, 8: 1},
    ),
    "a restart at the same total": ([(0, 9000), (1, 0), (2, 9000)], None, {0: 0, 1: 0}),
    "a restart comes back after just an hour": (
        [(0, 9000), (30, 0), (60, 9002)],
        None,
        {0: 2, 30: 0},
    ),
    "a restart that lasts longer than an hour is a new meter": (
        [(0, 9000), (30, 0), (61, 9002)],
        None,
        {0: 0, 30: 9002},
    ),
    "a restart with the size of the counter declared": (
        [(0, 9000), (5, 0), (10, 9001)],
        10_000,
        {0: 1, 5: 0},
    ),
    "a negative spike": ([(0, 9000), (15, 37), (30, 9002)], None, {0: 2, 15: 0}),
    "a reset to zero that counts on": (
        [(0, 9000), (15, 0), (30, 2), (45, 3)],
        None,
        {0: 0, 15: 2, 30: 1},
    ),
    "another meter, with the old one's last and the new one's first reading": (
        [(0, 9000), (DAY, 9010), (DAY + 1, 0), (2 * DAY, 8)],
        None,
        {0: 10, DAY: 0, DAY + 1: 8},
    ),
    "another meter that was used before": (
        [(0, 9000), (DAY, 500), (2 * DAY, 508)],
        None,
        {0: 500, DAY: 8},
    ),
    "two devices with one id": (
        [(0, 9000), (1, 20), (5, 9001), (6, 21), (10, 9002)],
        None,
        {0: 1, 1: 0, 5: 1, 6: 0},
    ),
    "two devices with one id, less than hourly": (
        [(0, 9000), (90, 20), (180, 9001)],
        None,
        {0: 20, 90: 8981},
    ),
    "rollover at 99,999.9": ([(0, 999_997), (15, 2), (30, 4)], 10**6, {0: 5, 15: 2}),
    "rollover of 32 bits": ([(0, 2**32 - 3), (15, 4)], 2**32, {0: 7}),
    "rollover that is not declared": ([(0, 2**32 - 3), (15, 4)], None, {0: 4}),
    "days late": (
        [(0, 100), (4 * DAY, 140), (2 * DAY, 125), (DAY, 110), (5 * DAY, 150)],
        None,
        {0: 10, DAY: 15, 2 * DAY: 15, 4 * DAY: 10},
    ),
    "late readings before a dip": (
        [(10, 0), (11, 0), (12, 9002), (0, 9000), (5, 9001)],
        None,
        {0: 1, 5: 1, 10: 0, 11: 0},
    ),
    "a step beyond what a reading can be": ([(0, 0), (15, MAX_STORED + 5)], None, {0: MAX_STORED}),
}


async def booked(transaction: Transaction, device: int) -> dict[int, int]:
    """What is stored of a device, by minute."""
    query = text("SELECT time, quantity FROM reading WHERE device = :device")
    rows = await transaction.execute(query, {"device": device})
    return {row.time // MINUTE: row.quantity for row in rows}


@pytest.mark.parametrize("name", WILD)
async def test_what_is_booked(transaction: Transaction, name: str) -> None:
    """One by one as they arrive, backwards, and together."""
    totals, rollover, expected = WILD[name]
    sent = [Sent(minute * MINUTE, total, rollover, 2 * minute) for minute, total in totals]
    orders = [[[each] for each in sent], [[each] for each in sent[::-1]], [sent]]
    for device, arrivals in enumerate(orders, 1):
        for items in arrivals:
            merged = await take_totals(transaction, {(device, 1): items}, {device: 10})
            assert merged[device, 1].statuses == (ACCEPTED,) * len(items)
        assert await booked(transaction, device) == expected


async def test_any_order_in_any_parts_is_booked_alike(transaction: Transaction) -> None:
    """Random counters with dips and resets, in random parts: as if they came together."""
    draw = random.Random(5)
    for device in range(1, 120, 2):
        totals = {
            minute: draw.choice([0, 3, 9000, 9001, 9002, 9000 + minute])
            for minute in draw.sample(range(0, 400, 5), 12)
        }
        sent = [Sent(minute * MINUTE, total, None, 2 * minute) for minute, total in totals.items()]
        await take_totals(transaction, {(device, 1): sent}, {device: 10})
        while sent:
            part, sent = sent[:2], sent[2:]
            await take_totals(transaction, {(device + 1, 1): part}, {device + 1: 10})
        assert await booked(transaction, device + 1) == await booked(transaction, device), totals


GOOD: dict[str, Any] = {
    "time": "2025-12-31T12:00:00Z",
    "value": "5",
    "unit": "kWh",
    "kind": "total_increasing",
}


@pytest.mark.parametrize("unit", ["Wh", "1"])
def test_a_counter_of_32_bits_fits(unit: str) -> None:
    raw = {**GOOD, "register": "pulses", "unit": unit}
    item = parse_item({**raw, "value": str(2**32 - 1), "rollover": str(2**32)}, TIMES, 8)
    assert (item.quantity, item.rollover) == ((2**32 - 1) * 10**9, 2**32 * 10**9)
    with pytest.raises(BadItem, match="too large"):
        parse_item({**raw, "value": str(2**33)}, TIMES, 8)
    with pytest.raises(BadItem, match="too large"):
        parse_item({**raw, "value": str(2**32 - 1), "kind": "delta"}, TIMES, 8)


async def test_columns_are_booked_as_readings_one_by_one(transaction: Transaction) -> None:
    """Many counters by column, in random parts with repetitions: what is answered and what is
    booked are those of single readings, whether a counter falls or not."""
    draw = random.Random(7)
    devices = range(1, 60)
    sent = []
    for device in devices:
        grown = 0
        for minute in sorted(draw.sample(range(0, 400, 5), 14)):
            grown += draw.choice([0, 1, 7])
            falls = device % 3 == 0 and draw.random() < 0.3
            total = draw.choice([0, grown // 2]) if falls else grown
            sent.append((minute * MINUTE, device, total))
    sent += [(time, device, total + draw.choice([0, 0, 1])) for time, device, total in sent[::9]]
    draw.shuffle(sent)
    while sent:
        part, sent = sorted(sent[:150], key=lambda each: each[:2]), sent[150:]
        one_by_one = []
        for time, device, total in part:
            meter, item = (device + 100, 1), Sent(time, total, None, 0)
            merged = await take_totals(transaction, {meter: [item]}, {device + 100: 10})
            one_by_one.append(merged[meter].statuses[0])
        times, keys, totals = (np.array(column, np.int64) for column in zip(*part, strict=True))
        columns = Columns(times, keys, np.full_like(keys, 10), totals, np.arange(keys.size))
        outcomes = await take_columns(transaction, 1, columns, None)
        assert [OUTCOMES[outcome] for outcome in outcomes] == one_by_one
    for device in devices:
        by_columns = await booked(transaction, device)
        assert by_columns
        assert by_columns == await booked(transaction, device + 100)
