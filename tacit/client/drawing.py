"""Pictures of released figures and of a job's tables, drawn here by matplotlib from what was
released: nothing is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any, Final

from tacit.errors import MissingExtra

_COLOUR: Final = "#4c78a8"


def _figure() -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "pictures") from None

    class Shown(Figure):
        """A figure that a notebook shows also without pyplot."""

        def _repr_png_(self) -> bytes:
            picture = BytesIO()
            self.savefig(picture, format="png")
            return picture.getvalue()

    figure = Shown(figsize=(6, 3.5), layout="constrained")
    return figure, figure.subplots()


def drawn(rows: Sequence[Mapping[str, Any]], title: str) -> Any:
    """A matplotlib figure: a bar for each figure, its interval where there is one. Raises
    MissingExtra."""
    with_value = [row for row in rows if row["value"] is not None]
    figure, axes = _figure()
    places = range(len(with_value))
    values = [float(row["value"]) for row in with_value]
    if len(with_value) > _MOST_BARS:
        _band(axes, with_value, values)
        return _named(figure, axes, with_value, f"{title}; band: noise in 95 of 100 cases")
    axes.bar(places, values, color=_COLOUR)
    for place, row in zip(places, with_value, strict=True):
        if row["low"] is not None:
            low, high = float(row["low"]), float(row["high"])
            axes.vlines(place, low, high, color="black", linewidth=1.5)
    names = [row["part"] if row["index"] is None else str(row["index"]) for row in with_value]
    axes.set_xticks(list(places), names)
    return _named(figure, axes, with_value, f"{title}; lines: noise in 95 of 100 cases")


_MOST_BARS: Final = 30


def _band(axes: Any, rows: Sequence[Mapping[str, Any]], values: Sequence[float]) -> None:
    """Many values in a row: a line within the band of its noise."""
    lows = [
        value if row["low"] is None else float(row["low"])
        for row, value in zip(rows, values, strict=True)
    ]
    highs = [
        value if row["high"] is None else float(row["high"])
        for row, value in zip(rows, values, strict=True)
    ]
    places = range(len(values) + 1)

    def closed(several: Sequence[float]) -> list[float]:
        return [*several, several[-1]]

    axes.fill_between(places, closed(lows), closed(highs), step="post", color=_COLOUR, alpha=0.25)
    axes.step(places, closed(values), where="post", color=_COLOUR)


def _named(figure: Any, axes: Any, rows: Sequence[Mapping[str, Any]], title: str) -> Any:
    axes.set_title(title)
    axes.set_ylabel("" if not rows or rows[0]["unit"] == "1" else rows[0]["unit"])
    return figure


_COUNTS: Final = ("noisy_count", "count")
_LARGEST_POINT: Final = 400.0


def points_or_bars(rows: Sequence[Mapping[str, Any]], title: str) -> Any:
    """A matplotlib figure of a table: names with a count are bars, the 30 largest; two or more
    columns of numbers beside a count are points, each as large as its count; two columns of whole
    numbers (edges) are dots; else the columns of fractions are lines over the first column. Raises
    MissingExtra; ValueError where there is no table of numbers."""
    columns = list(rows[0]) if len(rows) > 1 else []
    numeric = [name for name in columns if all(_is_number(row[name]) for row in rows)]
    if not numeric:
        raise ValueError(f"{title}: there is no table of numbers to draw")
    count = next((name for name in _COUNTS if name in numeric), None)
    names = [name for name in columns if name not in numeric]
    first, *other_names = [name for name in numeric if name != count] or numeric
    figure, axes = _figure()
    axes.set_title(title)
    if count is not None and names:
        largest = sorted(rows, key=lambda row: -row[count])[:_MOST_BARS][::-1]
        axes.barh([_label(row[names[-1]]) for row in largest], [row[count] for row in largest])
        axes.set_xlabel(count)
        figure.set_figheight(1 + 0.2 * len(largest))
    elif other_names and (count is not None or len(numeric) == 2):
        most = max(1.0, *(row[count] for row in rows)) if count is not None else 1.0
        sizes = [_LARGEST_POINT * max(row[count], 0) / most if count else 1 for row in rows]
        points = [row[first] for row in rows], [row[other_names[0]] for row in rows]
        axes.scatter(*points, s=sizes, alpha=0.6)
        axes.set_xlabel(first)
        axes.set_ylabel(other_names[0] if count is None else f"{other_names[0]} (area: {count})")
    else:
        for name in other_names or [first]:
            if any(isinstance(row[name], float) for row in rows):
                axes.plot([row[first] for row in rows], [row[name] for row in rows], label=name)
        axes.legend()
        axes.set_xlabel(first)
    return figure


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _label(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
