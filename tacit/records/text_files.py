"""Reading text files of any size: limits of a line and of a number, errors by row and column, and
delimited text (CSV, RFC 4180).

Spec: jobs, section "Datasets": the error has the row and the column, and never the value. A number
is 0 or has a size from 1e-100 to 1e100, so that its square, and a sum of squares of all cells that
a table may have, are numbers that a computer has too.
"""

from __future__ import annotations

import io
import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import BinaryIO, Final, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.errors import Invalid, TooLarge

BYTE_ORDER_MARK: Final = BOM_UTF8
MAX_LINE_BYTES: Final = 1 << 20
SMALLEST_NUMBER: Final = 1e-100
LARGEST_NUMBER: Final = 1e100
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")


class MalformedRow(Invalid):
    """A row of a file that is not of its kind. `row`: the line of the file, counted from 1."""

    name = "malformed_row"
    title = "A row of the dataset is malformed"

    def __init__(self, row: int, reason: str, column: str | int | None = None) -> None:
        place = f"row {row}" if column is None else f"row {row}, column {column}"
        extra: dict[str, object] = {"row": row}
        if column is not None:
            extra["column"] = column
        super().__init__(f"{place}: {reason}", extra=extra)
        self.row, self.reason, self.column = row, reason, column


class UnknownItem(MalformedRow):
    """An item that the declared universe does not have."""

    name = "unknown_item"
    title = "An item is not in the universe"


class TooManyRows(TooLarge):
    """More rows, columns or items than the kind allows."""

    name = "too_large"
    title = "The dataset is too large"


_SIZES: Final = f"a number is 0, or its size lies from {SMALLEST_NUMBER:g} to {LARGEST_NUMBER:g}"


def number_problem(value: float) -> str | None:
    """Why a number (of any number of digits) is not taken; None where it is."""
    if value == 0 or SMALLEST_NUMBER <= abs(value) <= LARGEST_NUMBER:
        return None
    if value != value or abs(value) == float("inf"):
        return "not a finite number"
    return _SIZES


def exact_number(text: str) -> Decimal | None:
    """The exact number that a text represents; None if it is not a number.

    ASCII digits with a sign, a point and an exponent; no hexadecimals, underscores, or names
    such as nan.
    """
    return Decimal(text) if _NUMBER.fullmatch(text) else None


_WRITTEN: Final = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d{1,3})?")


def cell_value(text: str) -> int | float | str:
    """A cell of a table that the product wrote: a number if the text is the one that a number is
    written as. `007`, `nan` and `1_000` are names."""
    if _WRITTEN.fullmatch(text) is None:
        return text
    return float(text) if {".", "e", "E"} & set(text) else int(text)


def number(text: str) -> float:
    """The number that a text represents, as a float; surrounding blanks are ignored.

    Raises ValueError with the reason, also for a number that is refused (`number_problem`) and
    for one so small that its float is 0.
    """
    text = text.strip(" \t")
    if not _NUMBER.fullmatch(text):
        raise ValueError("not a number" if text else "no value")
    value = float(text)
    if (wrong := number_problem(value)) is not None:
        raise ValueError(wrong)
    return value if value else nonzero(text)


def nonzero(text: str) -> float:
    """0.0 for a text that represents 0. Raises ValueError for a number whose float would be 0."""
    if text.lower().partition("e")[0].strip("+-.0"):
        raise ValueError(_SIZES)
    return 0.0


def json_float(text: str) -> float:
    """For `json.loads(parse_float=...)`: raises ValueError for a number whose float would be 0."""
    value = float(text)
    return value if value else nonzero(text)


