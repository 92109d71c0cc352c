"""Files of columns, read at pyarrow's speed: CSV with a header, and Parquet.

A CSV file is read in blocks of whole lines. A block that pyarrow refuses is searched for its first
bad line, and that line is checked field by field: the error names row and column, and nothing is
read twice. A row is a line: no line breaks inside quotes, no blank lines but at the end.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from tacit.compression import MalformedContent
from tacit.records.reading import (
    MAX_LINE_BYTES,
    MalformedRow,
    TooManyRows,
    number_problem,
    numbers_taken,
)

BLOCK_BYTES: Final = 8 << 20
PARQUET_ROWS: Final = 1 << 17
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
_WHOLE = re.compile(r"\s*-?\d{1,18}\s*")

Batch = Any
"""A pyarrow record batch or table: pyarrow has no types."""


def check_header(names: Sequence[str], most: int) -> tuple[str, ...]:
    """Column names that are there, distinct and not too many."""
    if len(names) > most:
        raise TooManyRows(f"at most {most} columns", extra={"max_columns": most})
    if len(set(names)) != len(names):
        twice = next(index for index, name in enumerate(names) if name in names[:index])
        raise MalformedRow(1, "two columns have one name", twice + 1)
    for place, name in enumerate(names, 1):
        if not name.strip():
            raise MalformedRow(1, "a column has no name", place)
    if not names or all(_NUMBER.fullmatch(name) for name in names):
        raise MalformedRow(1, "a header with the names of the columns is missing")
    return tuple(names)


# --- CSV -----------------------------------------------------------------------------------------


def csv_header(stream: BinaryIO, most: int) -> tuple[str, ...]:
    """The names in the first line; the stream is positioned after it."""
    line = stream.readline(MAX_LINE_BYTES + 2)
    if len(line.rstrip(b"\r\n")) > MAX_LINE_BYTES:
        raise MalformedRow(1, f"a line has at most {MAX_LINE_BYTES} bytes")
    fields = _fields(_text(line, 1).lstrip("\ufeff"), 1)
    return check_header([name.strip() for name in fields], most)


def csv_blocks(
    stream: BinaryIO, names: tuple[str, ...], text: frozenset[str], max_rows: int
) -> Iterator[Batch]:
    """Tables of the lines that follow the header; float64 but for the columns named as `text`.

    Raises MalformedRow, TooManyRows. Values may be infinite or NaN: see `numbers`.
    """
    row, blank_at = 2, None
    for block in _line_blocks(stream):
        body = block.rstrip(b"\r\n") + b"\n"
        if blank_at is not None and body != b"\n":
            raise MalformedRow(blank_at, "an empty line")
        if body == b"\n":
            blank_at = blank_at or row
            row += block.count(b"\n")
            continue
        lines = body.count(b"\n")
        if row - 2 + lines > max_rows:
            raise TooManyRows(f"at most {max_rows} rows", extra={"max_rows": max_rows})
        table = _parsed(body, names, text)
        if table is None:
            raise _explained(body, row, names, text)
        yield table
        total = block.count(b"\n") or 1
        blank_at = row + lines if total > lines else None
        row += total


def _line_blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Blocks of whole lines; one with an overlong line is passed on unchanged, so that it is
    reported."""
    rest = b""
    while data := stream.read(BLOCK_BYTES):
        end = data.rfind(b"\n") + 1
        if end:
            yield rest + data[:end]
            rest = data[end:]
        else:
            rest += data
            if len(rest) > 2 * MAX_LINE_BYTES:
                break  # it is reported as too long, and the rest is not checked
    if rest:
        yield rest


