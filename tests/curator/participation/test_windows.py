"""Rounds over one window that are due together read it in one scan, each its own curators."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from common.store.transactions import Database
from common.web.dependencies import part_of
from curator.participation.windows import Windows
from curator.store import parties
from tests.curator.conftest import HOUR, OPEN, PLAIN, START, Site, query

NAMES = [f"meter-{number:02d}" for number in range(30)]


async def first_key(s: Site) -> int:
    """Of the host's first curator in the store."""
    async with part_of(s.app, Database).reading() as transaction:
        found = await parties.party(transaction, "party")
    assert found is not None
    return found.first_key


async def with_readings(s: Site) -> None:
    """Thirty curators, each third without a reading, each fifth with four."""
    await s.policy(**OPEN)
    await s.enrol("party", NAMES)
    for number, name in enumerate(NAMES):
        if number % 3:
            for minute in range(4 if number % 5 == 0 else 1):
                await s.reading(name, f"{number}.{minute}", minute=minute)


@pytest.mark.parametrize("reach", [1000, 7])
async def test_each_round_gets_the_readings_that_it_would_read_alone(s: Site, reach: int) -> None:
    await with_readings(s)
    asked = [
        query(PLAIN, name="one", max_readings=1),
        query(PLAIN, name="all", max_readings=10),
        query(PLAIN, name="another", max_readings=10),
    ]
    descriptors = [s.open(each) for each in asked]
    descriptors.append(s.open(asked[1], start=START - HOUR))
    database = part_of(s.app, Database)
    windows = Windows(database)
    first = await first_key(s)
    scans = []
    for descriptor in descriptors:
        source = replace(await windows.source(descriptor), reach=reach)
        groups = range(first, first + len(NAMES), 5)
        scans += [(source, (start, start + 5)) for start in groups]
    scans.append((scans[0][0], (first, first)))
    together = await asyncio.gather(*(windows.load(*each) for each in scans))
    for (source, keys), found in zip(scans, together, strict=True):
        async with database.reading() as transaction:
            alone = await source.load(transaction, keys)
        for name in ("curator", "quantity", "offset"):
            assert np.array_equal(getattr(alone, name), getattr(found, name)), (keys, name)
    assert sum(each.curator.size for each in together) > 0
