"""Readers of kind `numeric-table`: CSV with a header, and Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

import numpy as np

from algorithms.datasets.columnar import (
    Batch,
    coded,
    csv_blocks,
    csv_header,
    numbers,
    parquet_batches,
    texts,
)
from algorithms.datasets.tables import Floats, NumericTable
from tacit.records.reading import MalformedRow

MAX_ROWS: Final = 10**8
MAX_COLUMNS: Final = 256


def read_csv(
    stream: BinaryIO,
    *,
    label: str | None = None,
    curator: str | None = None,
    max_rows: int = MAX_ROWS,
) -> NumericTable:
    """Rows of finite numbers; the columns `label` and `curator` may be text.

    Raises MalformedRow with row and column, TooManyRows.
    """
    names = csv_header(stream, MAX_COLUMNS + 2)
    roles = frozenset(role for role in (label, curator) if role is not None)
    blocks = csv_blocks(stream, names, roles, max_rows)
    return _collected(names, blocks, 2, label, curator)


def read_parquet(
    stream: BinaryIO,
    *,
    label: str | None = None,
    curator: str | None = None,
    max_rows: int = MAX_ROWS,
) -> NumericTable:
    """The same of a Parquet file; rows are counted from 1."""
    names, batches = parquet_batches(stream, MAX_COLUMNS + 2, max_rows)
    return _collected(names, batches, 1, label, curator)


def _collected(
    names: tuple[str, ...],
    batches: Iterator[Batch],
    row: int,
    label: str | None,
    curator: str | None,
) -> NumericTable:
    roles = [role for role in (label, curator) if role is not None]
    for role in roles:
        if role not in names:
            raise MalformedRow(1, "the column that has a role is missing", role)
    columns = tuple(name for name in names if name not in roles)
    if not 1 <= len(columns) <= MAX_COLUMNS:
        raise MalformedRow(1, f"1 to {MAX_COLUMNS} columns of numbers are expected")
    parts: list[Floats] = []
    marks: dict[str, list[object]] = {role: [] for role in roles}
    for batch in batches:
        block = np.empty((batch.num_rows, len(columns)))
        for place, name in enumerate(columns):
            block[:, place] = numbers(batch, name, row)
        for role in roles:
            marks[role].append(texts(batch, role, row))
        parts.append(block)
        row += batch.num_rows
    values = np.concatenate(parts) if parts else np.empty((0, len(columns)))
    del parts
    return NumericTable(
        columns,
        values,
        labels=None if label is None else coded(marks[label]),
        curators=None if curator is None else coded(marks[curator]),
    )
