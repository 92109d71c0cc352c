"""Files of columns, read at pyarrow's speed: CSV with a header, and Parquet.

A CSV file is read in blocks of whole records (`tacit.records.delimited`). A block that pyarrow
refuses is searched for its first bad record, and that one is checked field by field: the error
names the line of the file and the column, and nothing is read twice. No blank lines but at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.datasets.texts import Texts
from tacit.compression import MalformedContent
from tacit.records.delimited import Lot, Records, distinct, split
from tacit.records.reading import (
    MalformedRow,
    TooManyRows,
    exact_number,
    nonzero,
    number,
    number_problem,
    numbers_taken,
)

BLOCK_BYTES: Final = 8 << 20
PARQUET_ROWS: Final = 1 << 17
LARGEST_EXACT: Final = 2.0**53
"""Above it a float does not tell two neighbouring whole numbers apart."""
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
    """The table of some records; None where pyarrow refuses them, or one is an empty line, or would
    become 0 without being 0."""
    import pyarrow as pa
    from pyarrow import csv as reader

    if b"" in records:
        return None
    body = b"\n".join(records) + b"\n"
    kinds = {name: pa.string() if name in text else pa.float64() for name in names}
    try:
        found = reader.read_csv(
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
    vanishing = _vanishing(records, body, names, text, found)
    return found if found.num_rows == len(records) and not vanishing else None


def _vanishing(
    records: Sequence[bytes],
    body: bytes,
    names: tuple[str, ...],
    text: frozenset[str],
    found: Batch,
) -> bool:
    """Whether a number that is not 0 is too small for a float and became 0."""
    if not re.search(rb"[eE]-", body) and max(map(len, records)) < _LONG_CELL:
        return False
    for place, name in enumerate(names):
        if name in text:
            continue
        for row in np.flatnonzero(np.asarray(found.column(place)) == 0).tolist():
            try:
                nonzero(split(records[row])[place].decode().strip())
            except ValueError:
                return True
    return False


def _explained(
    records: Sequence[bytes], lines: Sequence[int], names: tuple[str, ...], text: frozenset[str]
) -> MalformedRow:
    """What is wrong with the first bad record."""
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
    """(column names, blocks) of a stream that can seek.

    Raises MalformedContent for what is no Parquet file, TooManyRows.
    """
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
    found: NDArray[np.float64] = np.asarray(column.cast(pa.float64(), safe=False), np.float64)
    taken = numbers_taken(found)
    if not taken.all():
        bad = int(np.argmin(taken))
        raise MalformedRow(lines[bad], number_problem(float(found[bad])) or "", name)
    return found


class TextColumn:
    """A column of texts as they are written, gathered block by block.

    Cells of Parquet that are no texts get the one text that says what they are: whole numbers and
    decimals all their digits, floats the shortest that reads back as the same float, dates and
    times ISO 8601, truth values `true` and `false`. A float above 2^53 is refused: digits of an id
    may be lost in it already.
    """

    def __init__(self, name: str, *, empty: bool = True) -> None:
        self._name, self._empty = name, empty
        self._places: dict[str, int] = {}
        self._codes: list[NDArray[np.int32]] = []

    def add(self, block: Block) -> None:
        """The column of this name in a block. Raises MalformedRow, also for an empty cell where
        there may be none."""
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
                reason = "no value" if text is not None else "no number that a float tells apart"
                raise MalformedRow(lines[int(np.argmax(codes == place))], reason, self._name)
        table = [self._places.setdefault(text or "", len(self._places)) for text in texts]
        self._codes.append(np.asarray(table, np.int32)[codes])

    def finish(self) -> Texts:
        """All cells."""
        codes = np.concatenate(self._codes) if self._codes else np.zeros(0, np.int32)
        return Texts(tuple(self._places), codes)


def _written(values: Any) -> list[str | None]:
    """The texts of an array of distinct values; None for a float that may have lost digits."""
    import pyarrow as pa

    kind = values.type
    if pa.types.is_floating(kind):
        plain = np.asarray(values)
        told = np.isfinite(plain) & (np.abs(plain.astype(np.float64)) <= LARGEST_EXACT)
        return [
            str(value) if good else None for value, good in zip(plain, told.tolist(), strict=True)
        ]
    if pa.types.is_decimal(kind):
        return [format(Decimal(value), "f") for value in values.to_pylist()]
    found: list[str | None] = values.cast(pa.string()).to_pylist()
    return found


def _first(mask: Any) -> int:
    from pyarrow import compute

    return int(compute.index(mask, True).as_py())
