"""Readers of kind `table`: CSV with a header, and Parquet, any columns, as they are written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

from algorithms.datasets.columnar import Block, CsvFile, TextColumn, parquet_blocks
from algorithms.datasets.table import Table

MAX_ROWS: Final = 10**8
MAX_COLUMNS: Final = 1000


def read_csv(stream: BinaryIO, *, max_rows: int = MAX_ROWS) -> Table:
    """Columns of texts; an empty field is "". Raises MalformedRow, TooManyRows."""
    file = CsvFile(stream, MAX_COLUMNS)
    return _collected(file.names, file.blocks(frozenset(file.names), max_rows))


def read_parquet(stream: BinaryIO, *, max_rows: int = MAX_ROWS) -> Table:
    """Columns of what can be written as text. Raises MalformedRow, TooManyRows."""
    return _collected(*parquet_blocks(stream, MAX_COLUMNS, max_rows))


def _collected(names: tuple[str, ...], blocks: Iterator[Block]) -> Table:
    columns = [TextColumn(name) for name in names]
    for block in blocks:
        for column in columns:
            column.add(block)
    return Table(names, tuple(column.finish() for column in columns))
