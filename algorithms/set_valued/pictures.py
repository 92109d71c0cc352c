"""Pictures of the release: counts by rank, and rows and records by length.

Needs matplotlib (extra `plots`), imported inside and drawn by Agg; no plots without it. The same
values give the same SVG, byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from algorithms.contract import Plot
from algorithms.drawing import BLUE, RED, can_draw, picture
from algorithms.set_valued.settings import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (5.4, 4.0)
_POINTS: Final = 2_000


def pictures(rows: Sequence[Row]) -> tuple[Plot, ...]:
    """Both plots; none without matplotlib or without rows."""
    if not can_draw() or not rows:
        return ()
    return (
        picture("set-valued", "counts", lambda axes: _counts(axes, rows), _INCHES),
        picture("set-valued", "lengths", lambda axes: _lengths(axes, rows), _INCHES),
    )


def _counts(axes: Axes, rows: Sequence[Row]) -> None:
    axes.set_title("Released counts by rank")
    counts = np.sort([count for _, count in rows])[::-1]
    shown = np.unique(np.geomspace(1, counts.size, _POINTS).astype(int))
    axes.loglog(shown, counts[shown - 1], ".-", color=BLUE, markersize=3, linewidth=0.8)
    axes.set_xlabel("rank of the itemset")
    axes.set_ylabel("noisy count (records)")


def _lengths(axes: Axes, rows: Sequence[Row]) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title("Released itemsets and records by length")
    lengths = np.array([len(items) for items, _ in rows])
    counts = np.array([count for _, count in rows])
    places = np.arange(1, lengths.max() + 1)
    records = np.bincount(lengths, counts, minlength=places.size + 1)[1:]
    sets = np.bincount(lengths, minlength=places.size + 1)[1:]
    axes.bar(places - 0.2, records, 0.4, color=BLUE, label="records")
    axes.bar(places + 0.2, sets, 0.4, color=RED, label="distinct itemsets")
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("items in the set")
    axes.set_ylabel("released")
    axes.legend(frameon=False)
