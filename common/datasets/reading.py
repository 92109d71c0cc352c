"""What every reader of a dataset's file shares: the limit of a line, and what is wrong where.

Spec: jobs, section "Datasets": the error has the row and the column, and never the value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

from common.errors import Invalid, TooLarge

MAX_LINE_BYTES: Final = 1 << 20


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
