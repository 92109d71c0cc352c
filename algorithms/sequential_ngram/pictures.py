"""Pictures of the release: counts of grams by rank, and synthetic sequences by length.

Needs matplotlib (extra `plots`), imported inside and drawn by Agg; no plots without it. The same
values give the same SVG, byte for byte.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from algorithms.contract import Plot
from algorithms.sequential_ngram.publication import Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (5.4, 4.0)
_DOTS_PER_INCH: Final = 150
_BLUE: Final = "#1b6ca8"
_COLOURS: Final = (_BLUE, "#c8553d", "#3a7d44", "#8d6b1f", "#5c677d")
_LINES: Final = len(_COLOURS)
_POINTS: Final = 500


def pictures(release: Release, beat: Callable[[], None] = lambda: None) -> tuple[Plot, ...]:
    """Both plots; none without matplotlib or without sequences."""
    beat()
    if find_spec("matplotlib") is None or not release.copies.any():
        return ()
    grams = _picture("grams", lambda axes: _grams(axes, release))
    beat()
    return grams, _picture("lengths", lambda axes: _lengths(axes, release))


def _grams(axes: Axes, release: Release) -> None:
    axes.set_title("Released counts of grams by rank")
    grams = release.grams
    for length in range(1, min(grams.longest, _LINES) + 1):
        counts = np.sort(grams.counts[grams.bounds[length - 1] : grams.bounds[length]])[::-1]
        shown = np.unique(np.geomspace(1, counts.size, _POINTS).astype(int))
        label = f"{length} item{'s' if length > 1 else ''}"
        axes.loglog(
            shown,
            counts[shown - 1],
            ".-",
            color=_COLOURS[length - 1],
            markersize=3,
            linewidth=0.8,
            label=label,
        )
    axes.set_xlabel("rank of the gram")
    axes.set_ylabel("noisy count (occurrences)")
    axes.legend(frameon=False)


def _lengths(axes: Axes, release: Release) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title("Synthetic sequences by length")
    lengths = release.grams.lengths
    sequences = np.bincount(lengths, release.copies)[1:]
    axes.bar(np.arange(1, sequences.size + 1), sequences, 0.7, color=_BLUE)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("items in the sequence")
    axes.set_ylabel("synthetic sequences")


def _picture(name: str, fill: Callable[[Axes], None]) -> Plot:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    svg, png = io.BytesIO(), io.BytesIO()
    style: Any = {
        "svg.hashsalt": f"sequential-ngram {name}",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with rc_context(style):
        figure = Figure(figsize=_INCHES, layout="constrained")
        fill(figure.subplots())
        figure.savefig(svg, format="svg", metadata={"Date": None})
        figure.savefig(png, format="png", dpi=_DOTS_PER_INCH)
    return Plot(name, svg.getvalue(), png.getvalue())
