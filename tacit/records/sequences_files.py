"""Readers of sequences: text, SPMF, NDJSON lists, and the layout of the MSNBC file.

Spec: jobs, section "Datasets". A reader takes a stream that is no longer compressed. With a
`universe` the items are its entries, and another one is an error; without, they are what the file
holds, in the order of their first occurrence. The format of a line is that of sets of items, with
order and repetitions kept. The marks of a layout, and the comments that it defines, are removed
before, and the rows in errors are mapped back to lines of the file.
"""

from __future__ import annotations

import io
from array import array
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import BinaryIO, Final, cast

from tacit.records import transactions_files
from tacit.records.reading import MAX_LINE_BYTES, MalformedRow, TooManyRows, without_mark
from tacit.records.sequences import MAX_TOTAL_ITEMS, MAX_UNIVERSE, Sequences
from tacit.records.transactions import Transactions

MSNBC_MARK: Final = b"% Sequences:"
_SPMF_COMMENTS: Final = (b"%", b"#", b"@")
_SPMF_NEXT: Final = b"-1"
_SPMF_END: Final = b"-2"

Change = Callable[[bytes, int], bytes]
"""From a line without its end, and its row, to its items between blanks."""


def read_text(stream: BinaryIO, universe: Sequence[str] | None = None) -> Sequences:
    """A sequence a line, items separated by blanks. An empty line is an empty sequence, the end of
    the file is not. There are no comments: an item may begin with any character.

    Raises MalformedRow for what is not UTF-8 and for a line over 1 MiB, UnknownItem, TooManyRows.
    """
    return _sequences(transactions_files.read_text(stream, universe))


def read_spmf(stream: BinaryIO, universe: Sequence[str] | None = None) -> Sequences:
    """A sequence a line, `-1` after each item and `-2` at the end; sets of several items are none.
    Lines that begin with `#`, `%` or `@` are comments, but not one that has these marks.

    Raises as `read_text`, and MalformedRow for a line without these marks.
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


def read_ndjson(stream: BinaryIO, universe: Sequence[str] | None = None) -> Sequences:
    """A JSON list of ids (strings, or whole numbers) a line; `[]` is an empty sequence.

    Raises MalformedRow, UnknownItem, TooManyRows.
    """
    return _sequences(transactions_files.read_ndjson(stream, universe))


class _Plain(io.RawIOBase):
    """The stream as text of items only; `row_of` finds the line of the file for a line of it.

    before: lines of the file that were read already. `refused`: the error that was found here, its
    row that of the file.
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
        """The line of the file, from 1, of a line that was handed out."""
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
        kept = []
        for row, line in enumerate(block.removesuffix(b"\n").split(b"\n"), first):
            if line.startswith(self._comments):
                if line.rstrip().endswith(b"-2"):
                    reason = "it begins as a comment and ends as a sequence, with -2"
                    raise MalformedRow(row, reason)
                self._leave_out(row, line)
            else:
                kept.append(line if self._change is None else self._change(line, row))
        return b"\n".join(kept) + b"\n" if kept else b""

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
        return _sequences(transactions_files.read_lines(cast(BinaryIO, plain), universe))
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
