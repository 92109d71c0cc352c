"""What is refused, and where."""

from __future__ import annotations

from tacit.errors import Invalid, TooLarge


class BadParameter(Invalid):
    """A parameter, or a row, that the algorithm cannot take.

    `field`: the parameter (or the column); `row`: counted from 0, visible only to the operator. No
    value of the data is in the message.
    """

    name = "bad_parameter"
    title = "A parameter is not valid"

    def __init__(self, field: str, reason: str, row: int | None = None) -> None:
        place = field if row is None else f"{field}, row {row}"
        about_data = field == "dataset" or row is not None
        super().__init__(
            f"{place}: {reason}",
            pointer="/dataset" if about_data else f"/params/{field}",
            extra={} if row is None else {"row": row, "column": field},
        )
        self.field, self.reason, self.row = field, reason, row


class TooFewRows(BadParameter):
    """Less than one row."""

    name = "too_few_rows"
    title = "The dataset has too few rows"


class RowOutside(BadParameter):
    """A value outside the declared bounds, which this stance does not clamp."""

    name = "malformed_row"
    title = "A row of the dataset is malformed"


class TooManyRows(TooLarge):
    """More rows than are held or compared in pairs; `field` as in BadParameter."""

    name = "too_large"
    title = "The dataset is too large for this method"

    def __init__(self, field: str, reason: str) -> None:
        pointer = "/dataset" if field == "dataset" else f"/params/{field}"
        super().__init__(f"{field}: {reason}", pointer=pointer)


class TooManyCells(BadParameter):
    """The grid would be too fine for its number of columns."""

    name = "too_many_cells"
    title = "The grid has too many cells"


class UnitNotProtected(BadParameter):
    """The method protects another unit."""

    name = "unit_not_protected"
    title = "The unit of privacy is not protected by this method"


class NoiseTooLarge(BadParameter):
    """No local distance is distinguishable from the noise."""

    name = "noise_too_large_for_local_view"
    title = "The noise leaves nothing local"
