"""Pictures of the release: densities of regions, and the synthetic graph's degrees.

Those of an evaluation (errors of cut queries, structure next to the true one) are for the
operator only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from algorithms.contract import Plot
from algorithms.drawing import BLUE, RED, can_draw, compared_bars, picture
from algorithms.graph_der.evaluation import degrees
from algorithms.graph_der.regions import Ints, Labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Regions(Protocol):
    """What is drawn of a release: bounds (n, 4) in labels, pairs and edges in each region, and the
    synthetic edges low < high."""

    @property
    def vertices(self) -> int:
        """The number of vertices."""
        ...

    @property
    def triangle(self) -> bool:
        """Whether regions are above the diagonal only."""
        ...

    @property
    def bounds(self) -> Ints:
        """Rows from, to, columns from, to (exclusive)."""
        ...

    @property
    def room(self) -> Ints:
        """(n,) pairs."""
        ...

    @property
    def counts(self) -> Ints:
        """(n,) edges."""
        ...

    @property
    def low(self) -> Labels:
        """(m,) smaller ends."""
        ...

    @property
    def high(self) -> Labels:
        """(m,) larger ends."""
        ...


_INCHES: Final = (6.0, 4.6)
_BLUE: Final = "#1b6ca8"
_PIXELS: Final = 512


def pictures(release: Regions, beat: Callable[[], None] = lambda: None) -> tuple[Plot, ...]:
    """Both plots; none without matplotlib."""
    beat()
    if not can_draw():
        return ()
    regions = picture("graph-der", "regions", lambda axes: _regions(axes, release), _INCHES)
    beat()
    return regions, picture("graph-der", "degrees", lambda axes: _degrees(axes, release), _INCHES)


def density_map(release: Regions, pixels: int = _PIXELS) -> NDArray[np.float64]:
    """(side, side) released density of the leaf at each point; NaN where there is none."""
    vertices = release.vertices
    side = min(pixels, vertices)
    room = np.maximum(1, release.room)
    image = np.full((side, side), np.nan)
    # a point shows the leaf that holds its first label; small ones may fall between
    at = -(-release.bounds * side // vertices)
    order = np.argsort(-room, kind="stable")
    for number in order.tolist():
        top, bottom, left, right = at[number]
        image[top:bottom, left:right] = release.counts[number] / room[number]
    if release.triangle:
        image = np.where(np.tri(side, k=-1, dtype=np.bool_), image.T, image)
    return image


def _regions(axes: Axes, release: Regions) -> None:
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import MaxNLocator

    image = density_map(release)
    positive = image[image > 0]
    vertices = release.vertices
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
    axes.figure.colorbar(shown, ax=axes, label="edges per pair (white: none)", shrink=0.85)


def _degrees(axes: Axes, release: Regions) -> None:
    count = np.bincount(degrees((release.low, release.high), release.vertices))
    place = np.flatnonzero(count)
    axes.set_title("Degrees of the synthetic graph")
    axes.plot(place, count[place], ".", color=_BLUE, markersize=4)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_yscale("log")
    axes.set_xlim(left=-0.2)
    axes.grid(which="major", color="#dddddd", linewidth=0.6)
    axes.set_xlabel("degree (edges at a vertex)")
    axes.set_ylabel("vertices")


# Spec: jobs, section "Result"; graph-der, section 5. Visible only to the operator; drawn where the
# evaluation is read.

_EVALUATION_INCHES: Final = (5.4, 4.0)
_NAME: Final = "graph-der"
_COLOURS: Final = {"release": BLUE, "random": RED}
_STYLES: Final = {"range": "o-", "random": "s--"}


def evaluation_pictures(
    evaluation: Mapping[str, Any],
    summary: Mapping[str, Any],  # noqa: ARG001 - one signature for all algorithms
) -> tuple[Plot, ...]:
    """Those that the evaluation has figures for."""
    drawn = []
    if evaluation.get("cut_queries"):
        rows = evaluation["cut_queries"]
        drawn.append(
            picture(_NAME, "cut-queries", lambda axes: _cuts(axes, rows), _EVALUATION_INCHES)
        )
    if "structure" in evaluation:
        found = evaluation["structure"]
        drawn.append(
            picture(_NAME, "structure", lambda axes: _structure(axes, found), _EVALUATION_INCHES)
        )
    return tuple(drawn)


def _cuts(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    axes.set_title("Errors of cut queries (private)")
    for sets, style in _STYLES.items():
        own = [row for row in rows if row["sets"] == sets]
        for name in ("release", "random"):
            shown = [(row["largest_size"], row[name]) for row in own if row[name] is not None]
            axes.plot(
                [size for size, _ in shown],
                [error for _, error in shown],
                style,
                color=_COLOURS[name],
                markersize=4,
                label=f"{'release' if name == 'release' else 'random graph'}, {sets} sets",
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("largest set (vertices)")
    axes.set_ylabel("mean relative error")
    axes.legend(frameon=False)


def _structure(axes: Axes, found: Mapping[str, Mapping[str, float | None]]) -> None:
    axes.set_title("Structure (private)")
    names = {"mean_distance": "mean distance", "clustering": "clustering", "assortativity": None}
    series = {
        label: [found[key][name] for name in names]
        for label, key in (("true", "true"), ("release", "release"), ("random graph", "random"))
    }
    compared_bars(axes, [shown or name for name, shown in names.items()], series)
    axes.set_yscale("symlog", linthresh=0.1)
