"""Readers of files of items: sets and sequences as text, NDJSON, Parquet, SPMF and the MSNBC
layout, and NDJSON of records with a time.

Spec: jobs, section "Datasets". A reader takes a stream that is no longer compressed. With a
`universe` the items are its entries, and another one is an error; without, they are what the file
holds, in the order of their first occurrence. Blocks of the file are read and forgotten; the result
grows in place.
"""

from __future__ import annotations

import io
import json
from array import array
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import Any, BinaryIO, Final, Generic, TypeVar, cast

import numpy as np

from tacit.compression import MalformedContent
from tacit.errors import Invalid
from tacit.records.items import (
    MAX_ITEMS,
    MAX_RECORDS,
    MAX_TOTAL_ITEMS,
    MAX_UNIVERSE,
    Ints,
    Places,
    Sequences,
    Transactions,
)
from tacit.records.text_files import (
    BYTE_ORDER_MARK,
    MAX_LINE_BYTES,
    MalformedRow,
    TooManyRows,
    UnknownItem,
    text_lines,
    without_mark,
)

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
    """The index of each id. Closed: an unknown id raises KeyError; open: it gets the next index."""

    def __init__(self, known: Sequence[Id], *, closed: bool) -> None:
        super().__init__({item: place for place, item in enumerate(known)})
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
    """A record per line, items separated by blanks; an empty line is an empty record. Raises
    MalformedRow for bytes that are not UTF-8 and for a line over 1 MiB, UnknownItem,
    TooManyRows."""
    return read_lines(without_mark(stream), universe)


def read_lines(stream: BinaryIO, universe: Sequence[str] | None = None) -> Transactions:
    """The same of a stream without a byte-order mark."""
    known_items = [item.encode() for item in _known(universe)]
    places, growing, rest = _Places(known_items, closed=universe is not None), _Growing(), b""
    while block := stream.read(BLOCK_BYTES):
        end = block.rfind(b"\n") + 1
        if not end:
            rest += block
        else:
            _add_lines(rest + block[:end], places, growing)
            rest = block[end:]
        if len(rest) > MAX_LINE_BYTES + 1:
            raise MalformedRow(growing.records + 1, f"a line has at most {MAX_LINE_BYTES} bytes")
    if rest:
        _add_lines(rest + b"\n", places, growing)
    items = universe if universe is not None else [item.decode() for item in places]
    return growing.dataset(items)


def _column(lines: Places, item: int) -> int:
    """The number of each item in its line, from 1; lines: the line of each item, ascending."""
    return 1 + item - int(np.searchsorted(lines, lines[item]))


def _add_lines(block: bytes, places: _Places[bytes], growing: _Growing) -> None:
    """Whole lines: ids by one split; how many a line has, by where ids begin."""
    before = growing.records
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
    growing.add(values, np.bincount(lines, minlength=ends.size))


def read_ndjson(stream: BinaryIO, universe: Sequence[str] | None = None) -> Transactions:
    """A JSON list of ids (strings, or whole numbers) a line; `[]` is an empty record.

    Raises MalformedRow, UnknownItem, TooManyRows.
    """
    places, growing = _Places(_known(universe), closed=universe is not None), _Growing()
    for row, line in text_lines(stream):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise MalformedRow(row, "not JSON") from None
        if not isinstance(record, list):
            raise MalformedRow(row, "not a list")
        growing.add(_listed(record, row, places), [len(record)])
    return growing.dataset(universe if universe is not None else list(places))


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

    places, growing = _Places(_known(universe), closed=universe is not None), _Growing()
    try:
        file = pq.ParquetFile(stream)
        schema = file.schema_arrow
        names = [column] if column is not None else schema.names
        if len(names) != 1 or names[0] not in schema.names:
            raise MalformedContent("name the one column that holds the lists")
        if not _of_items(schema.field(names[0]).type):
            raise MalformedContent("the column holds lists of strings or of whole numbers")
        for batch in file.iter_batches(columns=names):
            _add_lists(batch.column(0), places, growing)
    except (pa.ArrowException, OSError):
        raise MalformedContent("the content is not Parquet") from None
    return growing.dataset(universe if universe is not None else list(places))


