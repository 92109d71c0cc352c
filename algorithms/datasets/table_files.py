"""Readers of kind `table`: CSV with a header, and Parquet, any columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.datasets.columnar import csv_blocks, csv_header, numbers, parquet_batches, texts
from algorithms.datasets.table import Column, Table
from tacit.records.reading import numbers_taken

MAX_ROWS: Final = 10**8
MAX_COLUMNS: Final = 1000


def read_csv(stream: BinaryIO, *, max_rows: int = MAX_ROWS) -> Table:
    """A column is of numbers where every field is one that is taken, else of texts (an empty field
    is "").

    Raises MalformedRow, TooManyRows.
    """
    names = csv_header(stream, MAX_COLUMNS)
    blocks = list(csv_blocks(stream, names, frozenset(names), max_rows))
    return Table(names, tuple(_guessed([block.column(name) for block in blocks]) for name in names))


def read_parquet(stream: BinaryIO, *, max_rows: int = MAX_ROWS) -> Table:
    """Columns of numbers or of what can be written as text. Raises MalformedRow, TooManyRows."""
    import pyarrow as pa

    names, batches = parquet_batches(stream, MAX_COLUMNS, max_rows)
    columns: list[list[Column]] = [[] for _ in names]
    row = 1
    for batch in batches:
        for place, name in enumerate(names):
            kind = batch.column(name).type
            if pa.types.is_integer(kind) or pa.types.is_floating(kind):
                found = numbers(batch, name, row)
                columns[place].append(_whole(found) if pa.types.is_integer(kind) else found)
            else:
                columns[place].append(_objects(texts(batch, name, row)))
        row += batch.num_rows
    return Table(names, tuple(_joined(parts) for parts in columns))


def _guessed(chunks: list[Any]) -> Column:
    import pyarrow as pa

    whole = pa.chunked_array([part for chunk in chunks for part in chunk.chunks], pa.string())
    try:
        return np.asarray(whole.cast(pa.int64()), np.int64)
    except pa.ArrowInvalid:
        pass
    try:
        found = np.asarray(whole.cast(pa.float64()), np.float64)
    except pa.ArrowInvalid:
        return _objects(whole)
    if numbers_taken(found).all():
        return found
    return _objects(whole)


def _objects(column: Any) -> NDArray[np.object_]:
    return np.asarray(column.to_numpy(), object)


def _whole(found: NDArray[np.float64]) -> Column:
    return found.astype(np.int64)


def _joined(parts: Sequence[Any]) -> Column:
    return np.concatenate(parts) if parts else np.zeros(0, object)
