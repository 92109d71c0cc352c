"""A curator's own sequences and sets of items, each table by its kind and its name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from sqlalchemy import delete, insert, select

from common.store.transactions import Transaction
from curator.store.tables import item_tables
from tacit.encoders.counts import Ints, Lists


@dataclass(frozen=True)
class Outline:
    """What is told of a table."""

    name: str
    records: int
    timed: bool


@dataclass(frozen=True, eq=False)
class StoredItems:
    """A table: its records, over the ids of its own universe; times (n,): of each record, in
    microseconds since 1970; None where they have none."""

    curator: int
    universe: tuple[str, ...]
    lists: Lists
    times: Ints | None = None

    def within(self, start: int, end: int) -> Lists | None:
        """The records from a time until before another one, the others empty; None without
        times."""
        if self.times is None:
            return None
        return self.lists.only((self.times >= start) & (self.times < end))


async def put(
    transaction: Transaction,
    place: tuple[int, str, str],
    universe: Sequence[str],
    lists: Lists,
    times: Ints | None,
    now: datetime,
) -> None:
    """Store a table in place of the one before. place: key of the curator, kind, name."""
    await drop(transaction, place)
    curator, kind, name = place
    await transaction.execute(
        insert(item_tables).values(
            curator=curator,
            kind=kind,
            name=name,
            records=lists.count,
            universe=json.dumps(list(universe)).encode(),
            items=lists.items.astype("<i4").tobytes(),
            starts=lists.starts.astype("<i8").tobytes(),
            stored=now,
            times=None if times is None else times.astype("<i8").tobytes(),
        )
    )


async def drop(transaction: Transaction, place: tuple[int, str, str]) -> None:
    """Delete a table, if there is one."""
    curator, kind, name = place
    await transaction.execute(
        delete(item_tables).where(
            item_tables.c.curator == curator,
            item_tables.c.kind == kind,
            item_tables.c.name == name,
        )
    )


async def outlines(transaction: Transaction, curator: int, kind: str) -> list[Outline]:
    """The tables of a kind that a curator has, by name."""
    query = (
        select(
            item_tables.c.name,
            item_tables.c.records,
            item_tables.c.times.is_not(None).label("timed"),
        )
        .where(item_tables.c.curator == curator, item_tables.c.kind == kind)
        .order_by(item_tables.c.name)
    )
    return [
        Outline(row.name, row.records, bool(row.timed)) for row in await transaction.execute(query)
    ]


async def tables(
    transaction: Transaction,
    table: tuple[str, str],
    keys: tuple[int, int],
    until: datetime,
) -> list[StoredItems]:
    """The tables of this kind and name of the curators with keys in a half-open range, as far as
    they are not younger than `until`."""
    query = select(item_tables).where(
        item_tables.c.kind == table[0],
        item_tables.c.name == table[1],
        item_tables.c.curator >= keys[0],
        item_tables.c.curator < keys[1],
        item_tables.c.stored <= until,
    )
    return [
        StoredItems(
            row.curator,
            tuple(json.loads(row.universe)),
            Lists(
                np.frombuffer(row.items, "<i4").astype(np.int32),
                np.frombuffer(row.starts, "<i8").astype(np.int64),
            ),
            None if row.times is None else np.frombuffer(row.times, "<i8").astype(np.int64),
        )
        for row in await transaction.execute(query)
    ]
