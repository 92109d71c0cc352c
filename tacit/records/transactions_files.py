"""Readers of sets of items: text, NDJSON lists, a list column of Parquet.

Spec: jobs, section "Datasets". A reader takes a stream that is no longer compressed. With a
`universe` the items are its entries, and another one is an error; without, they are what the file
holds, in the order of their first occurrence. Blocks of the file are read and forgotten; the result
grows in place.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from typing import Any, BinaryIO, Final, Generic, TypeVar

import numpy as np

from tacit.compression import MalformedContent
from tacit.errors import Invalid
from tacit.records.reading import (
    MAX_LINE_BYTES,
    MalformedRow,
    TooManyRows,
    UnknownItem,
    text_lines,
    without_mark,
)
from tacit.records.transactions import MAX_ITEMS, MAX_RECORDS, Ints, Places, Transactions

BLOCK_BYTES: Final = 1 << 23
MAX_ID_BYTES: Final = 1024
_NEWLINE: Final = 10
_UNKNOWN: Final = "an item is not in the universe"
_BLANK: Final = np.isin(np.arange(256), (9, 10, 11, 12, 13, 32))
"""What `bytes.split` takes for blank, by octet."""

Id = TypeVar("Id")


class BadUniverse(Invalid):
    """An item appears twice in the declared list."""

    name = "bad_universe"
    title = "The universe of items is not valid"


def _known(universe: Sequence[str] | None) -> Sequence[str]:
    if universe is not None and len(set(universe)) != len(universe):
        raise BadUniverse("names every item once", pointer="/universe")
    return universe or ()


class _Places(dict[Id, int], Generic[Id]):
    """The place of each id. Closed: another one raises KeyError; open: it gets the next place."""

    def __init__(self, known: Sequence[Id], *, closed: bool) -> None:
        super().__init__({each: place for place, each in enumerate(known)})
        self._closed = closed

    def __missing__(self, item: Id) -> int:
        if self._closed:
            raise KeyError
        if len(self) >= MAX_ITEMS:
            raise TooManyRows(f"a dataset has at most {MAX_ITEMS} different items")
        place = self[item] = len(self)
        return place


class _Growing:
    """Values and lengths of records, appended block by block without a second copy."""

    def __init__(self) -> None:
        self._values, self._lengths = array("i"), array("q")

    @property
    def records(self) -> int:
        return len(self._lengths)

    def add(self, values: Sequence[int] | Places | Ints, lengths: Sequence[int] | Ints) -> None:
        if len(self._lengths) + len(lengths) > MAX_RECORDS:
            raise TooManyRows(f"a dataset has at most {MAX_RECORDS} records")
        self._values.frombytes(np.asarray(values, np.int32).tobytes())
        self._lengths.frombytes(np.asarray(lengths, np.int64).tobytes())

    def dataset(self, items: Sequence[str]) -> Transactions:
        offsets = np.zeros(len(self._lengths) + 1, np.int64)
        np.cumsum(np.frombuffer(self._lengths, np.int64), out=offsets[1:])
        return Transactions(tuple(items), np.frombuffer(self._values, np.int32), offsets)


def read_text(stream: BinaryIO, universe: Sequence[str] | None = None) -> Transactions:
    """A record a line, items separated by blanks; an empty line is an empty record.

    Raises MalformedRow for what is not UTF-8 and for a line over 1 MiB, UnknownItem, TooManyRows.
    """
    return read_lines(without_mark(stream), universe)


def read_lines(stream: BinaryIO, universe: Sequence[str] | None = None) -> Transactions:
    """The same of a stream without a byte-order mark."""
    known = [item.encode() for item in _known(universe)]
    places, found, rest = _Places(known, closed=universe is not None), _Growing(), b""
    while block := stream.read(BLOCK_BYTES):
        end = block.rfind(b"\n") + 1
        if not end:
            rest += block
        else:
            _add_lines(rest + block[:end], places, found)
            rest = block[end:]
        if len(rest) > MAX_LINE_BYTES + 1:
            raise MalformedRow(found.records + 1, f"a line has at most {MAX_LINE_BYTES} bytes")
    if rest:
        _add_lines(rest + b"\n", places, found)
    items = universe if universe is not None else [item.decode() for item in places]
    return found.dataset(items)


def _column(lines: Places, item: int) -> int:
    """Which of its line's items an item is, from 1; lines: that of each item, rising."""
    return 1 + item - int(np.searchsorted(lines, lines[item]))


