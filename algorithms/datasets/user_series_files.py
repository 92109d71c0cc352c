"""Readers of kind `user-series`: columns `user`, `round`, values, and optionally `label`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

import numpy as np

from algorithms.datasets.columnar import Block, CsvFile, TextColumn, numbers, parquet_blocks
from algorithms.datasets.tables import Floats, Ints, UserSeries
from algorithms.datasets.texts import Texts
from tacit.records.reading import MalformedRow, exact_number

MAX_ROWS: Final = 10**8
MAX_VALUES: Final = 64
MAX_ROUND: Final = 10**9
USER, ROUND, LABEL = "user", "round", "label"


def read_csv(stream: BinaryIO, *, max_rows: int = MAX_ROWS) -> UserSeries:
    """One row per (user, round). Raises MalformedRow with row and column, TooManyRows."""
    file = CsvFile(stream, MAX_VALUES + 3)
    return _collected(file.names, file.blocks(frozenset((USER, ROUND, LABEL)), max_rows))


def read_parquet(stream: BinaryIO, *, max_rows: int = MAX_ROWS) -> UserSeries:
    """The same of a Parquet file; rows are counted from 1."""
    return _collected(*parquet_blocks(stream, MAX_VALUES + 3, max_rows))


def _collected(names: tuple[str, ...], blocks: Iterator[Block]) -> UserSeries:
    for name in (USER, ROUND):
        if name not in names:
            raise MalformedRow(1, "the column is missing", name)
    columns = tuple(name for name in names if name not in (USER, ROUND, LABEL))
    if not 1 <= len(columns) <= MAX_VALUES:
        raise MalformedRow(1, f"1 to {MAX_VALUES} columns of values are expected")
    values: list[Floats] = [np.empty((0, len(columns)))]
    lines: list[Ints] = [np.zeros(0, np.int64)]
    users, rounds, labels = TextColumn(USER, empty=False), TextColumn(ROUND), TextColumn(LABEL)
    for block in blocks:
        values.append(np.column_stack([numbers(block, name) for name in columns]))
        lines.append(np.array(block[1], np.int64))
        users.add(block)
        rounds.add(block)
        if LABEL in names:
            labels.add(block)
    user, line = users.finish().sorted(), np.concatenate(lines)
    when = _rounds(rounds.finish(), line)
    _refuse_twice(user, when, line)
    return UserSeries(
        columns,
        user,
        when,
        np.concatenate(values),
        labels.finish().sorted() if LABEL in names else None,
    )


def _rounds(found: Texts, line: Ints) -> Ints:
    numbers = np.zeros(len(found.values), np.int64)
    for place, text in enumerate(found.values):
        number = exact_number(text.strip())
        if number is None or not 1 <= number <= MAX_ROUND or number != int(number):
            row = int(line[int(np.argmax(found.codes == place))])
            raise MalformedRow(row, "a whole number from 1 is expected", ROUND)
        numbers[place] = int(number)
    return numbers[found.codes] if found.codes.size else np.zeros(0, np.int64)


def _refuse_twice(users: Texts, rounds: Ints, line: Ints) -> None:
    order = np.lexsort((rounds, users.codes))  # stable: of equal rows the later one comes second
    same = (np.diff(users.codes[order]) == 0) & (np.diff(rounds[order]) == 0)
    if same.any():
        row = int(line[order[1:][same]].min())
        raise MalformedRow(row, "the user has a row in this round already", ROUND)
