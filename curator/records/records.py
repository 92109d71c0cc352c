"""A curator's own records: a table that its owner gives, and what a federated job takes from it.

Spec: jobs, "Federated jobs"; federated-counting, sections 2 and 5. Rows never leave: one vector
leaves, the sum over the records, with every record's part clamped.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Annotated, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from common.runtime.clock import epoch_microseconds
from common.store.transactions import Transaction
from curator.errors import BadRecords, MalformedRow
from curator.store import readings as reading_store
from curator.store import records as item_store
from curator.store import records as store
from tacit.encoders.count_sums import CountSum
from tacit.encoders.counts import Lists
from tacit.encoders.sums import RowSum, encoded, moved
from tacit.protocol.federation import FederatedColumn, RegisterStatistic, StatisticKind
from tacit.query.fields import ALWAYS, Window
from tacit.query.functions import Encoded, Readings, encode, whole
from tacit.query.query import Query
from tacit.query.tables import cells_of
from tacit.query.terms import MOST_RECORDS, Identifier
from tacit.randomness import SecureRandom
from tacit.records import text_files
from tacit.records.intervals import PlaceIndex
from tacit.records.item_files import microseconds
from tacit.units import NANO, UNITS
from tacit.wire import WireModel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_ROWS: Final = MOST_RECORDS
"""No table holds more than a round can count (`Query.every_record` rests on it)."""
MOST_COLUMNS: Final = 256
MOST_CHARACTERS: Final = 128
HOUR_US: Final = 3_600_000_000
DAY_HOURS: Final = 24

Name = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]


class RecordTable(WireModel):
    """A curator's table, which replaces the one before. A column has numbers, or texts: codes."""

    curator: Identifier
    columns: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MOST_COLUMNS)]
    rows: Annotated[tuple[tuple[float | str, ...], ...], Field(max_length=MOST_ROWS)]


@dataclass(frozen=True, eq=False)
class Records:
    """Rows as numbers, `values` (n, columns). `codes`: for each column of texts its texts,
    sorted; the values are indices into them."""

    columns: tuple[str, ...]
    values: Floats
    codes: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(
        cls, columns: tuple[str, ...], rows: Sequence[Sequence[float | str]], coded: set[str]
    ) -> Records:
        """`coded`: the columns that have texts, in every row."""
        values = np.zeros((len(rows), len(columns)))
        codes = {}
        for place, name in enumerate(columns):
            cells: list[Any] = [row[place] for row in rows]
            if name in coded:
                codes[name] = tuple(sorted(set(cells)))
                place_of = {text: number for number, text in enumerate(codes[name])}
                cells = [place_of[text] for text in cells]
            values[:, place] = cells
        return cls(columns, values, codes)


def checked(table: RecordTable) -> Records:
    """The rows of a JSON table. Raises BadRecords, MalformedRow."""
    _check_columns(table.columns)
    width = len(table.columns)
    first = table.rows[0] if table.rows else ()
    coded = {
        name for name, cell in zip(table.columns, first, strict=False) if isinstance(cell, str)
    }
    for number, row in enumerate(table.rows, 1):
        if len(row) != width:
            raise MalformedRow(f"row {number} has another number of columns", pointer="/rows")
        for name, cell in zip(table.columns, row, strict=True):
            if isinstance(cell, str) != (name in coded):
                reason = f"row {number}: a column has numbers, or texts, in every row"
                raise MalformedRow(reason, pointer="/rows", extra={"column": name})
            if isinstance(cell, str) and len(cell) > MOST_CHARACTERS:
                raise MalformedRow(f"row {number}: {_TOO_LONG}", pointer="/rows")
    return Records.of(table.columns, table.rows, coded)


_TOO_LONG: Final = f"a text has at most {MOST_CHARACTERS} characters"


