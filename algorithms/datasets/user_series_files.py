"""Readers of kind `user-series`: columns `user`, `round`, values, and optionally `label`."""

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
from algorithms.datasets.tables import Floats, Ints, UserSeries
from tacit.records.reading import MalformedRow

MAX_ROWS: Final = 10**8
MAX_VALUES: Final = 64
MAX_ROUND: Final = 10**9
USER, ROUND, LABEL = "user", "round", "label"


def read_csv(stream: BinaryIO, *, max_rows: int = MAX_ROWS) -> UserSeries:
    """One row per (user, round). Raises MalformedRow with row and column, TooManyRows."""
    names = csv_header(stream, MAX_VALUES + 3)
    blocks = csv_blocks(stream, names, frozenset((USER, LABEL)), max_rows)
    return _collected(names, blocks, 2)


def read_parquet(stream: BinaryIO, *, max_rows: int = MAX_ROWS) -> UserSeries:
    """The same of a Parquet file; rows are counted from 1."""
    names, batches = parquet_batches(stream, MAX_VALUES + 3, max_rows)
    return _collected(names, batches, 1)


def _collected(names: tuple[str, ...], batches: Iterator[Batch], first: int) -> UserSeries:
    for name in (USER, ROUND):
        if name not in names:
            raise MalformedRow(1, "the column is missing", name)
    columns = tuple(name for name in names if name not in (USER, ROUND, LABEL))
    if not 1 <= len(columns) <= MAX_VALUES:
        raise MalformedRow(1, f"1 to {MAX_VALUES} columns of values are expected")
    values: list[Floats] = []
    rounds: list[Ints] = []
    users: list[object] = []
    labels: list[object] = []
    row = first
    for batch in batches:
        values.append(np.column_stack([numbers(batch, name, row) for name in columns]))
        rounds.append(_rounds(numbers(batch, ROUND, row), row))
        users.append(texts(batch, USER, row))
        if LABEL in names:
            labels.append(texts(batch, LABEL, row))
        row += batch.num_rows
    user = coded(users)
    when = np.concatenate(rounds) if rounds else np.zeros(0, np.int64)
    _refuse_twice(user, when, first)
    return UserSeries(
        columns,
        user,
        when,
        np.concatenate(values) if values else np.empty((0, len(columns))),
        coded(labels) if LABEL in names else None,
    )


def _rounds(found: Floats, row: int) -> Ints:
    good = (found >= 1) & (found <= MAX_ROUND) & (found == np.floor(found))
    if not good.all():
        bad = row + int(np.argmin(good))
        raise MalformedRow(bad, "a whole number from 1 is expected", ROUND)
    return found.astype(np.int64)


def _refuse_twice(users: Ints, rounds: Ints, first: int) -> None:
    order = np.lexsort((rounds, users))  # stable: of equal rows the later one comes second
    same = (np.diff(users[order]) == 0) & (np.diff(rounds[order]) == 0)
    if same.any():
        row = first + int(order[1:][same].min())
        raise MalformedRow(row, "the user has a row in this round already", ROUND)
