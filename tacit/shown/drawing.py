"""Released figures as a picture. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tacit.errors import MissingExtra


def drawn(rows: Sequence[Mapping[str, Any]], title: str) -> Any:
    """A matplotlib figure: a bar for each figure, its interval where there is one. Raises
    MissingExtra."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "pictures") from None
    told = [row for row in rows if row["value"] is not None]
    figure = Figure(figsize=(6, 3.5), layout="constrained")
    axes = figure.subplots()
    places = range(len(told))
    values = [float(row["value"]) for row in told]
    axes.bar(places, values, color="#4c78a8")
    for place, row in zip(places, told, strict=True):
        if row["low"] is not None:
            low, high = float(row["low"]), float(row["high"])
            axes.vlines(place, low, high, color="black", linewidth=1.5)
    names = [row["part"] if row["index"] is None else str(row["index"]) for row in told]
    if len(told) <= 30:
        axes.set_xticks(list(places), names)
    axes.set_title(f"{title}; lines: noise in 95 of 100 cases")
    axes.set_ylabel("" if not told or told[0]["unit"] == "1" else told[0]["unit"])
    return figure