def read_csv(content: bytes, coded: Sequence[str] = ()) -> Records:
    """Columns and rows of a CSV file with a header; `coded`: the columns of texts, the others have
    numbers. Raises BadRecords, MalformedRow; a value of the data is in no message. `row`: the line
    of the file where the row begins."""
    rows: list[list[float | str]] = []
    lines = text_files.rows(io.BytesIO(content))
    try:
        columns = tuple(name.strip() for name in next(lines)[1])
    except StopIteration:
        raise BadRecords("the text has no header") from None
    except text_files.MalformedRow as error:
        raise _malformed(error) from None
    _check_columns(columns)
    if not set(coded) <= set(columns):
        raise BadRecords("a column of texts is not in the header", pointer="/codes")
    try:
        for line, cells in lines:
            if cells == [""]:
                continue
            if len(rows) == MOST_ROWS:
                raise BadRecords(f"a table has at most {MOST_ROWS} rows")
            rows.append(_row(cells, columns, coded, line))
    except text_files.MalformedRow as error:
        raise _malformed(error) from None
    return Records.of(columns, rows, set(coded))


def _row(
    cells: Sequence[str], columns: Sequence[str], coded: Sequence[str], line: int
) -> list[float | str]:
    if len(cells) != len(columns):
        raise text_files.MalformedRow(line, "another number of cells than columns")
    values: list[float | str] = []
    for name, text in zip(columns, cells, strict=True):
        if name in coded:
            if len(text.strip()) > MOST_CHARACTERS:
                raise text_files.MalformedRow(line, _TOO_LONG, name)
            values.append(text.strip())
            continue
        try:
            values.append(text_files.number(text))
        except ValueError as error:
            raise text_files.MalformedRow(line, str(error), name) from None
    return values


def _malformed(error: text_files.MalformedRow) -> MalformedRow:
    return MalformedRow(error.detail or "", extra=dict(error.extra))


def _check_columns(columns: Sequence[str]) -> None:
    fits = 1 <= len(columns) <= MOST_COLUMNS
    if not fits or any(not 1 <= len(name) <= MOST_CHARACTERS for name in columns):
        raise BadRecords(f"a table has 1 to {MOST_COLUMNS} named columns", pointer="/columns")
    if len(set(columns)) != len(columns):
        raise BadRecords("column names differ", pointer="/columns")


# --- what a job takes ----------------------------------------------------------------------------


async def load_rows(
    transaction: Transaction,
    columns: Sequence[FederatedColumn],
    window: Window,
    keys: tuple[int, int],
    until: datetime | None = None,
) -> dict[int, Floats]:
    """The rows (n, columns) of the curators with keys in a half-open range, by key. A curator
    without all columns has none. `until`: skip tables that are younger."""
    names = [column for column in columns if isinstance(column, str)]
    if names:
        rows_of = {}
        for table in await store.tables(transaction, keys, until):
            if (rows := table.numbers(names)) is not None:
                rows_of[table.curator] = rows
        return rows_of
    parts = [
        await _statistic(transaction, column, window, keys)
        for column in columns
        if isinstance(column, RegisterStatistic)
    ]
    everywhere = set(parts[0]).intersection(*parts[1:])
    return {key: np.array([[part[key] for part in parts]]) for key in sorted(everywhere)}


async def _statistic(
    transaction: Transaction, column: RegisterStatistic, window: Window, keys: tuple[int, int]
) -> dict[int, float]:
    """One number of each curator that has readings in these hours."""
    unit = UNITS[column.unit]
    register = await reading_store.register_key(transaction, column.register_name, unit.base)
    if register is None:
        return {}
    start, end = epoch_microseconds(window.start), epoch_microseconds(window.end)
    pages = await reading_store.window_pages(transaction, register, start, end)
    owner, quantity, time, _ = await reading_store.window(
        transaction, register, pages, keys, timed=True
    )
    hour = time // HOUR_US % DAY_HOURS
    inside = np.flatnonzero((hour >= column.hours[0]) & (hour < column.hours[1]))
    if not inside.size:
        return {}
    order = inside[np.argsort(owner[inside], kind="stable")]
    curators, starts = np.unique(owner[order], return_index=True)
    amounts = quantity[order] / float(unit.factor * NANO)
    match column.statistic:
        case StatisticKind.MIN:
            values = np.minimum.reduceat(amounts, starts)
        case StatisticKind.MAX:
            values = np.maximum.reduceat(amounts, starts)
        case StatisticKind.SUM:
            values = np.add.reduceat(amounts, starts)
        case StatisticKind.MEAN:
            values = np.add.reduceat(amounts, starts) / np.diff(np.append(starts, len(amounts)))
    return dict(zip(curators.tolist(), values.tolist(), strict=True))


