"""Pictures of the release: singular values and the noise, and sizes of clusters.

Needs matplotlib (extra `plots`), imported inside and drawn by Agg; no plots without it. The same
values give the same SVG, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from algorithms.contract import Plot
from algorithms.drawing import can_draw, picture
from algorithms.graph_random_matrix.findings import Findings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (5.4, 4.0)
_BLUE: Final = "#1b6ca8"
_RED: Final = "#c8553d"


def pictures(findings: Findings, beat: Callable[[], None] = lambda: None) -> tuple[Plot, ...]:
    """One or both plots; none without matplotlib."""
    beat()
    if not can_draw():
        return ()
    found = [
        picture(
            "graph-random-matrix", "singular-values", lambda axes: _values(axes, findings), _INCHES
        )
    ]
    if findings.labels is not None:
        beat()
        sizes = np.bincount(findings.labels)
        found.append(
            picture(
                "graph-random-matrix",
                "clusters",
                lambda axes: _clusters(axes, sizes.tolist()),
                _INCHES,
            )
        )
    return tuple(found)


def _values(axes: Axes, findings: Findings) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title("Singular values of what is published")
    places = np.arange(1, findings.values.size + 1)
    axes.plot(places, findings.values, "o-", color=_BLUE, markersize=3, label="published")
    axes.axhline(
        findings.noise_level,
        color=_RED,
        linestyle="--",
        linewidth=1,
        label="noise alone, with a margin of 20 % in squares",
    )
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("place")
    axes.set_ylabel("singular value")
    axes.legend(frameon=False)


def _clusters(axes: Axes, sizes: list[int]) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title("Vertices by cluster")
    axes.bar(range(len(sizes)), sizes, color=_BLUE)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("cluster")
    axes.set_ylabel("vertices")
