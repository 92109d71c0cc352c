"""What every reader of a dataset's file shares: limits of a line and of a number, and what is wrong
where.

Spec: jobs, section "Datasets": the error has the row and the column, and never the value. A number
is 0 or has a size from 1e-100 to 1e100, so that its square, and a sum of squares of all cells that
a table may have, are numbers that a computer has too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from tacit.errors import Invalid, TooLarge

MAX_LINE_BYTES: Final = 1 << 20
SMALLEST_NUMBER: Final = 1e-100
LARGEST_NUMBER: Final = 1e100


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


def number_problem(value: float) -> str | None:
    """Why a number (of any number of digits) is not taken; None where it is."""
    if value == 0 or SMALLEST_NUMBER <= abs(value) <= LARGEST_NUMBER:
        return None
    if value != value or abs(value) == float("inf"):
        return "not a finite number"
    return f"a number is 0, or its size lies from {SMALLEST_NUMBER:g} to {LARGEST_NUMBER:g}"


def numbers_taken(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of these have no `number_problem`."""
    sizes = np.abs(values)
    taken: NDArray[np.bool_] = (sizes >= SMALLEST_NUMBER) & (sizes <= LARGEST_NUMBER)
    taken |= sizes == 0
    return taken


def text_lines(stream: BinaryIO) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, counted from 1, without their ends.

    Raises MalformedRow for a line over 1 MiB and for one that is not UTF-8.
    """
    row = 0
    while line := stream.readline(MAX_LINE_BYTES + 2):
        row += 1
        if len(line.rstrip(b"\r\n")) > MAX_LINE_BYTES:
            raise MalformedRow(row, f"a line has at most {MAX_LINE_BYTES} bytes")
        try:
            yield row, line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise MalformedRow(row, "not UTF-8") from None
