"""Privacy reports, previews, queries and results with Python values and methods for notebooks; what
a query would cost.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, ROUND_UP, Decimal
from fractions import Fraction
from html import escape
from typing import Any, Final

from tacit.answers import queries, rounds
from tacit.answers.base import Answer, read
from tacit.client.drawing import drawn
from tacit.client.objects import Exact, Number, Window, folded, frame, number, table, text
from tacit.query.query import Query
from tacit.query.terms import PRESENCE
from tacit.report.comparison import compared_line
from tacit.report.figures import of_a_hundred, short
from tacit.report.model import Subject
from tacit.report.tables import CellFigure, cell_figures, grid, records, text_lines
from tacit.report.text import HEADS, Brief, brief, brief_text, price_in_rho

# A privacy report as an object: in a few lines as text, in a notebook as a table. It has few fields
# of its own, so that a client reads that of a newer service too.


class Line(Answer):
    """What holds against one group of people; None where nothing is stated."""

    scenario: str
    key: str | None = None
    description: str | None = None
    epsilon: Exact | None
    delta: Exact | None
    guess: Exact | None = None
    privacy_unit: str | None = None
    conditions: list[str]
    reason: str | None = None


class Interval(rounds.Interval):
    """How far noise moves a figure at most, either way, with the probability `level`."""

    level: Exact  # type: ignore[assignment]
    half_width: Exact  # type: ignore[assignment]


class PartError(Answer):
    """How far noise will move one part of a result, in `unit`."""

    part: str
    unit: str
    mean_absolute: Exact
    standard_deviation: Exact
    interval: Interval


class Report(Answer):
    """The claimed guarantee, the verified one against each adversary, and what is not protected."""

    stance: str
    privacy_unit: str | None = None
    verified: list[Line]
    not_protected: list[str]
    assumptions: list[str]
    caveats: list[str]
    details: dict[str, Any]

    @property
    def brief(self) -> Brief:
        """Which parties would have to collude to learn more, and what is not protected."""
        return brief(dict(self))

    @property
    def errors(self) -> list[PartError]:
        """How far noise moves each figure of a result, averages first; empty for an algorithm
        that states its errors in its own form."""
        error = self.get("error") or {}
        parts = [*(error.get("averages") or ()), *(error.get("parts") or ())]
        return [read(PartError, part) for part in parts]

    @property
    def accuracy(self) -> list[str]:
        """What else moves a result, in words: rounding and clamping."""
        return [str(line) for line in (self.get("error") or {}).get("sentences") or ()]

    def error_of(self, part: str) -> PartError | None:
        """How far noise moves a part."""
        return next((error for error in self.errors if error.part == part), None)

    def __str__(self) -> str:
        return brief_text(self.brief)

    def _repr_html_(self) -> str:
        rows = [(*row.cells, row.why or "") for row in self.brief.rows]
        lists = (folded(title, lines) for title, lines in self.brief.lists)
        return table([*HEADS, "because"], rows) + "".join(lists)


class Preview(Report):
    """The report of a query before anything is spent."""

    def __str__(self) -> str:
        in_rho = price_in_rho(dict(self))
        price_lines = [] if in_rho is None else [in_rho]
        return "\n".join(
            [*map(_told, self.errors), *self.accuracy, *price_lines, super().__str__()]
        )


def _told(error: PartError) -> str:
    interval = error["interval"]
    unit = "" if error.unit == "1" else f" {error.unit}"
    level = of_a_hundred(interval["level"])
    width = short(interval["half_width"])
    return f"{error.part}: ± {width}{unit} of noise in {level} of 100 cases"


class AskedQuery(queries.KeptQuery):
    """A query as the coordinator keeps it, with its preview."""

    query: dict[str, Any]  # type: ignore[assignment]
    preview: Preview  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"query {self.id}, {self['query']['name']}"

    def _repr_html_(self) -> str:
        return text("p", str(self)) + self.preview._repr_html_()


def price(query: Query, participants: int | None = None) -> Preview:
    """The report of a query with this many curators (default: the fewest that it allows), as in
    a preview by a coordinator whose aggregators all have different operators."""
    # Loaded only here: a client works without the extra `proofs`.
    from tacit.report.queries import query_report

    made = query_report(
        query, subject=Subject(kind="query", id=query.name), participants=participants
    )
    return read(Preview, json.loads(made.model_dump_json()))


_DIGITS: Final = 2


class Result(queries.RoundResult):
    """What a round released, with its report."""

    window: Window
    report: Report  # type: ignore[assignment]

    @property
    def figures(self) -> dict[str, Number | list[Number] | None]:
        """The released parts by name, exact; None where there is no figure (`reason` states
        why)."""
        return {name: _figure(value) for name, value in self["result"].items() if name != "reason"}

    @property
    def value(self) -> Number | list[Number] | None:
        """The requested result: the sum, the mean, the counts of a histogram, the first block of
        a vector; `figures` has all parts."""
        found = self.figures
        return found.get(self.function, next(iter(found.values())))

    @property
    def half_width(self) -> Decimal | None:
        """How far noise moves the requested figure at most, in 95 of 100 cases; None if it is a
        list. What rounding adds: `report.accuracy`."""
        listed = self.function in ("histogram", "vector_sum", "table")
        return None if listed else self._half_width(self.function)

    @property
    def interval(self) -> tuple[Number, Number] | None:
        """The interval that contains the figure without noise in 95 of 100 cases. That figure is
        over readings clamped as the query says, and includes what dishonest curators added."""
        value, width = self.value, self.half_width
        if width is None or value is None or isinstance(value, list):
            return None
        return _around(value, width)

    def rows(self) -> list[dict[str, Any]]:
        """A record for each released figure: part, index in its list, value, low, high, unit.

        `low` and `high` contain the figure without noise in 95 of 100 cases, each figure by
        itself. A table has a record for each cell and margin, with its category of each column,
        None for a sum over all.
        """
        if self.columns is not None:
            return records(self.columns, self.cells, self._unit("table"))
        figure_rows = []
        percentiles = self._percentiles()
        for name, value in self.figures.items():
            listed = isinstance(value, list)
            width = self._half_width(name) if listed else self.half_width
            own = width if listed or name == self.function else None
            for index, figure in enumerate(value if isinstance(value, list) else [value]):
                if name in percentiles:
                    low, high = percentiles[name]
                else:
                    low, high = (
                        (None, None) if own is None or figure is None else _around(figure, own)
                    )
                figure_rows.append(
                    {
                        "part": name,
                        "index": index if listed else None,
                        "value": figure,
                        "low": low,
                        "high": high,
                        "unit": self._unit(name),
                    }
                )
        return figure_rows

    @property
    def cells(self) -> list[CellFigure]:
        """The cells and margins of a table; of another result none."""
        if self.columns is None:
            return []
        return cell_figures(self.columns, self["result"]["table"], self.report.get("error"))

    def suppressed(self, least: int) -> list[CellFigure]:
        """The cells and margins of a table of counts without noise, made fit to be passed on.

        Figures from 1 to below `least` have no value, nor have others from which they could be
        computed. Everyone who may read the round has seen all figures. Raises ValueError for
        another result or a least below 2; TooManyFigures; MissingExtra without scipy.
        """
        parts = (self.report.get("error") or {}).get("parts") or ()
        counts = self.columns is not None and parts and parts[0]["rounding"]["bounds"] is None
        if not counts or any(cell.half_width for cell in self.cells):
            raise ValueError("only a table of counts without noise is suppressed")
        if least < 2:
            raise ValueError("the least count that is published is 2 or more")
        # Loaded only here: few results are suppressed.
        from tacit.report.suppression import suppressed_figures

        assert self.columns is not None
        cells = self.cells
        hidden = suppressed_figures(self.columns, [int(cell.value or 0) for cell in cells], least)
        return [
            replace(cell, value=None) if is_hidden else cell
            for cell, is_hidden in zip(cells, hidden.tolist(), strict=True)
        ]

    def top(self, count: int) -> list[dict[str, Any]]:
        """The largest categories of a table of one column, as `rows` has them, largest first: a
        choice among released figures, which costs nothing. Where intervals overlap, noise may have
        changed the order. Raises ValueError for another result."""
        if self.columns is None or len(self.columns) != 1:
            raise ValueError("only a table of one column has largest categories")
        *categories, _ = self.rows()
        return sorted(categories, key=lambda row: -row["value"])[:count]

    def to_frame(self) -> Any:
        """The rows as a pandas or polars data frame, whichever is installed, else as they are."""
        return frame(self.rows())

    def plot(self) -> Any:
        """The released figures with their intervals, of a table its cells, as a matplotlib figure.
        Raises MissingExtra without matplotlib."""
        rows = self.rows()
        if self.columns is not None:
            named = zip(self.cells, rows, strict=True)
            rows = [
                {**row, "part": ", ".join(filter(None, cell.labels)), "index": None}
                for cell, row in named
                if None not in cell.labels
            ]
        return drawn(rows, self.function.replace("_", " "))

    @property
    def headline(self) -> str:
        """The result in one line; a sum or count is rounded to the precision that its noise
        leaves."""
        headlines = []
        for name, value in self.figures.items():
            if isinstance(value, list):
                headlines.append(f"{name}: {len(value)} figures")
            elif value is not None:
                width = self.half_width if name == self.function else None
                unit = "" if self._unit(name) == "1" else f" {self._unit(name)}"
                shown, error = _rounded(value, width)
                noise = f" ± {error}{unit} of noise in 95 of 100 cases" if error else ""
                headlines.append(f"{name} {shown}{unit}{noise}")
        return f"{', '.join(headlines)}; {self.participants} curators answered"

    def _percentiles(self) -> dict[str, tuple[Number | None, Number | None]]:
        """For each percentile, by its name, the two bin edges that contain it in 95 of 100
        cases."""
        listed = (self.report.get("error") or {}).get("percentiles") or ()

        def edge(text: str | None) -> Number | None:
            return None if text is None else number(text)

        return {item["part"]: (edge(item["low"]), edge(item["high"])) for item in listed}

    def _half_width(self, part: str) -> Decimal | None:
        error = self.report.error_of(part)
        width = None if error is None else error.interval.half_width
        return width if isinstance(width, Decimal) and width.is_finite() else None

    def _unit(self, name: str) -> str:
        error = self.report.error_of(name)
        if name in self._percentiles():
            return self.unit
        squared = f"{self.unit}^2" if name == "variance" else self.unit
        return "1" if name in ("count", PRESENCE) else squared if error is None else error.unit

    def __str__(self) -> str:
        cells = [] if self.columns is None else text_lines(grid(self.columns, self.cells))
        return "\n".join([self.headline, *cells, *self.report.accuracy, str(self.report)])

    def _repr_html_(self) -> str:
        return f"<p><b>{escape(self.headline)}</b></p>{self.report._repr_html_()}"


def _figure(value: Any) -> Number | list[Number] | None:
    if isinstance(value, list):
        return [number(entry) for entry in value]
    return None if value is None else number(value)


def _around(value: Number, width: Decimal) -> tuple[Number, Number]:
    if isinstance(value, Decimal):
        return value - width, value + width
    return value - Fraction(width), value + Fraction(width)


def _rounded(value: Number, width: Decimal | None) -> tuple[str, str]:
    """A figure rounded to the second digit of its half-width, and that half-width, rounded up."""
    if not width:
        return (f"{value:f}" if isinstance(value, Decimal) else f"{float(value):.6g}"), ""
    place = Decimal(1).scaleb(min(width.adjusted() - _DIGITS + 1, 0))
    if isinstance(value, Fraction):
        value = Decimal(value.numerator) / Decimal(value.denominator)
    shown = value.quantize(place, rounding=ROUND_HALF_EVEN)
    return f"{shown:f}", f"{width.quantize(place, rounding=ROUND_UP):f}"


@dataclass(frozen=True)
class Comparison:
    """Two results side by side: a row for each figure, exact, as `tacit.report.comparison.compare`
    describes it."""

    rows: list[dict[str, Any]]

    def to_frame(self) -> Any:
        """The rows as a pandas or polars data frame, whichever is installed, else as they are."""
        return frame(self.rows)

    def __str__(self) -> str:
        return "\n".join(map(compared_line, self.rows))

    def _repr_html_(self) -> str:
        rows = ([_cell(value) for value in row.values()] for row in self.rows)
        return table(list(self.rows[0]) if self.rows else [], rows)


def _cell(value: Any) -> str:
    if isinstance(value, Fraction):
        return f"{float(value):.6g}"
    return "" if value is None else f"{value:f}" if isinstance(value, Decimal) else str(value)