def _add_lines(block: bytes, places: _Places[bytes], found: _Growing) -> None:
    """Whole lines: ids by one split; how many a line has, by where ids begin."""
    before = found.records
    try:
        block.decode()
    except UnicodeDecodeError as wrong:
        row = before + 1 + block.count(b"\n", 0, wrong.start)
        raise MalformedRow(row, "not UTF-8") from None
    octets = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(octets == _NEWLINE)
    long = np.diff(ends, prepend=-1) > MAX_LINE_BYTES + 1
    if long.any():
        row = before + 1 + int(long.argmax())
        raise MalformedRow(row, f"a line has at most {MAX_LINE_BYTES} bytes")
    blank = _BLANK[octets]
    begins = np.flatnonzero(~blank & np.concatenate(([True], blank[:-1])))
    stops = np.flatnonzero(blank & np.concatenate(([False], ~blank[:-1])))
    lines = np.cumsum(octets == _NEWLINE, dtype=np.int32)[begins]
    if (stops - begins > MAX_ID_BYTES).any():
        first = int((stops - begins > MAX_ID_BYTES).argmax())
        row, column = before + 1 + int(lines[first]), _column(lines, first)
        raise MalformedRow(row, f"an item has at most {MAX_ID_BYTES} bytes", column)
    tokens = block.split()
    try:
        values = np.fromiter(map(places.__getitem__, tokens), np.int32, len(tokens))
    except KeyError:
        first = next(place for place, token in enumerate(tokens) if token not in places)
        row = before + 1 + int(lines[first])
        raise UnknownItem(row, _UNKNOWN, _column(lines, first)) from None
    found.add(values, np.bincount(lines, minlength=ends.size))


def read_ndjson(stream: BinaryIO, universe: Sequence[str] | None = None) -> Transactions:
    """A JSON list of ids (strings, or whole numbers) a line; `[]` is an empty record.

    Raises MalformedRow, UnknownItem, TooManyRows.
    """
    places, found = _Places(_known(universe), closed=universe is not None), _Growing()
    for row, line in text_lines(stream):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise MalformedRow(row, "not JSON") from None
        if not isinstance(record, list):
            raise MalformedRow(row, "not a list")
        found.add(_listed(record, row, places), [len(record)])
    return found.dataset(universe if universe is not None else list(places))


def _listed(record: list[Any], row: int, places: _Places[str]) -> list[int]:
    values = []
    for column, item in enumerate(record, start=1):
        if isinstance(item, bool) or not isinstance(item, str | int):
            raise MalformedRow(row, "an item is a string or a whole number", column)
        text = str(item)
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise MalformedRow(row, "not UTF-8", column) from None
        if not 1 <= size <= MAX_ID_BYTES:
            raise MalformedRow(row, f"an item has 1 to {MAX_ID_BYTES} bytes", column)
        try:
            values.append(places[text])
        except KeyError:
            raise UnknownItem(row, _UNKNOWN, column) from None
    return values


def read_parquet(
    stream: BinaryIO, universe: Sequence[str] | None = None, column: str | None = None
) -> Transactions:
    """One list column of strings or whole numbers; the only column of the file unless named.

    Rows are counted from 1. Raises MalformedContent, MalformedRow, UnknownItem, TooManyRows.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    places, found = _Places(_known(universe), closed=universe is not None), _Growing()
    try:
        file = pq.ParquetFile(stream)
        schema = file.schema_arrow
        names = [column] if column is not None else schema.names
        if len(names) != 1 or names[0] not in schema.names:
            raise MalformedContent("name the one column that holds the lists")
        if not _of_items(schema.field(names[0]).type):
            raise MalformedContent("the column holds lists of strings or of whole numbers")
        for batch in file.iter_batches(columns=names):
            _add_lists(batch.column(0), places, found)
    except (pa.ArrowException, OSError):
        raise MalformedContent("the content is not Parquet") from None
    return found.dataset(universe if universe is not None else list(places))


def _of_items(kind: Any) -> bool:
    import pyarrow.types as types

    if not (types.is_list(kind) or types.is_large_list(kind)):
        return False
    item = kind.value_type
    return bool(types.is_integer(item) or types.is_string(item) or types.is_large_string(item))


def _add_lists(lists: Any, places: _Places[str], found: _Growing) -> None:
    """A batch of lists, each distinct id of it looked up once."""
    import pyarrow.compute as pc

    before = found.records
    if lists.null_count:
        row = before + 1 + int(np.asarray(lists.is_null()).argmax())
        raise MalformedRow(row, "no list")
    lengths = np.asarray(pc.list_value_length(lists), np.int64)
    lines = np.repeat(np.arange(len(lengths)), lengths)
    coded = lists.flatten().dictionary_encode()
    codes = np.asarray(coded.indices.fill_null(-1), np.int64)
    if (codes < 0).any():
        raise MalformedRow(before + 1 + int(lines[(codes < 0).argmax()]), "an item is missing")
    table = np.empty(len(coded.dictionary), np.int64)
    for code, item in enumerate(coded.dictionary.to_pylist()):
        try:
            table[code] = _listed([item], 0, places)[0]
        except MalformedRow as wrong:
            row = before + 1 + int(lines[(codes == code).argmax()])
            raise type(wrong)(row, wrong.reason) from None
    found.add(table[codes], lengths)
