"""Tables of records, of sequences and of sets of items, and what is known of federated jobs.

With what the questions of a job spend along each path, and the question that was asked last.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, and_, delete, insert, select, update

from common.store.transactions import LARGE_BYTES, Transaction
from curator.store.tables import federated_jobs, item_tables, job_paths, job_spends, record_tables
from tacit.accounting.charges import Spent
from tacit.encoders.counts import Ints, Lists
from tacit.protocol.federation import JobTerms

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StoredTable:
    """A curator's table: values (n, columns). `codes`: the texts of each column that has texts,
    whose values are places among them."""

    curator: int
    columns: tuple[str, ...]
    values: Floats
    codes: Mapping[str, tuple[str, ...]]

    def of(self, name: str) -> Floats:
        """A column (n,), numbers or places among its texts."""
        return self.values[:, self.columns.index(name)]

    def numbers(self, names: Sequence[str]) -> Floats | None:
        """Columns of numbers (n, names); None where it lacks one."""
        if not set(names) <= set(self.columns) - set(self.codes):
            return None
        return self.values[:, [self.columns.index(name) for name in names]]


async def put_table(
    transaction: Transaction,
    curator: int,
    columns: Sequence[str],
    values: Floats,
    codes: Mapping[str, Sequence[str]],
    now: datetime,
) -> None:
    """Store a curator's table in place of the one before."""
    await drop_table(transaction, curator)
    await transaction.execute(
        insert(record_tables).values(
            curator=curator,
            columns=json.dumps(list(columns)),
            codes=json.dumps({name: list(texts) for name, texts in codes.items()}),
            rows=len(values),
            content=np.ascontiguousarray(values, "<f8").tobytes(),
            stored=now,
        )
    )


async def drop_table(transaction: Transaction, curator: int) -> bool:
    """Delete a curator's table; whether there was one."""
    done = await transaction.execute(
        delete(record_tables).where(record_tables.c.curator == curator)
    )
    return bool(done.rowcount)


async def outline(transaction: Transaction, curator: int) -> tuple[tuple[str, ...], int] | None:
    """Columns and number of rows of a curator's table."""
    query = select(record_tables.c.columns, record_tables.c.rows)
    row = (await transaction.execute(query.where(record_tables.c.curator == curator))).first()
    return None if row is None else (tuple(json.loads(row.columns)), row.rows)


async def tables(
    transaction: Transaction, keys: tuple[int, int], until: datetime | None = None
) -> list[StoredTable]:
    """The tables of the curators with keys in a half-open range; `until`: those that are not
    younger."""
    query = select(record_tables).where(
        record_tables.c.curator >= keys[0], record_tables.c.curator < keys[1]
    )
    if until is not None:
        query = query.where(record_tables.c.stored <= until)
    return [_table(row) for row in await transaction.execute(query)]


def _table(row: Any) -> StoredTable:
    columns = tuple(json.loads(row.columns))
    values = np.frombuffer(row.content, "<f8").reshape(row.rows, len(columns))
    codes = {name: tuple(texts) for name, texts in json.loads(row.codes).items()}
    return StoredTable(row.curator, columns, values.astype(np.float64), codes)


# --- federated jobs ------------------------------------------------------------------------------


@dataclass(frozen=True)
class JobRow:
    """A job by rounds: its plan, the newest step with its query and round, and the secret seed
    by which records are chosen once for the whole job. For a job that is debited once: its terms
    in canonical form, and the round of its first step, None if that was not seen."""

    id: str
    algorithm: str
    plan: bytes
    step: int
    query_hash: bytes
    seed: bytes
    seen: datetime
    terms: bytes | None = None
    first_round: str | None = None
    last_round: str | None = None


async def job(transaction: Transaction, job_id: str) -> JobRow | None:
    """A job that was seen before."""
    query = select(federated_jobs).where(federated_jobs.c.id == job_id)
    row = (await transaction.execute(query)).first()
    return None if row is None else JobRow(**row._mapping)


async def add_job(transaction: Transaction, row: JobRow) -> None:
    """Store a job."""
    values = {name: getattr(row, name) for name in JobRow.__dataclass_fields__}
    await transaction.execute(insert(federated_jobs).values(values))


async def debited_once(transaction: Transaction) -> dict[str, JobTerms]:
    """The terms of all jobs that are debited once."""
    query = select(federated_jobs.c.id, federated_jobs.c.terms).where(
        federated_jobs.c.terms.is_not(None)
    )
    return {
        row.id: JobTerms.model_validate_json(row.terms) for row in await transaction.execute(query)
    }


