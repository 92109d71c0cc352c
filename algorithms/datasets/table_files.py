"""Readers of tables: CSV with a header, and Parquet, at pyarrow's speed.

For the kinds `numeric-table`, `table` (cells as they are written) and `user-series` (columns
`user`, `round`, values, and optionally `label`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.datasets.tables import Floats, Ints, NumericTable, Table, Texts, UserSeries
from tacit.compression import MalformedContent
from tacit.records.text_files import (
    Lot,
    MalformedRow,
    Records,
    TooManyRows,
    distinct,
    exact_number,
    nonzero,
    number,
    number_problem,
    numbers_taken,
    split,
)

BLOCK_BYTES: Final = 8 << 20
PARQUET_ROWS: Final = 1 << 17
LARGEST_EXACT: Final = 2.0**53
"""Above it a float cannot distinguish neighbouring whole numbers."""
_LONG_CELL: Final = 300
"""Bytes below which a number without an exponent is no smaller than a float can be."""

Batch = Any
"""A pyarrow record batch or table: pyarrow has no types."""
Block = tuple[Batch, Sequence[int]]
"""A batch, and for each of its rows the line (of Parquet: the row) of the file, from 1."""


def check_header(names: Sequence[str], most: int) -> tuple[str, ...]:
    """Column names that are there, distinct and not too many."""
    if len(names) > most:
        raise TooManyRows(f"at most {most} columns", extra={"max_columns": most})
    distinct(names)
    for place, name in enumerate(names, 1):
        if not name.strip():
            raise MalformedRow(1, "a column has no name", place)
    if not names or all(exact_number(name) is not None for name in names):
        raise MalformedRow(1, "a header with the names of the columns is missing")
    return tuple(names)


# --- CSV -----------------------------------------------------------------------------------------


class CsvFile:
    """A CSV file with a header: `names`, and the rows as `blocks`. Raises MalformedRow."""

    def __init__(self, stream: BinaryIO, most_columns: int) -> None:
        self._lots = _lots(stream)
        lot = next((lot for lot in self._lots if lot.records or lot.faults), Lot())
        if not lot.records or lot.lines[0] != 1:
            raise MalformedRow(*(lot.faults or [(1, "a header is missing")])[0])
        fields = [name.strip() for name in _cells(lot.records.pop(0), lot.lines.pop(0))]
        self.names = check_header(fields, most_columns)
        self._lots = chain([lot], self._lots)

    def blocks(self, text: frozenset[str], max_rows: int) -> Iterator[Block]:
        """Tables of the rows: texts in the columns named so, float64 in the others.

        Raises MalformedRow, TooManyRows. Values may be infinite or NaN: see `numbers`.
        """
        rows, blank_at = 0, None
        for lot in self._lots:
            records, lines = lot.records, lot.lines
            while records and not records[-1]:
                records.pop()
                blank_at = lines.pop() if blank_at is None else min(blank_at, lines.pop())
            if blank_at is not None and records and blank_at < lines[-1]:
                raise MalformedRow(blank_at, "an empty line")
            rows += len(records)
            if rows > max_rows:
                raise TooManyRows(f"at most {max_rows} rows", extra={"max_rows": max_rows})
            if records:
                table = _parsed(records, self.names, text)
                if table is None:
                    raise _explained(records, lines, self.names, text)
                yield table, lines
            if lot.faults:
                raise MalformedRow(*lot.faults[0])


def _lots(stream: BinaryIO) -> Iterator[Lot]:
    records = Records()
    while data := stream.read(BLOCK_BYTES):
        yield records.feed(data)
    yield records.end()


def _parsed(records: Sequence[bytes], names: tuple[str, ...], text: frozenset[str]) -> Batch | None:
    """The table of some records; None if pyarrow refuses them, if one is an empty line, or if a
    number other than 0 would become 0."""
    import pyarrow as pa
    from pyarrow import csv as reader

    if b"" in records:
        return None
    body = b"\n".join(records) + b"\n"
    kinds = {name: pa.string() if name in text else pa.float64() for name in names}
    try:
        table = reader.read_csv(
            pa.BufferReader(body),
            read_options=reader.ReadOptions(column_names=names, block_size=len(body)),
            parse_options=reader.ParseOptions(ignore_empty_lines=False, newlines_in_values=True),
            convert_options=reader.ConvertOptions(
                column_types=kinds, null_values=[], strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid:
        return None
    # a record is a row, or nothing is taken: no two readers may disagree on where one ends
    vanishing = _vanishing(records, body, names, text, table)
    return table if table.num_rows == len(records) and not vanishing else None


def _vanishing(
    records: Sequence[bytes],
    body: bytes,
    names: tuple[str, ...],
    text: frozenset[str],
    table: Batch,
) -> bool:
    """Whether a number that is not 0 is too small for a float and became 0."""
    if not re.search(rb"[eE]-", body) and max(map(len, records)) < _LONG_CELL:
        return False
    for place, name in enumerate(names):
        if name in text:
            continue
        for row in np.flatnonzero(np.asarray(table.column(place)) == 0).tolist():
            try:
                nonzero(split(records[row])[place].decode().strip())
            except ValueError:
                return True
    return False


def _explained(
    records: Sequence[bytes], lines: Sequence[int], names: tuple[str, ...], text: frozenset[str]
) -> MalformedRow:
    """The error of the first bad record."""
    good, bad = 0, len(records)  # the first `good` parse, the first `bad` do not
    while bad - good > 1:
        middle = (good + bad) // 2
        if _parsed(records[good:middle], names, text) is None:
            bad = middle
        else:
            good = middle
    record, line = records[good], lines[good]
    if not record:
        return MalformedRow(line, "an empty line")
    try:
        fields = _cells(record, line)
    except MalformedRow as error:
        return error
    if len(fields) != len(names):
        return MalformedRow(line, f"{len(names)} fields are expected")
    for name, value in zip(names, fields, strict=True):
        try:
            if name not in text:
                number(value)
        except ValueError as error:
            return MalformedRow(line, str(error), name)
    return MalformedRow(line, "cannot be read")


def _cells(record: bytes, line: int) -> list[str]:
    try:
        return [cell.decode() for cell in split(record)]
    except UnicodeDecodeError:
        raise MalformedRow(line, "not UTF-8") from None


# --- Parquet -------------------------------------------------------------------------------------


def parquet_blocks(
    stream: BinaryIO, most_columns: int, max_rows: int
) -> tuple[tuple[str, ...], Iterator[Block]]:
    """(column names, blocks) of a seekable stream. Raises MalformedContent for any other file,
    TooManyRows."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(stream)
    except (pa.ArrowException, OSError):
        raise MalformedContent("the content is not Parquet") from None
    if file.metadata.num_rows > max_rows:
        raise TooManyRows(f"at most {max_rows} rows", extra={"max_rows": max_rows})
    names = check_header(file.schema_arrow.names, most_columns)

    def blocks() -> Iterator[Block]:
        row = 1
        try:
            for batch in file.iter_batches(batch_size=PARQUET_ROWS):
                yield batch, range(row, row + batch.num_rows)
                row += batch.num_rows
        except (pa.ArrowException, OSError):
            raise MalformedContent("the content is not Parquet") from None

    return names, blocks()


