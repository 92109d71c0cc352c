"""Pictures of a published table: where and when its pairs are, and how long its paths.

Only what is published is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from algorithms.contract import Plot
from algorithms.datasets.trajectories import Ints
from algorithms.drawing import BLUE, can_draw, picture
from algorithms.trajectory_kcl.table import PairTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME: Final = "trajectory-kcl"
MOST_PLACES: Final = 25
MOST_TIMES: Final = 48
"""of distinct times; of more, equal spans are drawn."""
_INCHES: Final = (5.4, 3.6)


def plots(table: PairTable, rows: Ints) -> tuple[Plot, ...]:
    """Pairs by place and time, and lengths of the paths. None without matplotlib.

    rows: of the published records. The others have no pairs.
    """
    if not can_draw():
        return ()
    lengths = _lengths(table, rows)
    return (_pairs(table), lengths) if len(table.items) else (lengths,)


def pairs_by_place_and_time(table: PairTable) -> tuple[list[str], list[str], Ints]:
    """The places with the most pairs (at most 25, the first on top), labels of the times or of
    their spans (at most 48), and how many pairs are published of each (places, times)."""
    count = np.bincount(table.items, minlength=len(table.times))
    here = np.flatnonzero(count)
    names, place = np.unique(np.array(table.locations)[here], return_inverse=True)
    times = np.array(table.times)[here]
    distinct, column = np.unique(times, return_inverse=True)
    labels = [f"{time:g}" for time in distinct]
    if len(distinct) > MOST_TIMES:
        edges = np.linspace(distinct[0], distinct[-1], MOST_TIMES + 1)
        column = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, MOST_TIMES - 1)
        labels = [f"{edge:g}" for edge in edges[:-1]]
    counts = np.zeros((len(names), len(labels)), np.int64)
    np.add.at(counts, (place, column), count[here])
    most = np.argsort(-counts.sum(axis=1), kind="stable")[:MOST_PLACES]
    return [str(name) for name in names[most]], labels, counts[most]


def _pairs(table: PairTable) -> Plot:
    places, labels, counts = pairs_by_place_and_time(table)
    total = len({table.locations[item] for item in np.unique(table.items).tolist()})

    def fill(axes: Axes) -> None:
        shown = axes.imshow(counts, cmap="Blues", aspect="auto", vmin=0, interpolation="nearest")
        axes.figure.colorbar(shown, ax=axes, label="published pairs")
        axes.set_yticks(range(len(places)), places, fontsize=7 if len(places) > 12 else 9)
        for label in axes.get_yticklabels():
            label.set_parse_math(False)  # a place may have a dollar sign
        step = -(-len(labels) // 12)
        axes.set_xticks(range(0, len(labels), step), labels[::step])
        first = "" if total == len(places) else f": the {len(places)} fullest of {total} places"
        axes.set(title=f"What is published{first}", xlabel="time", ylabel="place")

    return picture(NAME, "pairs", fill, _INCHES)


def _lengths(table: PairTable, rows: Ints) -> Plot:
    from matplotlib.ticker import MaxNLocator

    counts = np.bincount(table.lengths[rows])

    def fill(axes: Axes) -> None:
        axes.bar(np.arange(len(counts)), counts, color=BLUE)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(title="Published paths", xlabel="pairs in a path", ylabel="records")

    return picture(NAME, "lengths", fill, _INCHES)
