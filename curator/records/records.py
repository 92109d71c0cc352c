"""A curator's own records: a table that its owner gives, and what a federated job takes from it.

Spec: jobs, "Federated jobs". Rows never leave: a round gets one vector, the sum over the rows, with
every row's part bounded (`tacit.encoders.sums`); a collection gets noisy reports. Where a curator
has more rows than may count, the same are chosen for the whole job, by a secret seed.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from common.runtime.clock import epoch_microseconds
from common.store.transactions import Transaction
from curator.errors import BadRecords, MalformedRow
from curator.store import readings as reading_store
from curator.store import records as store
from tacit.encoders.sums import MOST_RECORDS
from tacit.protocol.federation import FederatedColumn, RegisterStatistic, StatisticKind
from tacit.query.fields import Window
from tacit.query.words import Identifier
from tacit.records import delimited, reading
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
    """A curator's table, in place of the one before. Numbers only."""

    curator: Identifier
    columns: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MOST_COLUMNS)]
    rows: Annotated[tuple[tuple[float, ...], ...], Field(max_length=MOST_ROWS)]


def checked(table: RecordTable) -> Floats:
    """The rows as an array (n, columns). Raises BadRecords, MalformedRow."""
    _check_columns(table.columns)
    width = len(table.columns)
    for number, row in enumerate(table.rows):
        if len(row) != width:
            raise MalformedRow(f"row {number + 1} has another number of columns", pointer="/rows")
    return np.array(table.rows, np.float64).reshape(len(table.rows), width)


def read_csv(content: bytes) -> tuple[tuple[str, ...], Floats]:
    """Columns and rows of a CSV file with a header. Raises BadRecords, MalformedRow; a value of the
    data is in no message. `row`: the line of the file where the row begins."""
    rows: list[list[float]] = []
    lines = delimited.rows(io.BytesIO(content))
    try:
        columns = tuple(name.strip() for name in next(lines)[1])
    except StopIteration:
        raise BadRecords("the text has no header") from None
    except reading.MalformedRow as error:
        raise _malformed(error) from None
    _check_columns(columns)
    try:
        for line, cells in lines:
            if cells == [""]:
                continue
            if len(rows) == MOST_ROWS:
                raise BadRecords(f"a table has at most {MOST_ROWS} rows")
            rows.append(_numbers(cells, columns, line))
    except reading.MalformedRow as error:
        raise _malformed(error) from None
    return columns, np.array(rows, np.float64).reshape(len(rows), len(columns))


def _numbers(cells: Sequence[str], columns: Sequence[str], line: int) -> list[float]:
    if len(cells) != len(columns):
        raise reading.MalformedRow(line, "another number of cells than columns")
    values = []
    for name, text in zip(columns, cells, strict=True):
        try:
            values.append(reading.number(text))
        except ValueError as error:
            raise reading.MalformedRow(line, str(error), name) from None
    return values


def _malformed(error: reading.MalformedRow) -> MalformedRow:
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
    without all columns has none. `until`: only of tables that are not younger."""
    names = [column for column in columns if isinstance(column, str)]
    if names:
        found = {}
        for table in await store.tables(transaction, keys, until):
            if set(names) <= set(table.columns):
                places = [table.columns.index(name) for name in names]
                found[table.curator] = table.values[:, places]
        return found
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


def document(columns: Sequence[str], rows: int) -> dict[str, Any]:
    """The description of a stored table."""
    return {"columns": list(columns), "rows": rows}