def _parsed(body: bytes, names: tuple[str, ...], text: frozenset[str]) -> Batch | None:
    """The table of some lines; None where pyarrow refuses them."""
    import pyarrow as pa
    from pyarrow import csv as reader

    if len(body) > MAX_LINE_BYTES and _longest(body) > MAX_LINE_BYTES:
        return None
    kinds = {name: pa.string() if name in text else pa.float64() for name in names}
    try:
        return reader.read_csv(
            pa.BufferReader(body),
            read_options=reader.ReadOptions(column_names=names, block_size=MAX_LINE_BYTES + 2),
            parse_options=reader.ParseOptions(ignore_empty_lines=False),
            convert_options=reader.ConvertOptions(
                column_types=kinds, null_values=[], strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid:
        return None


def _longest(body: bytes) -> int:
    ends = np.flatnonzero(np.frombuffer(body, np.uint8) == ord("\n"))
    return int(np.diff(ends, prepend=-1).max(initial=0)) - 1


def _explained(body: bytes, row: int, names: tuple[str, ...], text: frozenset[str]) -> MalformedRow:
    """What is wrong with the first bad line of a block that starts at `row`."""
    lines = body.split(b"\n")[:-1]
    good, bad = 0, len(lines)  # the first `good` lines parse, the first `bad` do not
    while bad - good > 1:
        middle = (good + bad) // 2
        if _parsed(b"\n".join(lines[good:middle]) + b"\n", names, text) is None:
            bad = middle
        else:
            good = middle
    place, line = row + good, lines[good]
    if len(line) > MAX_LINE_BYTES:
        return MalformedRow(place, f"a line has at most {MAX_LINE_BYTES} bytes")
    try:
        fields = _fields(_text(line, place), place)
    except MalformedRow as error:
        return error
    if len(fields) != len(names):
        return MalformedRow(place, f"{len(names)} fields are expected")
    for name, value in zip(names, fields, strict=True):
        if name not in text and not _NUMBER.fullmatch(value):
            return MalformedRow(place, "not a number" if value.strip() else "no value", name)
    return MalformedRow(place, "cannot be read")


def _text(line: bytes, row: int) -> str:
    try:
        return line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise MalformedRow(row, "not UTF-8") from None


def _fields(line: str, row: int) -> list[str]:
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error:
        raise MalformedRow(row, "broken quotes") from None


# --- Parquet -------------------------------------------------------------------------------------


def parquet_batches(
    stream: BinaryIO, most_columns: int, max_rows: int
) -> tuple[tuple[str, ...], Iterator[Batch]]:
    """(column names, record batches) of a stream that can seek.

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

    def batches() -> Iterator[Batch]:
        try:
            yield from file.iter_batches(batch_size=PARQUET_ROWS)
        except (pa.ArrowException, OSError):
            raise MalformedContent("the content is not Parquet") from None

    return names, batches()


# --- columns as arrays ---------------------------------------------------------------------------


def numbers(batch: Batch, name: str, first_row: int) -> NDArray[np.float64]:
    """A column as numbers that are taken. Raises MalformedRow; `first_row`: of the first."""
    import pyarrow as pa

    column = batch.column(name)
    if column.null_count:
        raise MalformedRow(first_row + _first(column.is_null()), "no value", name)
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise MalformedRow(first_row, "a column of numbers is expected", name)
    found: NDArray[np.float64] = np.asarray(column.cast(pa.float64(), safe=False), np.float64)
    taken = numbers_taken(found)
    if not taken.all():
        bad = int(np.argmin(taken))
        raise MalformedRow(first_row + bad, number_problem(float(found[bad])) or "", name)
    return found


def texts(batch: Batch, name: str, first_row: int) -> Any:
    """A column as an array of pyarrow texts without gaps. Raises MalformedRow."""
    import pyarrow as pa

    column = batch.column(name)
    if column.null_count:
        raise MalformedRow(first_row + _first(column.is_null()), "no value", name)
    try:
        return pa.chunked_array(column if hasattr(column, "chunks") else [column]).cast(pa.string())
    except pa.ArrowException:
        raise MalformedRow(first_row, "a column of text or numbers is expected", name) from None


def coded(chunks: Sequence[Any]) -> NDArray[np.int64]:
    """Texts as numbers: themselves where all are whole, else their places in sorted order."""
    import pyarrow as pa
    from pyarrow import compute

    whole = pa.chunked_array([part for chunk in chunks for part in chunk.chunks], pa.string())
    if len(whole) == 0:
        return np.zeros(0, np.int64)
    distinct = compute.unique(whole)
    names = distinct.to_pylist()
    if all(_WHOLE.fullmatch(name) for name in names):
        codes = [int(name) for name in names]
    else:
        place = {name: index for index, name in enumerate(sorted(names))}
        codes = [place[name] for name in names]
    indices = compute.index_in(whole, distinct)
    return np.asarray(codes, np.int64)[np.asarray(indices, np.int64)]


def _first(mask: Any) -> int:
    from pyarrow import compute

    return int(compute.index(mask, True).as_py())
