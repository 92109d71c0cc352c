"""What is refused, and where."""

from __future__ import annotations


class BadParameter(ValueError):
    """A parameter, or a row, that the algorithm cannot take.

    `field`: the parameter (or the column); `kind`: the problem's name; `row`: counted from 0, for
    the operator's eyes. No value of the data is in the message.
    """

    def __init__(
        self, field: str, reason: str, kind: str = "bad_parameter", row: int | None = None
    ) -> None:
        place = field if row is None else f"{field}, row {row}"
        super().__init__(f"{place}: {reason}")
        self.field, self.reason, self.kind, self.row = field, reason, kind, row