# --- columns as arrays ---------------------------------------------------------------------------


def numbers(block: Block, name: str) -> NDArray[np.float64]:
    """A column as numbers that are taken. Raises MalformedRow."""
    import pyarrow as pa

    batch, lines = block
    column = batch.column(name)
    if column.null_count:
        raise MalformedRow(lines[_first(column.is_null())], "no value", name)
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise MalformedRow(lines[0], "a column of numbers is expected", name)
    result: NDArray[np.float64] = np.asarray(column.cast(pa.float64(), safe=False), np.float64)
    takes_number = numbers_taken(result)
    if not takes_number.all():
        bad = int(np.argmin(takes_number))
        raise MalformedRow(lines[bad], number_problem(float(result[bad])) or "", name)
    return result


class TextColumn:
    """A column of texts as they are written, gathered block by block.

    Cells of Parquet that are not texts get the one text that represents them: whole numbers and
    decimals all their digits, floats the shortest that reads back as the same float, dates and
    times ISO 8601, truth values `true` and `false`. A float above 2^53 is refused: digits of an id
    may be lost in it already.
    """

    def __init__(self, name: str, *, empty: bool = True) -> None:
        self._name, self._empty = name, empty
        self._places: dict[str, int] = {}
        self._codes: list[NDArray[np.int32]] = []

    def add(self, block: Block) -> None:
        """Add the column of this name in a block. Raises MalformedRow, also for an empty cell if
        none is allowed."""
        import pyarrow as pa

        batch, lines = block
        column = batch.column(self._name)
        if column.null_count:
            raise MalformedRow(lines[_first(column.is_null())], "no value", self._name)
        column = column.combine_chunks() if hasattr(column, "chunks") else column
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        try:
            coded = column.dictionary_encode()
            texts = _written(coded.dictionary)
        except (pa.ArrowException, UnicodeDecodeError):
            expected = "a column of text or numbers is expected"
            raise MalformedRow(lines[0], expected, self._name) from None
        codes = np.asarray(coded.indices, np.int64)
        for place, text in enumerate(texts):
            if text is None or not (self._empty or text.strip()):
                reason = (
                    "no value"
                    if text is not None
                    else "not a number that a float represents exactly"
                )
                raise MalformedRow(lines[int(np.argmax(codes == place))], reason, self._name)
        table = [self._places.setdefault(text or "", len(self._places)) for text in texts]
        self._codes.append(np.asarray(table, np.int32)[codes])

    def finish(self) -> Texts:
        """The texts of all cells."""
        codes = np.concatenate(self._codes) if self._codes else np.zeros(0, np.int32)
        return Texts(tuple(self._places), codes)