def _of_items(kind: Any) -> bool:
    import pyarrow.types as types

    if not (types.is_list(kind) or types.is_large_list(kind)):
        return False
    item = kind.value_type
    return bool(types.is_integer(item) or types.is_string(item) or types.is_large_string(item))


def _add_lists(lists: Any, places: _Places[str], growing: _Growing) -> None:
    """A batch of lists, each distinct id of it looked up once."""
    import pyarrow.compute as pc

    before = growing.records
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
    growing.add(table[codes], lengths)


# Readers of sequences. The format of a line is that of sets of items, with order and repetitions
# kept. The marks and comments of a layout are removed before, and the rows in errors are mapped
# back to lines of the file.

MSNBC_MARK: Final = b"% Sequences:"
_SPMF_COMMENTS: Final = (b"%", b"#", b"@")
_SPMF_NEXT: Final = b"-1"
_SPMF_END: Final = b"-2"

Change = Callable[[bytes, int], bytes]
"""From a line without its end, and its row, to its items between blanks."""


def read_text_sequences(stream: BinaryIO, universe: Sequence[str] | None = None) -> Sequences:
    """A sequence per line, items separated by blanks. An empty line is an empty sequence, except at
    the end of the file.

    There are no comments: an item may begin with any character. Raises MalformedRow for bytes
    that are not UTF-8 and for a line over 1 MiB, UnknownItem, TooManyRows.
    """
    return _sequences(read_text(stream, universe))


def read_spmf(stream: BinaryIO, universe: Sequence[str] | None = None) -> Sequences:
    """A sequence per line, `-1` after each item and `-2` at the end; sets of several items are not
    allowed.

    Lines that begin with `#`, `%` or `@` are comments, unless they have these marks. Raises as
    `read_text`, and MalformedRow for a line without these marks.
    """
    return _read(_Plain(without_mark(stream), _SPMF_COMMENTS, _of_spmf), universe)


def read_msnbc(stream: BinaryIO, universe: Sequence[str] | None = None) -> Sequences:
    """Text after a header that ends with the blank line after `% Sequences:`.

    Without a universe the items are "1" to "n", n the names in the header.

    Raises as `read_text`, and MalformedRow for a header without an end.
    """
    row, names = 0, 0
    stream = without_mark(stream)
    while line := stream.readline(MAX_LINE_BYTES + 2):
        row += 1
        if line.strip() == MSNBC_MARK:
            break
        if len(line) > MAX_LINE_BYTES + 1:
            raise MalformedRow(row, f"a line has at most {MAX_LINE_BYTES} bytes")
        if not line.startswith((b"%", b"#")):
            names += len(line.split())
    blank = stream.readline(MAX_LINE_BYTES + 2)
    if not line or blank.strip():
        raise MalformedRow(row + 1, "a header ends with `% Sequences:` and a blank line")
    if universe is None:
        universe = tuple(str(place) for place in range(1, names + 1))
    return _read(_Plain(stream, before=row + 1), universe)


def read_ndjson_sequences(stream: BinaryIO, universe: Sequence[str] | None = None) -> Sequences:
    """A JSON list of ids (strings, or whole numbers) a line; `[]` is an empty sequence.

    Raises MalformedRow, UnknownItem, TooManyRows.
    """
    return _sequences(read_ndjson(stream, universe))


