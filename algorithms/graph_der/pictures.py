"""Pictures of the release: densities of regions, and the synthetic graph's degrees.

Needs matplotlib (extra `plots`), imported inside and drawn by Agg; no plots without it. The same
values give the same SVG, byte for byte.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Plot
from algorithms.graph_der.metrics import degrees
from algorithms.graph_der.publication import Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INCHES: Final = (6.0, 4.6)
_DOTS_PER_INCH: Final = 150
_BLUE: Final = "#1b6ca8"
_PIXELS: Final = 512


def pictures(release: Release, beat: Callable[[], None] = lambda: None) -> tuple[Plot, ...]:
    """Both plots; none without matplotlib."""
    beat()
    if find_spec("matplotlib") is None:
        return ()
    regions = _picture("regions", lambda figure, axes: _regions(figure, axes, release))
    beat()
    return regions, _picture("degrees", lambda _, axes: _degrees(axes, release))


def density_map(release: Release, pixels: int = _PIXELS) -> NDArray[np.float64]:
    """(side, side) released density of the leaf at each point; NaN where there is none."""
    vertices = release.plan.grid.vertices
    side = min(pixels, vertices)
    room = np.maximum(1, release.tree.cells[release.tree.leaves])
    image = np.full((side, side), np.nan)
    # a point shows the leaf that holds its first label; small ones may fall between
    at = -(-release.bounds * side // vertices)
    order = np.argsort(-room, kind="stable")
    for number in order.tolist():
        top, bottom, left, right = at[number]
        image[top:bottom, left:right] = release.counts[number] / room[number]
    if release.plan.grid.triangle:
        image = np.where(np.tri(side, k=-1, dtype=np.bool_), image.T, image)
    return image


def _regions(figure: Figure, axes: Axes, release: Release) -> None:
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import MaxNLocator

    image = density_map(release)
    positive = image[image > 0]
    vertices = release.plan.grid.vertices
    axes.set_title("Density of edges by region (released)")
    axes.set_xlabel("label")
    axes.set_ylabel("label")
    low, high = (positive.min(), positive.max()) if positive.size else (0.1, 1.0)
    axes.set_facecolor("white")
    shown = axes.imshow(
        np.where(image > 0, image, np.nan),
        extent=(0, vertices, vertices, 0),
        norm=LogNorm(low, max(high, low * 1.01)),
        cmap="YlGnBu",
        interpolation="nearest",
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, integer=True))
    figure.colorbar(shown, ax=axes, label="edges per pair (white: none)", shrink=0.85)


def _degrees(axes: Axes, release: Release) -> None:
    count = np.bincount(degrees((release.low, release.high), release.plan.grid.vertices))
    place = np.flatnonzero(count)
    axes.set_title("Degrees of the synthetic graph")
    axes.plot(place, count[place], ".", color=_BLUE, markersize=4)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_yscale("log")
    axes.set_xlim(left=-0.2)
    axes.grid(which="major", color="#dddddd", linewidth=0.6)
    axes.set_xlabel("degree (edges at a vertex)")
    axes.set_ylabel("vertices")


def _picture(name: str, fill: Callable[[Figure, Axes], None]) -> Plot:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    svg, png = io.BytesIO(), io.BytesIO()
    style: Any = {
        "svg.hashsalt": f"graph-der {name}",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with rc_context(style):
        figure = Figure(figsize=_INCHES, layout="constrained")
        fill(figure, figure.subplots())
        figure.savefig(svg, format="svg", metadata={"Date": None})
        figure.savefig(png, format="png", dpi=_DOTS_PER_INCH)
    return Plot(name, svg.getvalue(), png.getvalue())
