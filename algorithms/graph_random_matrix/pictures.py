"""Pictures of the release: singular values beside the noise, and sizes of clusters.

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
from algorithms.graph_random_matrix.findings import Findings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (5.4, 4.0)
_DOTS_PER_INCH: Final = 150
_BLUE: Final = "#1b6ca8"
_RED: Final = "#c8553d"


def pictures(findings: Findings, beat: Callable[[], None] = lambda: None) -> tuple[Plot, ...]:
    """One or both plots; none without matplotlib."""
    beat()
    if find_spec("matplotlib") is None:
        return ()
    found = [_picture("singular-values", lambda axes: _values(axes, findings))]
    if findings.labels is not None:
        beat()
        sizes = np.bincount(findings.labels)
        found.append(_picture("clusters", lambda axes: _clusters(axes, sizes.tolist())))
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


def _picture(name: str, fill: Callable[[Axes], None]) -> Plot:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    svg, png = io.BytesIO(), io.BytesIO()
    style: Any = {
        "svg.hashsalt": f"graph-random-matrix {name}",
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
