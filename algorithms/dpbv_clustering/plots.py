"""Pictures of published values: scatter, grid, dendrogram, and the true delta over epsilon.

matplotlib (extra `plots`) is imported inside and drawn by Agg; without it there are no plots.
"""

from __future__ import annotations

import io
from fractions import Fraction
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import numpy as np

from algorithms.contract import Plot
from algorithms.dpbv_clustering.grid import GridClustering
from algorithms.dpbv_clustering.parameters import BitPlan
from common.accounting.randomised_response import delta_of_responses
from common.encoders.dpbv_clustering import Floats, Ints
from common.encoders.dpbv_clustering_cells import Cells

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INCHES: Final = (5.4, 4.0)
_DOTS: Final = 120
_POINTS: Final = 100
_SHOWN: Final = 5000
_PLANE: Final = 2


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def scatter(points: Floats, labels: Ints, columns: tuple[str, ...]) -> Plot:
    """Estimated or noisy points (n, d), d >= 2, by label; the first 5,000 and two attributes."""
    figure = _figure()
    axes = figure.add_subplot()
    axes.scatter(points[:_SHOWN, 0], points[:_SHOWN, 1], c=labels[:_SHOWN], cmap="tab10", s=6)
    axes.set(title="noisy records by label", xlabel=columns[0], ylabel=columns[1])
    return _rendered("scatter", figure)


def grid(cells: Cells, counts: Floats, found: GridClustering, columns: tuple[str, ...]) -> Plot:
    """Noisy counts of a grid of two axes, with the centres."""
    figure = _figure()
    axes = figure.add_subplot()
    low, high = cells.box.lower, cells.box.upper
    image = axes.imshow(
        counts.reshape(cells.per_axis, cells.per_axis).T,
        origin="lower",
        extent=(low[0], high[0], low[1], high[1]),
        aspect="auto",
        cmap="Blues",
    )
    figure.colorbar(image, ax=axes, label="noisy count")
    axes.scatter(found.centres[:, 0], found.centres[:, 1], marker="x", color="#c8553d")
    axes.set(title="noisy grid and centres", xlabel=columns[0], ylabel=columns[1])
    return _rendered("grid", figure)


def dendrogram(merges: Floats) -> Plot:
    """The upper merges of an average linkage."""
    from scipy.cluster.hierarchy import dendrogram as draw

    figure = _figure()
    axes = figure.add_subplot()
    draw(merges, ax=axes, truncate_mode="lastp", p=30, no_labels=True)
    axes.set(title="average linkage", ylabel="decoded distance")
    return _rendered("dendrogram", figure)


def delta_curve(plan: BitPlan) -> Plot:
    """The true delta over epsilon of the accounted bits; needs flips."""
    figure = _figure()
    axes = figure.add_subplot()
    bit = Fraction(plan.flip.epsilon)
    epsilons = np.linspace(0, plan.differing * plan.flip.epsilon, _POINTS)
    deltas = [
        float(delta_of_responses(plan.differing, bit, Fraction(each))) for each in epsilons.tolist()
    ]
    axes.plot(epsilons, deltas, color="#1b6ca8")
    axes.set(title="what holds for a record", xlabel="epsilon", ylabel="delta", ylim=(0, 1.02))
    return _rendered("delta", figure)


def is_plane(dimension: int) -> bool:
    """Whether there are two axes to draw."""
    return dimension >= _PLANE


def _figure() -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=_INCHES, layout="constrained")


def _rendered(name: str, figure: Figure) -> Plot:
    from matplotlib import rc_context

    pictures = {}
    for form in ("svg", "png"):
        buffer = io.BytesIO()
        with rc_context({"svg.hashsalt": name}):
            dates = {"Date": None} if form == "svg" else {}
            figure.savefig(buffer, format=form, dpi=_DOTS, metadata=dates)
        pictures[form] = buffer.getvalue()
    return Plot(name, pictures["svg"], pictures["png"])
