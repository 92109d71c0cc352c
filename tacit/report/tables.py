"""A released table for people: cells and margins, how far noise moves each, and their order on a
page. Post-processing: margins add released cells and cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from tacit.query.tables import TableColumn, table_figures
from tacit.report.figures import short
from tacit.wire import format_exact

TOTAL: Final = "all"
"""The head of a margin."""
SUPPRESSED: Final = "x"
"""In place of a suppressed figure."""


@dataclass(frozen=True)
class CellFigure:
    """A cell, or a margin: `labels` has a category of each column, None if it adds over all.
    `half_width`: how far noise moves it in 95 of 100 cases, by itself; None if unknown. `value`:
    None if it is suppressed."""

    labels: tuple[str | None, ...]
    value: Fraction | None
    half_width: Fraction | None

    @property
    def uncertain(self) -> bool:
        """Whether its interval contains 0, though it has noise."""
        if self.value is None or not self.half_width:
            return False
        return abs(self.value) <= self.half_width


def cell_figures(
    columns: Sequence[TableColumn],
    values: Sequence[str | Fraction],
    error: Mapping[str, Any] | None,
) -> list[CellFigure]:
    """The cells (row-major) and margins of a released table. `error`: of its report."""
    margins = (error or {}).get("margins", ())
    widths = {margin["cells"]: Fraction(margin["half_width"]) for margin in margins}
    exact = [Fraction(value) for value in values]
    return [
        CellFigure(figure.labels, figure.value, widths.get(figure.cells))
        for figure in table_figures(columns, exact)
    ]


@dataclass(frozen=True)
class Grid:
    """A table on a page: the last column's categories side by side, the others' below each other.
    `heads`: of the label columns, then of the figures; `rows`: labels and figures."""

    heads: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[CellFigure, ...]], ...]


def grid(columns: Sequence[TableColumn], figures: Sequence[CellFigure]) -> Grid:
    """Cells and margins, in the order of `cell_figures`, with one line for all categories of the
    last column."""
    *before, last = columns
    across = [*last.categories, TOTAL]
    if not before:  # a single column stands upright: labels are often long
        rows = [((label,), (figure,)) for label, figure in zip(across, figures, strict=True)]
        return Grid((last.name, "value"), tuple(rows))
    lines = []
    for start in range(0, len(figures), len(across)):
        line = tuple(figures[start : start + len(across)])
        labels = tuple(TOTAL if label is None else label for label in line[0].labels[:-1])
        lines.append((labels, line))
    return Grid((*(column.name for column in before), *across), tuple(lines))


def text_lines(shown: Grid) -> list[str]:
    """A grid as aligned text; a figure that is not distinguishable from 0 is in brackets."""
    lines = [list(shown.heads)]
    lines += [[*labels, *map(_cell_text, figures)] for labels, figures in shown.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    count = len(shown.rows[0][0])
    told = [
        "  ".join(
            cell.ljust(width) if place < count else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    figures = [figure for _, row in shown.rows for figure in row]
    if any(figure.half_width for figure in figures):
        told.append("±: noise, in 95 of 100 cases at most, of each figure by itself")
    if any(figure.uncertain for figure in figures):
        told.append("( ): cannot be told from 0")
    return told


def _cell_text(figure: CellFigure) -> str:
    if figure.value is None:
        return SUPPRESSED
    text = format_exact(figure.value)
    if figure.half_width:
        text += f" ± {short(figure.half_width)}"
    return f"({text})" if figure.uncertain else text


FIGURE_KEYS: Final = ("value", "low", "high", "unit")


def records(
    columns: Sequence[TableColumn], figures: Sequence[CellFigure], unit: str
) -> list[dict[str, Any]]:
    """A record for each cell and margin: its category by the name of each column (None: over all),
    value, low, high, unit, exact. A column with one of these names is `column value` and so on."""
    names = [
        f"column {column.name}" if column.name in FIGURE_KEYS else column.name for column in columns
    ]
    rows_of_table = []
    for figure in figures:
        low, high = None, None
        if figure.value is not None and figure.half_width is not None:
            low, high = figure.value - figure.half_width, figure.value + figure.half_width
        labels = dict(zip(names, figure.labels, strict=True))
        rows_of_table.append(
            {**labels, "value": figure.value, "low": low, "high": high, "unit": unit}
        )
    return rows_of_table
