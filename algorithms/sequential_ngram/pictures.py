"""Pictures of the release: counts of grams by rank, and synthetic sequences by length.

Needs matplotlib (extra `plots`), imported inside and drawn by Agg; no plots without it. The same
values give the same SVG, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from algorithms.contract import Plot
from algorithms.drawing import BLUE, COLOURS, can_draw, picture
from algorithms.sequential_ngram.publication import Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (5.4, 4.0)
_LINES: Final = len(COLOURS)
_POINTS: Final = 500


def pictures(release: Release, beat: Callable[[], None] = lambda: None) -> tuple[Plot, ...]:
    """Both plots; none without matplotlib or without sequences."""
    beat()
    if not can_draw() or not release.copies.any():
        return ()
    grams = picture("sequential-ngram", "grams", lambda axes: _grams(axes, release), _INCHES)
    beat()
    return grams, picture(
        "sequential-ngram", "lengths", lambda axes: _lengths(axes, release), _INCHES
    )


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
            color=COLOURS[length - 1],
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
    axes.bar(np.arange(1, sequences.size + 1), sequences, 0.7, color=BLUE)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("items in the sequence")
    axes.set_ylabel("synthetic sequences")
