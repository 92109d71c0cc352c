"""A round and what it released."""

from __future__ import annotations

from datetime import datetime
from decimal import ROUND_HALF_EVEN, ROUND_UP, Decimal
from fractions import Fraction
from html import escape
from typing import Any, Final

from tacit.query.functions import PRESENCE
from tacit.shown import markup
from tacit.shown.base import Number, Shown, number
from tacit.shown.reports import Report
from tacit.shown.tables import frame

_DIGITS: Final = 2


class Window(Shown):
    """The readings that a round asks for: from `start`, and before `end`."""

    start: datetime
    end: datetime


class Round(Shown):
    """A round: where it stands. `participants`: of a released one."""

    id: str
    query_id: str
    state: str
    reason: str | None
    opened: datetime
    deadline: datetime
    finished: datetime | None
    window: Window
    participants: int | None
    aggregators: list[str]
    unit: str

    @property
    def over(self) -> bool:
        """Whether it is released or aborted."""
        return self.state in ("released", "aborted")

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"round {self.id} {self.state}{why}"

    def _repr_html_(self) -> str:
        return markup.text("p", str(self))


class Result(Shown):
    """What a round released, with its report."""

    round: str
    query_id: str
    function: str
    unit: str
    window: Window
    participants: int
    report: Report

    @property
    def figures(self) -> dict[str, Number | list[Number] | None]:
        """The released parts by name, exact; None where one cannot be said (`reason` tells why)."""
        return {name: _figure(value) for name, value in self["result"].items() if name != "reason"}

    @property
    def value(self) -> Number | list[Number] | None:
        """What was asked for: the sum, the mean, the counts of a histogram, the first block of a
        vector; all parts are in `figures`."""
        found = self.figures
        return found.get(self.function, next(iter(found.values())))

    @property
    def half_width(self) -> Decimal | None:
        """How far noise moves the figure that was asked for, in 95 of 100 cases at most; None
        where that is a list. What rounding adds: `report.accuracy`."""
        listed = self.function in ("histogram", "vector_sum")
        return None if listed else self._half_width(self.function)

    @property
    def interval(self) -> tuple[Number, Number] | None:
        """Where the figure without noise lies, in 95 of 100 cases; readings are clamped
        as the query says, and what liars added is in it."""
        value, width = self.value, self.half_width
        if width is None or value is None or isinstance(value, list):
            return None
        return _around(value, width)

    def rows(self) -> list[dict[str, Any]]:
        """A record for each released figure: part, index in its list, value, low, high, unit. `low`
        and `high`: where the figure without noise lies in 95 of 100 cases, each by itself."""
        found = []
        for name, value in self.figures.items():
            listed = isinstance(value, list)
            width = self._half_width(name) if listed else self.half_width
            own = width if listed or name == self.function else None
            for index, each in enumerate(value if isinstance(value, list) else [value]):
                low, high = (None, None) if own is None or each is None else _around(each, own)
                found.append(
                    {
                        "part": name,
                        "index": index if listed else None,
                        "value": each,
                        "low": low,
                        "high": high,
                        "unit": self._unit(name),
                    }
                )
        return found

    def to_frame(self) -> Any:
        """The rows as a pandas or polars data frame, whichever is installed, else as they are."""
        return frame(self.rows())

    def plot(self) -> Any:
        """The released figures with their intervals, as a matplotlib figure. Raises
        MissingExtra without matplotlib."""
        from tacit.shown.drawing import drawn

        return drawn(self.rows(), self.function.replace("_", " "))

    @property
    def headline(self) -> str:
        """The result in one line; a sum or count rounded to what its noise leaves of it."""
        told = []
        for name, value in self.figures.items():
            if isinstance(value, list):
                told.append(f"{name}: {len(value)} figures")
            elif value is not None:
                width = self.half_width if name == self.function else None
                unit = "" if self._unit(name) == "1" else f" {self._unit(name)}"
                shown, error = _rounded(value, width)
                noise = f" ± {error}{unit} of noise in 95 of 100 cases" if error else ""
                told.append(f"{name} {shown}{unit}{noise}")
        return f"{', '.join(told)}; {self.participants} curators answered"

    def _half_width(self, part: str) -> Decimal | None:
        error = self.report.error_of(part)
        width = None if error is None else error.interval.half_width
        return width if isinstance(width, Decimal) and width.is_finite() else None

    def _unit(self, name: str) -> str:
        error = self.report.error_of(name)
        squared = f"{self.unit}^2" if name == "variance" else self.unit
        return "1" if name in ("count", PRESENCE) else squared if error is None else error.unit

    def __str__(self) -> str:
        return "\n".join([self.headline, *self.report.accuracy, str(self.report)])

    def _repr_html_(self) -> str:
        return f"<p><b>{escape(self.headline)}</b></p>{self.report._repr_html_()}"


def _figure(value: Any) -> Number | list[Number] | None:
    if isinstance(value, list):
        return [number(each) for each in value]
    return None if value is None else number(value)


def _around(value: Number, width: Decimal) -> tuple[Number, Number]:
    if isinstance(value, Decimal):
        return value - width, value + width
    return value - Fraction(width), value + Fraction(width)


def _rounded(value: Number, width: Decimal | None) -> tuple[str, str]:
    """A figure to the place of its half-width's second digit, and that half-width, rounded up."""
    if not width or not isinstance(value, Decimal):
        return (f"{value:f}" if isinstance(value, Decimal) else f"{float(value):.6g}"), ""
    place = Decimal(1).scaleb(min(width.adjusted() - _DIGITS + 1, 0))
    shown = value.quantize(place, rounding=ROUND_HALF_EVEN)
    return f"{shown:f}", f"{width.quantize(place, rounding=ROUND_UP):f}"