# --- questions of federated jobs -----------------------------------------------------------------
#
# Spec: jobs, "Federated jobs"; federated-counting, sections 2 and 5. One vector leaves: the sum
# over the records, with each record's part bounded. Records are rows of numbers (`RowQuestion`) or
# lists of items (`ItemQuestion`).


@dataclass(frozen=True)
class JobDebit:
    """The one debit of a job.

    round: the one that is answered; first_round: the one with which the debit is made, None if
    it was not seen; epsilon: what each record may spend in all rounds; began: the step that
    first asked this question, of which the round can be a part or a repetition; undone: earlier
    rounds with this question that opened nothing.
    """

    job: str
    round: str
    first_round: str | None
    epsilon: Fraction
    began: int
    undone: frozenset[str] = frozenset()

    @property
    def pays(self) -> bool:
        """Whether this round is the one that the debit is made with."""
        return self.round == self.first_round


class Question(Protocol):
    """The checked question of a federated job's round. `debit`: of a job that is debited once."""

    @property
    def debit(self) -> JobDebit | None: ...

    async def load(
        self, transaction: Transaction, query: Query, window: Window, keys: tuple[int, int]
    ) -> Mapping[int, Any]:
        """The counting records of the curators with keys in a half-open range, by key."""
        ...

    def measured(self, records: Mapping[int, Any]) -> Mapping[int, Ints]:
        """What each record of each curator would add at each cost, in L1 norm; empty if no
        record is omitted. Takes long."""
        ...

    async def admitted(
        self,
        transaction: Transaction,
        query: Query,
        records: Mapping[int, Any],
        by_key: Mapping[int, Ints],
    ) -> Mapping[int, Any]:
        """The records of the participating curators that may count, in the transaction of their
        debit; by_key: the `measured` norms of each."""
        ...

    def encoded(self, query: Query, records: Any | None) -> Encoded:
        """What the records of one curator add, each bounded as the query requires; None: zeros."""
        ...


@dataclass(frozen=True, eq=False)
class RowQuestion:
    """A question about rows of numbers; `seed` chooses records if not all count. `seen`: when this
    curator service first saw the job.

    Under a job's one debit a row counts only while it has not spent the job's epsilon, and only
    if its table existed when the job began.
    """

    columns: tuple[FederatedColumn, ...]
    asked: RowSum
    seed: bytes
    seen: datetime | None = None
    debit: JobDebit | None = None

    def chosen(self, key: int, rows: Floats, most: int) -> Floats:
        """At most this many rows of a curator, the same in every round of the job."""
        if len(rows) <= most:
            return rows
        words = SecureRandom.from_secret_seed(self.seed, f"records of {key}").words(len(rows))
        return rows[np.sort(np.argsort(words, kind="stable")[:most])]

    async def load(
        self, transaction: Transaction, query: Query, window: Window, keys: tuple[int, int]
    ) -> dict[int, Floats]:
        """Rows (n, columns) by key."""
        most = query.max_readings
        until = None if self.debit is None else self.seen
        rows = await load_rows(transaction, self.columns, window, keys, until)
        if query.every_record:
            # A table from before tables had a limit: to leave some rows out is not what is asked.
            rows = {
                key: curator_rows for key, curator_rows in rows.items() if len(curator_rows) <= most
            }
        return {key: self.chosen(key, curator_rows, most) for key, curator_rows in rows.items()}

    def measured(self, records: Mapping[int, Floats]) -> dict[int, Ints]:
        """Of each row."""
        if self.debit is None:
            return {}
        return {key: moved(self.asked, rows) for key, rows in records.items() if len(rows)}

    async def admitted(
        self,
        transaction: Transaction,
        query: Query,
        records: Mapping[int, Floats],
        by_key: Mapping[int, Ints],
    ) -> Mapping[int, Floats]:
        """Without the rows that would spend more than the job's epsilon."""
        if self.debit is None:
            return records
        admitted_rows, costs = dict(records), costs_of(query)
        for key, rows in records.items():
            if len(rows):
                counted = await _counted(transaction, self.debit, costs, key, by_key[key])
                admitted_rows[key] = rows[counted]
        return admitted_rows

    def encoded(self, query: Query, records: Floats | None) -> Encoded:
        """f(x) of one curator."""
        nothing = np.zeros((0, self.asked.columns))
        return encoded(query, self.asked, nothing if records is None else records)