def _written(values: Any) -> list[str | None]:
    """The texts of an array of distinct values; None for a float that may have lost digits."""
    import pyarrow as pa

    kind = values.type
    if pa.types.is_floating(kind):
        plain = np.asarray(values)
        is_written = np.isfinite(plain) & (np.abs(plain.astype(np.float64)) <= LARGEST_EXACT)
        return [
            str(value) if good else None
            for value, good in zip(plain, is_written.tolist(), strict=True)
        ]
    if pa.types.is_decimal(kind):
        return [format(Decimal(value), "f") for value in values.to_pylist()]
    result: list[str | None] = values.cast(pa.string()).to_pylist()
    return result


def _first(mask: Any) -> int:
    from pyarrow import compute

    return int(compute.index(mask, True).as_py())


# Readers of kind `numeric-table`: CSV with a header, and Parquet.

MAX_ROWS: Final = 10**8
MAX_COLUMNS: Final = 256


def read_numeric_csv(
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
    return _numeric_table(file.names, file.blocks(roles, max_rows), label, curator)


def read_numeric_parquet(
    stream: BinaryIO,
    *,
    label: str | None = None,
    curator: str | None = None,
    max_rows: int = MAX_ROWS,
) -> NumericTable:
    """The same of a Parquet file; rows are counted from 1."""
    names, blocks = parquet_blocks(stream, MAX_COLUMNS + 2, max_rows)
    return _numeric_table(names, blocks, label, curator)


def _numeric_table(
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


# Readers of kind `table`: CSV with a header, and Parquet, any columns, as they are written.

MAX_TABLE_COLUMNS: Final = 1000


def read_csv(stream: BinaryIO, *, max_rows: int = MAX_ROWS) -> Table:
    """Columns of texts; an empty field is "". Raises MalformedRow, TooManyRows."""
    file = CsvFile(stream, MAX_TABLE_COLUMNS)
    return _table(file.names, file.blocks(frozenset(file.names), max_rows))


def read_parquet(stream: BinaryIO, *, max_rows: int = MAX_ROWS) -> Table:
    """Columns of values that have one text. Raises MalformedRow, TooManyRows."""
    return _table(*parquet_blocks(stream, MAX_TABLE_COLUMNS, max_rows))


def _table(names: tuple[str, ...], blocks: Iterator[Block]) -> Table:
    columns = [TextColumn(name) for name in names]
    for block in blocks:
        for column in columns:
            column.add(block)
    return Table(names, tuple(column.finish() for column in columns))


# Readers of kind `user-series`: columns `user`, `round`, values, and optionally `label`.

MAX_VALUES: Final = 64
MAX_ROUND: Final = 10**9
USER, ROUND, LABEL = "user", "round", "label"


def read_series_csv(stream: BinaryIO, *, max_rows: int = MAX_ROWS) -> UserSeries:
    """One row per (user, round). Raises MalformedRow with row and column, TooManyRows."""
    file = CsvFile(stream, MAX_VALUES + 3)
    return _user_series(file.names, file.blocks(frozenset((USER, ROUND, LABEL)), max_rows))


def read_series_parquet(stream: BinaryIO, *, max_rows: int = MAX_ROWS) -> UserSeries:
    """The same of a Parquet file; rows are counted from 1."""
    return _user_series(*parquet_blocks(stream, MAX_VALUES + 3, max_rows))


def _user_series(names: tuple[str, ...], blocks: Iterator[Block]) -> UserSeries:
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


def _rounds(texts: Texts, line: Ints) -> Ints:
    numbers = np.zeros(len(texts.values), np.int64)
    for place, text in enumerate(texts.values):
        number = exact_number(text.strip())
        if number is None or not 1 <= number <= MAX_ROUND or number != int(number):
            row = int(line[int(np.argmax(texts.codes == place))])
            raise MalformedRow(row, "a whole number from 1 is expected", ROUND)
        numbers[place] = int(number)
    return numbers[texts.codes] if texts.codes.size else np.zeros(0, np.int64)


def _refuse_twice(users: Texts, rounds: Ints, line: Ints) -> None:
    order = np.lexsort((rounds, users.codes))  # stable: of equal rows the later one comes second
    same = (np.diff(users.codes[order]) == 0) & (np.diff(rounds[order]) == 0)
    if same.any():
        row = int(line[order[1:][same]].min())
        raise MalformedRow(row, "the user has a row in this round already", ROUND)