class _Plain(io.RawIOBase):
    """The stream as text of items only; `row_of` gives the line of the file from which one of its
    lines comes.

    before: lines of the file that were read already. `refused`: the error found here, with its
    line in the file.
    """

    def __init__(
        self,
        stream: BinaryIO,
        comments: tuple[bytes, ...] = (),
        change: Change | None = None,
        before: int = 0,
    ) -> None:
        super().__init__()
        self._stream, self._comments, self._change = stream, comments, change
        self._marks = tuple(b"\n" + mark for mark in comments)
        self._rows = before
        self._left_out = array("q", range(1, before + 1))
        self.refused: MalformedRow | None = None

    def read(self, size: int = -1) -> bytes:
        """Whole lines of about `size` bytes; empty at the end."""
        while block := self._stream.read(size):
            block += self._stream.readline(MAX_LINE_BYTES + 2)
            try:
                if plain := self._plain(block):
                    return plain
            except MalformedRow as wrong:
                self.refused = wrong
                raise
        return b""

    def row_of(self, line: int) -> int:
        """The line of the file, from 1, of a line that was yielded."""
        for row in self._left_out:
            if row > line:
                break
            line += 1
        return line

    def _plain(self, block: bytes) -> bytes:
        first = self._rows + 1
        self._rows += block.count(b"\n")
        if (
            self._change is None
            and not block.startswith(self._comments)
            and not any(mark in block for mark in self._marks)
        ):
            return block
        lines = []
        for row, line in enumerate(block.removesuffix(b"\n").split(b"\n"), first):
            if line.startswith(self._comments):
                if line.rstrip().endswith(b"-2"):
                    reason = "it begins as a comment and ends as a sequence, with -2"
                    raise MalformedRow(row, reason)
                self._leave_out(row, line)
            else:
                lines.append(line if self._change is None else self._change(line, row))
        return b"\n".join(lines) + b"\n" if lines else b""

    def _leave_out(self, row: int, comment: bytes) -> None:
        if len(comment) > MAX_LINE_BYTES + 1:
            raise MalformedRow(row, f"a line has at most {MAX_LINE_BYTES} bytes")
        try:
            comment.decode()
        except UnicodeDecodeError:
            raise MalformedRow(row, "not UTF-8") from None
        self._left_out.append(row)


def _of_spmf(line: bytes, row: int) -> bytes:
    parts = line.split()
    items, marks = parts[:-1:2], parts[1:-1:2]
    if (
        parts[-1:] != [_SPMF_END]
        or len(items) != len(marks)
        or any(map(bytes.__ne__, marks, repeat(_SPMF_NEXT)))
    ):
        raise MalformedRow(row, "an item is followed by -1, and the last one by -2 too")
    return b" ".join(items)


def _read(plain: _Plain, universe: Sequence[str] | None) -> Sequences:
    try:
        return _sequences(read_lines(cast(BinaryIO, plain), universe))
    except MalformedRow as wrong:
        if wrong is plain.refused:
            raise
        raise type(wrong)(plain.row_of(wrong.row), wrong.reason, wrong.column) from None


def _sequences(read: Transactions) -> Sequences:
    if read.values.size > MAX_TOTAL_ITEMS:
        raise TooManyRows(f"a dataset has at most {MAX_TOTAL_ITEMS} items in all sequences")
    if len(read.items) > MAX_UNIVERSE:
        raise TooManyRows(f"a dataset has at most {MAX_UNIVERSE} different items")
    return Sequences(read.items, read.values, read.offsets)


# NDJSON of records with a time: `{"items": ["home"], "time": "2026-05-01T08:00:00Z"}`; all records
# of a file have one, or none (spec: federated-counting, section 5).

FIELDS: Final = {"items", "time"}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def microseconds(instant: datetime) -> int:
    """Since the beginning of 1970."""
    return (instant - EPOCH) // _MICROSECOND


def split(content: bytes) -> tuple[bytes, Ints | None]:
    """The lists of a file, one per line, and the time of each record in microseconds since 1970;
    None for a file of lists only. Raises MalformedRow, which names the line; TooManyRows."""
    if not content.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"{"):
        return content, None
    lines: list[str] = []
    times: list[int] = []
    for row, line in text_lines(io.BytesIO(content)):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise MalformedRow(row, "not JSON") from None
        if not isinstance(record, dict) or set(record) != FIELDS:
            raise MalformedRow(row, "an object of items and time, as in the first line")
        if len(lines) >= MAX_RECORDS:
            raise TooManyRows(f"a dataset has at most {MAX_RECORDS} records")
        times.append(_time(record["time"], row))
        lines.append(json.dumps(record["items"]))
    return "\n".join(lines).encode(), np.array(times, np.int64)


def _time(value: Any, row: int) -> int:
    try:
        moment = datetime.fromisoformat(value)
        if moment.utcoffset() is None:
            raise ValueError
        return microseconds(moment)
    except (TypeError, ValueError, OverflowError):
        raise MalformedRow(row, "time is an RFC 3339 time with an offset") from None