@dataclass(frozen=True, eq=False)
class ItemQuestion:
    """A question about sequences or sets: all of a table count.

    table: kind and name; `universe`: the items to which indices in the question refer; `seen`:
    when this curator service first saw the job. A younger table answers with zeros, like a
    deleted one: a job counts the tables that existed when it began. Under a job's one debit a
    record counts only while it has not spent the job's epsilon.
    """

    table: tuple[str, str]
    asked: CountSum
    universe: tuple[str, ...]
    seen: datetime
    debit: JobDebit | None = None

    async def load(
        self,
        transaction: Transaction,
        query: Query,
        window: Window,
        keys: tuple[int, int],
    ) -> dict[int, Lists]:
        """Lists by key, over the question's universe; an item outside it has index -1, a reading
        that of its interval.

        Records outside the window are empty; a table of records without time has none in any
        window.
        """
        places = PlaceIndex(self.universe)
        lists_of: dict[int, Lists] = {}
        for row in await item_store.item_tables_of(transaction, self.table, keys, self.seen):
            lists: Lists | None = row.lists
            if window != ALWAYS:
                lists = row.within(microseconds(window.start), microseconds(window.end))
            if lists is not None and lists.count <= query.max_readings:
                places_of = places.of(row.universe)
                items = places_of[lists.items] if places_of.size else lists.items
                lists_of[row.curator] = Lists(items, lists.starts)
        return lists_of

    def measured(self, records: Mapping[int, Lists]) -> dict[int, Ints]:
        """Of each sequence or set."""
        if self.debit is None:
            return {}
        return {key: self.asked.moved(lists) for key, lists in records.items() if lists.count}

    async def admitted(
        self,
        transaction: Transaction,
        query: Query,  # noqa: ARG002
        records: Mapping[int, Lists],
        by_key: Mapping[int, Ints],
    ) -> Mapping[int, Lists]:
        """Without the records that would spend more than the job's epsilon; the spending of the
        others is stored. All parts of a question have the same scales, so one decision serves
        all of them."""
        if self.debit is None:
            return records
        admitted_lists = dict(records)
        costs = self.asked.costs
        for key, lists in records.items():
            if lists.count:
                counted = await _counted(transaction, self.debit, costs, key, by_key[key])
                admitted_lists[key] = lists.only(counted)
        return admitted_lists

    def encoded(self, query: Query, records: Lists | None) -> Encoded:  # noqa: ARG002
        """The counts of one curator. `asked` bounds what each record adds."""
        none = Lists(np.zeros(0, np.int32), np.zeros(1, np.int64))
        lists = none if records is None else records
        values = self.asked.total(lists)[None, :].astype(np.int64)
        used = np.array([lists.count], np.int64)
        return Encoded(values, used, np.zeros(1, np.int64), whole(1))


@dataclass(frozen=True, eq=False)
class TableQuestion:
    """A `table` over a curator's own records, the first `max_readings` rows of its table. A
    curator whose table lacks a column, or has numbers instead of texts, adds zeros."""

    debit: JobDebit | None = None

    async def load(
        self,
        transaction: Transaction,
        query: Query,
        window: Window,  # noqa: ARG002
        keys: tuple[int, int],
    ) -> dict[int, Readings]:
        """The records of each, with the cell of each record."""
        assert query.columns is not None
        names = [column.name for column in query.columns]
        readings_of = {}
        for table in await store.tables(transaction, keys):
            if not set(names) <= set(table.columns):
                continue
            amounts = np.zeros(len(table.values))
            if query.measure is not None:
                measured = table.numbers([query.measure])
                if measured is None:
                    continue
                amounts = measured[:, 0]
            places = [
                column.places(table.of(column.name), table.codes.get(column.name))
                for column in query.columns
            ]
            owner = np.zeros(len(table.values), np.int64)
            quantity = _in_nano_units(query, amounts)
            readings_of[table.curator] = Readings(
                1, owner, quantity, cells_of(query.columns, places)
            )
        return readings_of

    def measured(self, records: Mapping[int, Readings]) -> Mapping[int, Ints]:  # noqa: ARG002
        """No record is omitted for what it adds."""
        return {}

    async def admitted(
        self,
        transaction: Transaction,  # noqa: ARG002
        query: Query,  # noqa: ARG002
        records: Mapping[int, Readings],
        by_key: Mapping[int, Ints],  # noqa: ARG002
    ) -> Mapping[int, Readings]:
        """All of them."""
        return records

    def encoded(self, query: Query, records: Readings | None) -> Encoded:
        """The cells of one curator."""
        none = np.zeros(0, np.int64)
        return encode(query, Readings(1, none, none, none) if records is None else records)