async def note_step(
    transaction: Transaction, job_id: str, step: int, query_hash: bytes, round_id: str
) -> None:
    """Store the last step."""
    await transaction.execute(
        update(federated_jobs)
        .where(federated_jobs.c.id == job_id)
        .values(step=step, query_hash=query_hash, last_round=round_id)
    )


async def pay_first(transaction: Transaction, job_id: str, round_id: str) -> None:
    """Set the round that the job's debit is made with."""
    await transaction.execute(
        update(federated_jobs).where(federated_jobs.c.id == job_id).values(first_round=round_id)
    )


def _at(place: tuple[str, int]) -> ColumnElement[bool]:
    job_id, curator = place
    return and_(job_spends.c.job == job_id, job_spends.c.curator == curator)


async def find_spent(
    transaction: Transaction,
    place: tuple[str, int],
    records: int,
    began: int,
    undone: Collection[str],
) -> Spent:
    """What a curator's records spent in a job before the question that began with a step; they are
    those of its table.

    place: job and curator; undone: rounds to ignore, if a release before this one did not store
    which question it was.
    """
    query = select(job_spends).where(_at(place))
    row = (await transaction.execute(query, large=records >= LARGE_BYTES)).first()
    if row is None:
        return Spent.nothing(records)
    again = row.began == began if row.began is not None else row.round in undone
    if again and row.before is not None:
        return Spent.unpacked(bytes(row.before), row.records, int(row.before_denominator))
    return Spent.unpacked(bytes(row.numerators), row.records, int(row.denominator))


async def put_spent(
    transaction: Transaction,
    place: tuple[str, int],
    made_with: tuple[str, int],
    before: Spent,
    spent: Spent,
) -> None:
    """Store what is spent after a question, and what was before it, in place of earlier values.
    made_with: the round, and the step with which the question began."""
    job_id, curator = place
    round_id, began = made_with
    await transaction.execute(delete(job_spends).where(_at(place)))
    await transaction.execute(
        insert(job_spends).values(
            job=job_id,
            curator=curator,
            records=len(spent.numerators),
            denominator=str(spent.denominator),
            numerators=spent.packed(),
            round=round_id,
            before_denominator=str(before.denominator),
            before=before.packed(),
            began=began,
        ),
        large=len(spent.numerators) >= LARGE_BYTES,
    )


# A curator's own sequences and sets of items, each table by its kind and its name.


@dataclass(frozen=True)
class Outline:
    """The outline of a table."""

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
        """The records from a time until before another one, the others emptied; None without
        times."""
        if self.times is None:
            return None
        return self.lists.only((self.times >= start) & (self.times < end))


async def put_items(
    transaction: Transaction,
    place: tuple[int, str, str],
    universe: Sequence[str],
    lists: Lists,
    times: Ints | None,
    now: datetime,
) -> None:
    """Store a table in place of the one before. place: key of the curator, kind, name."""
    await drop_items(transaction, place)
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


async def drop_items(transaction: Transaction, place: tuple[int, str, str]) -> None:
    """Delete a table, if there is one."""
    curator, kind, name = place
    await transaction.execute(
        delete(item_tables).where(
            item_tables.c.curator == curator,
            item_tables.c.kind == kind,
            item_tables.c.name == name,
        )
    )


async def item_outlines(transaction: Transaction, curator: int, kind: str) -> list[Outline]:
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


async def item_tables_of(
    transaction: Transaction,
    table: tuple[str, str],
    keys: tuple[int, int],
    until: datetime,
) -> list[StoredItems]:
    """The tables of this kind and name of the curators with keys in a half-open range; tables
    younger than `until` are skipped."""
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


# What the questions of a job spend along each path, and the question that was asked last.


@dataclass(frozen=True)
class PathRow:
    """The paths of a job: its newest question, the step with which it began, which round asked
    which of its parts, by their first words, and what all questions spend (`PathSpends.packed`)."""

    job: str
    question: bytes
    began: int
    rounds: Mapping[int, str]
    spends: bytes


async def find_path(transaction: Transaction, job_id: str) -> PathRow | None:
    """None before the first question."""
    row = (await transaction.execute(select(job_paths).where(job_paths.c.job == job_id))).first()
    if row is None:
        return None
    rounds = {int(first): name for first, name in json.loads(row.rounds).items()}
    return PathRow(row.job, bytes(row.question), row.began, rounds, bytes(row.spends))


async def put_path(transaction: Transaction, row: PathRow) -> None:
    """Store it, replacing the earlier one."""
    await transaction.execute(delete(job_paths).where(job_paths.c.job == row.job))
    await transaction.execute(
        insert(job_paths).values(
            job=row.job,
            question=row.question,
            began=row.began,
            rounds=json.dumps(dict(row.rounds)),
            spends=row.spends,
        )
    )
