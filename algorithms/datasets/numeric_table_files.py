"""Readers of kind `numeric-table`: CSV with a header, and Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

import numpy as np

from algorithms.datasets.columnar import Block, CsvFile, TextColumn, numbers, parquet_blocks
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
    """Rows of finite numbers; the columns `label` and `curator` are text.

    Raises MalformedRow with row and column, TooManyRows.
    """
    file = CsvFile(stream, MAX_COLUMNS + 2)
    roles = frozenset(role for role in (label, curator) if role is not None)
    return _collected(file.names, file.blocks(roles, max_rows), label, curator)


def read_parquet(
    stream: BinaryIO,
    *,
    label: str | None = None,
    curator: str | None = None,
    max_rows: int = MAX_ROWS,
) -> NumericTable:
    """The same of a Parquet file; rows are counted from 1."""
    names, blocks = parquet_blocks(stream, MAX_COLUMNS + 2, max_rows)
    return _collected(names, blocks, label, curator)


def _collected(
    names: tuple[str, ...], blocks: Iterator[Block], label: str | None, curator: str | None
) -> NumericTable:
    roles = [role for role in (label, curator) if role is not None]
    for role in roles:
        if role not in names:
            raise MalformedRow(1, "the column that has a role is missing", role)
    columns = tuple(name for name in names if name not in roles)
    if not 1 <= len(columns) <= MAX_COLUMNS:
        raise MalformedRow(1, f"1 to {MAX_COLUMNS} columns of numbers are expected")
    parts: list[Floats] = []
    # rows without an owner are not one person's
    marks = {role: TextColumn(role, empty=role != curator) for role in roles}
    for block in blocks:
        part = np.empty((block[0].num_rows, len(columns)))
        for place, name in enumerate(columns):
            part[:, place] = numbers(block, name)
        for mark in marks.values():
            mark.add(block)
        parts.append(part)
    values = np.concatenate(parts) if parts else np.empty((0, len(columns)))
    del parts
    return NumericTable(
        columns,
        values,
        labels=None if label is None else marks[label].finish().sorted(),
        curators=None if curator is None else marks[curator].finish().sorted(),
    )