def numbers_taken(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of these have no `number_problem`."""
    sizes = np.abs(values)
    takes_number: NDArray[np.bool_] = (sizes >= SMALLEST_NUMBER) & (sizes <= LARGEST_NUMBER)
    takes_number |= sizes == 0
    return takes_number


def without_mark(stream: BinaryIO) -> BinaryIO:
    """The stream without the byte-order mark at its beginning, if there is one."""
    head = stream.read(len(BYTE_ORDER_MARK))
    while 0 < len(head) < len(BYTE_ORDER_MARK) and (more := stream.read(3 - len(head))):
        head += more
    return stream if head == BYTE_ORDER_MARK else io.BufferedReader(_After(head, stream), 1 << 20)


class _After(io.RawIOBase):
    """Bytes that were read already, and then the rest of a stream."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        super().__init__()
        self._head, self._stream = head, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview | bytearray) -> int:  # type: ignore[override]
        data = self._head or self._stream.read(len(buffer))
        self._head = data[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


def text_lines(stream: BinaryIO) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, counted from 1, without line ends and without a byte-order mark.
    Raises MalformedRow for a line over 1 MiB and for one that is not UTF-8."""
    row = 0
    stream = without_mark(stream)
    while line := stream.readline(MAX_LINE_BYTES + 2):
        row += 1
        if len(line.rstrip(b"\r\n")) > MAX_LINE_BYTES:
            raise MalformedRow(row, f"a line has at most {MAX_LINE_BYTES} bytes")
        try:
            yield row, line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise MalformedRow(row, "not UTF-8") from None


# Delimited text: a record ends at a line break outside quotes. A cell in quotes may contain the
# delimiter, line breaks and doubled quotes; a cell that does not begin with a quote contains none.
# What breaks these rules is a fault of its line, never a guess. Cells are text as it is written:
# nothing is trimmed. One byte-order mark at the beginning of the file belongs to no cell.

READ_BYTES: Final = 1 << 20
UNCLOSED: Final = "the quotes are not closed"
STRAY_QUOTE: Final = "a quote in a cell that does not begin with one"
AFTER_QUOTE: Final = "text after a closing quote"
BARE_RETURN: Final = "a carriage return without a line feed"
_NAMES_OF_AN_ID: Final = frozenset(
    ("", "id", "meter", "meter_id", "curator", "device", "household", "customer", "name", "user")
)
_TO_QUOTE: Final = re.compile(r'[,"\r\n]|^\ufeff')
_TO_QUOTE_IN_A_LIST: Final = re.compile(r'[\s"]|^$')
_QUOTED: Final = re.compile(rb'"([^"]*+(?:""[^"]*+)*+)"')


@dataclass
class Lot:
    """Some records in the order of the file.

    `records[i]`, without its line break, begins at line `lines[i]` of the file, counted from 1;
    `faults`: (line, reason) of text that is no record.
    """

    records: list[bytes] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    faults: list[tuple[int, str]] = field(default_factory=list)


class Records:
    """Cuts a file that arrives in pieces into records.

    `line`: the number of its first line. `most`: bytes of a record. Raises MalformedRow, with
    its line, for a longer one: its quotes may not be closed, and the rest would be a guess.
    """

    def __init__(self, delimiter: str = ",", most: int = MAX_LINE_BYTES, line: int = 1) -> None:
        self._delimiter, self._most = delimiter.encode(), most
        plain = rb'[^"\r\n' + re.escape(self._delimiter[:1]) + rb"]*+"
        if len(self._delimiter) > 1:  # a character of several bytes: none of its own is another's
            plain = rb"(?:(?!" + re.escape(self._delimiter) + rb')[^"\r\n])*+'
        cell = rb'(?:"[^"]*+(?:""[^"]*+)*+"|' + plain + rb")"
        self._cells = re.compile(cell + rb"(?:" + re.escape(self._delimiter) + cell + rb")*+")
        self._rest, self._tried, self._line = b"", -1, line
        self._begun = line > 1

    def feed(self, data: bytes) -> Lot:
        """The records that are complete by now.

        The rest is searched again only when it has doubled, so that a record that arrives in
        many pieces takes linear time.
        """
        self._rest += data
        if len(self._rest) < max(3, 2 * self._tried):
            return Lot()
        return self._cut(last=False)

    def end(self) -> Lot:
        """The records that are left, when the file is at its end."""
        return self._cut(last=True)

    def _cut(self, *, last: bool) -> Lot:
        text, lot = self._rest, Lot()
        at = 0
        if not self._begun:
            self._begun, at = True, len(BYTE_ORDER_MARK) * text.startswith(BYTE_ORDER_MARK)
        if last and at < len(text) and not text.endswith(b"\n"):
            text = text.removesuffix(b"\r") + b"\n"
        end = text.rfind(b"\n") + 1
        while at < end:
            quote = text.find(b'"', at, end)
            stop = end if quote < 0 else text.rfind(b"\n", at, quote) + 1 or at
            if stop > at:
                self._plain(text[at:stop], lot)
                at = stop
                continue
            reached = self._quoted(text, at, lot, last=last)
            if reached == at:
                break
            at = reached
        self._rest = text[at:]
        self._tried = len(self._rest)
        if self._tried > self._most + 2:
            self._too_long()
        return lot

    def _plain(self, text: bytes, lot: Lot) -> None:
        """Whole lines without quotes."""
        if b"\r" in text:
            text = text.replace(b"\r\n", b"\n")
        lines = text.split(b"\n")
        lines.pop()
        if len(text) > self._most and max(map(len, lines)) > self._most:
            self._line += next(i for i, line in enumerate(lines) if len(line) > self._most)
            self._too_long()
        first = self._line
        self._line += len(lines)
        if b"\r" not in text:
            lot.records += lines
            lot.lines += range(first, self._line)
            return
        for number, line in enumerate(lines, first):
            if b"\r" in line:
                lot.faults.append((number, BARE_RETURN))
            else:
                lot.records.append(line)
                lot.lines.append(number)

    def _quoted(self, text: bytes, at: int, lot: Lot, *, last: bool) -> int:
        """Take one record with quotes that begins at `at`. Returns where the next one begins, or
        `at` if more of the file is needed."""
        cell = self._cells.match(text, at)
        assert cell is not None  # it may be empty
        stop = cell.end()
        for ending in (b"\n", b"\r\n"):
            if text.startswith(ending, stop):
                if stop - at > self._most:
                    self._too_long()
                lot.records.append(text[at:stop])
                lot.lines.append(self._line)
                return self._passed(text, at, stop + len(ending))
        if stop == len(text) or text[stop:] == b"\r":  # never where `last`: that ends with a break
            return at
        begins = stop == at or text.endswith(self._delimiter, at, stop)
        if text.startswith(b'"', stop) and begins:
            if not last:
                return at
            lot.faults.append((self._line, UNCLOSED))
            return self._passed(text, at, len(text))
        line_end = text.find(b"\n", stop) + 1
        if not line_end:
            return at
        if text.startswith(b'"', stop):
            reason = STRAY_QUOTE
        else:
            reason = BARE_RETURN if text.startswith(b"\r", stop) else AFTER_QUOTE
        lot.faults.append((self._line, reason))
        return self._passed(text, at, line_end)

    def _passed(self, text: bytes, at: int, end: int) -> int:
        self._line += text.count(b"\n", at, end)
        return end

    def _too_long(self) -> None:
        reason = f"a line has at most {self._most} bytes"
        quoted = "; its quotes may not be closed" if b'"' in self._rest[: self._most] else ""
        raise MalformedRow(self._line, reason + quoted)


def split(record: bytes, delimiter: bytes = b",") -> list[bytes]:
    """The cells of a record, without their quotes."""
    if b'"' not in record:
        return record.split(delimiter)
    cells, at = [], 0
    while True:
        quoted = _QUOTED.match(record, at)
        if quoted is None:
            end = record.find(delimiter, at)
            end = len(record) if end < 0 else end
            cells.append(record[at:end])
        else:
            end = quoted.end()
            cells.append(quoted[1].replace(b'""', b'"'))
        if end == len(record):
            return cells
        at = end + len(delimiter)


def lots(stream: BinaryIO, delimiter: str = ",", most: int = MAX_LINE_BYTES) -> Iterator[Lot]:
    """The records of a stream. Raises MalformedRow for a record that is too long."""
    records = Records(delimiter, most)
    while data := stream.read(READ_BYTES):
        yield records.feed(data)
    yield records.end()


def rows(stream: BinaryIO, delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of each record of a stream; an empty line is a row of one empty cell. Raises
    MalformedRow for text that is no record or not UTF-8."""
    between = delimiter.encode()
    for lot in lots(stream, delimiter):
        fault = lot.faults[0] if lot.faults else None
        for line, record in zip(lot.lines, lot.records, strict=True):
            if fault is not None and fault[0] < line:
                break
            try:
                yield line, [cell.decode() for cell in split(record, between)]
            except UnicodeDecodeError:
                raise MalformedRow(line, "not UTF-8") from None
        if fault is not None:
            raise MalformedRow(*fault)


def distinct(names: Sequence[str], line: int = 1) -> tuple[str, ...]:
    """The names of columns. Raises MalformedRow if two columns have the same name, as the choice
    between them would be a guess. Columns without a name cannot be addressed."""
    earlier_names: set[str] = set()
    for place, name in enumerate(names, 1):
        if name in earlier_names:
            raise MalformedRow(line, "two columns have one name", place)
        if name:
            earlier_names.add(name)
    return tuple(names)


def first_line(cells: Sequence[str]) -> Literal["names", "values", "either"]:
    """What the first line of a file is whose first column is an id and whose others are numbers:
    the names of the columns, or already a row, which must not be lost; `either` if both are
    possible."""
    if cells and cells[0].strip().lower() in _NAMES_OF_AN_ID:
        return "names"
    parsed = [exact_number(text) for cell in cells[1:] if (text := cell.strip())]
    numbers = [number for number in parsed if number is not None]
    if not numbers:
        return "names"
    if len(numbers) < len(parsed):
        return "either"
    steps = {after - before for before, after in pairwise(numbers)}
    if (
        len(numbers) < 3
        or min(steps) <= 0
        or any(number != number.to_integral() for number in numbers)
    ):
        return "values"
    return "names" if steps == {1} and numbers[0] in (0, 1) else "either"


def written(rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV: quotes where a reader needs them, floats by their shortest text."""
    return "".join(map(line_of, rows))


def line_of(cells: Iterable[object]) -> str:
    """One row as a line of CSV."""
    return (",".join(_quoted(cell, _TO_QUOTE) for cell in cells) or '""') + "\n"


def listed(ids: Iterable[str]) -> str:
    """A list of ids in one cell, separated by blanks, as in CSV with a blank as its delimiter,
    so that an id with a blank is in quotes."""
    return " ".join(_quoted(name, _TO_QUOTE_IN_A_LIST) for name in ids)


def _quoted(value: object, special: re.Pattern[str]) -> str:
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if special.search(text) else text
