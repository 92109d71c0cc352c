"""What every reader of a dataset's file shares: limits of a line and of a number, and what is wrong
where.

Spec: jobs, section "Datasets": the error has the row and the column, and never the value. A number
is 0 or has a size from 1e-100 to 1e100, so that its square, and a sum of squares of all cells that
a table may have, are numbers that a computer has too.
"""

from __future__ import annotations

import io
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from decimal import Decimal
from typing import BinaryIO, Final

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
    """The number that a text writes, exactly; None where it writes none. ASCII digits with a sign,
    a point and an exponent, no more: no hexadecimals, no underscores, no names such as nan."""
    return Decimal(text) if _NUMBER.fullmatch(text) else None


def number(text: str) -> float:
    """The number that a text writes, as a float; blanks around it do not count.

    Raises ValueError with the reason, also for one that is not taken (`number_problem`) and for one
    so small that a float of it is 0.
    """
    text = text.strip(" \t")
    if not _NUMBER.fullmatch(text):
        raise ValueError("not a number" if text else "no value")
    value = float(text)
    if (wrong := number_problem(value)) is not None:
        raise ValueError(wrong)
    return value if value else nonzero(text)


def nonzero(text: str) -> float:
    """0.0 for a text that writes 0. Raises ValueError for a number that a float would make 0."""
    if text.lower().partition("e")[0].strip("+-.0"):
        raise ValueError(_SIZES)
    return 0.0


def json_float(text: str) -> float:
    """For `json.loads(parse_float=...)`: raises ValueError for a number that a float would make
    0."""
    value = float(text)
    return value if value else nonzero(text)


def numbers_taken(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of these have no `number_problem`."""
    sizes = np.abs(values)
    taken: NDArray[np.bool_] = (sizes >= SMALLEST_NUMBER) & (sizes <= LARGEST_NUMBER)
    taken |= sizes == 0
    return taken


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
    """Lines with their numbers, counted from 1, without their ends and without a byte-order mark.

    Raises MalformedRow for a line over 1 MiB and for one that is not UTF-8.
    """
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