def _in_nano_units(query: Query, amounts: Floats) -> Ints:
    """Numbers of the query's unit; those outside its bounds are moved to just beyond them."""
    low, high = (float(bound) for bound in query.bounds)
    step = float(query.resolution)
    nano = float(UNITS[query.unit].factor * NANO)
    near: Floats = np.clip(amounts, low - step, high + step)
    return np.rint(near * nano).astype(np.int64)


async def _counted(
    transaction: Transaction,
    debit: JobDebit,
    costs: Sequence[Fraction],
    key: int,
    by_record: Ints,
) -> NDArray[np.bool_]:
    """Which records of a curator count in this question; their spending is stored.

    `by_record`: what each adds at each cost, in L1 norm. Spec: federated-counting, section 6.2.
    """
    spent = await store.find_spent(
        transaction, (debit.job, key), len(by_record), debit.began, debit.undone
    )
    if len(spent.numerators) != len(by_record):  # another table than the job began with
        return np.zeros(len(by_record), np.bool_)
    after, counted = spent.admit(by_record, costs, debit.epsilon)
    made_with = (debit.round, debit.began)
    await store.put_spent(transaction, (debit.job, key), made_with, spent, after)
    return counted


def costs_of(query: Query) -> tuple[Fraction, ...]:
    """1 / b of each block: what a change by 1 spends, given the noise that aggregators will
    draw."""
    assert query.blocks is not None
    assert query.split is not None
    assert query.epsilon is not None
    return tuple(
        share * query.epsilon / block.l1_bound
        for share, block in zip(query.split, query.blocks, strict=True)
    )


@dataclass(frozen=True, eq=False)
class RecordRows:
    """The records of some curators, in order; None: a vector of zeros."""

    question: Question
    records: tuple[Any | None, ...]

    @property
    def count(self) -> int:
        """Curators."""
        return len(self.records)

    def encoded(self, query: Query) -> Encoded:
        """f(x) of each."""
        parts = [self.question.encoded(query, records) for records in self.records]
        return Encoded(
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.used for part in parts]),
            np.concatenate([part.clamped for part in parts]),
            np.concatenate([part.kept for part in parts]),
        )


@dataclass(frozen=True, eq=False)
class RecordWindow:
    """The counting records of many curators, by key; by_key: their `measured` norms, computed
    before the transaction of their debit, for which other writers wait."""

    question: Question
    records: Mapping[int, Any]
    by_key: Mapping[int, Ints] = field(default_factory=dict)

    def of(self, first_key: int, present: NDArray[np.bool_]) -> RecordRows:
        """The records of the present curators of a run that starts at `first_key`."""
        keys = (first_key + np.flatnonzero(present)).tolist()
        return RecordRows(self.question, tuple(self.records.get(key) for key in keys))

    async def admitted(
        self, transaction: Transaction, query: Query, keys: Sequence[int]
    ) -> RecordWindow:
        """Only the records of these curators that may count, in the transaction of their debit."""
        records_of_keys = {key: self.records[key] for key in keys if key in self.records}
        admitted_records = await self.question.admitted(
            transaction, query, records_of_keys, self.by_key
        )
        return RecordWindow(self.question, admitted_records)


@dataclass(frozen=True, eq=False)
class RecordSource:
    """The curators' records for a round that asks a question; `reach` curators at a time."""

    question: Question
    query: Query
    window: Window
    reach: int

    async def load(self, transaction: Transaction, keys: tuple[int, int]) -> RecordWindow:
        """That of the curators with keys in a half-open range."""
        records_found = await self.question.load(transaction, self.query, self.window, keys)
        by_key = await asyncio.to_thread(self.question.measured, records_found)
        return RecordWindow(self.question, records_found, by_key)
