"""Pictures of published values: scatter, grid, dendrogram, and the true delta over epsilon.

matplotlib (extra `plots`) is imported inside and drawn by Agg; without it there are no plots.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from algorithms.contract import Plot
from algorithms.dpbv_clustering.grid import GridClustering
from algorithms.dpbv_clustering.parameters import BitPlan
from algorithms.dpbv_clustering.report.parts import NAME
from algorithms.drawing import BLUE, RED, picture
from tacit.accounting.randomised_response import delta_of_responses
from tacit.encoders.dpbv_clustering.cells import Cells
from tacit.encoders.dpbv_clustering.encoder import Floats, Ints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (5.4, 4.0)
_POINTS: Final = 100
_SHOWN: Final = 5000
_PLANE: Final = 2


def scatter(points: Floats, labels: Ints, columns: tuple[str, ...]) -> Plot:
    """Estimated or noisy points (n, d), d >= 2, by label; the first 5,000 and two attributes."""

    def fill(axes: Axes) -> None:
        axes.scatter(points[:_SHOWN, 0], points[:_SHOWN, 1], c=labels[:_SHOWN], cmap="tab10", s=6)
        axes.set(title="Noisy records by label", xlabel=columns[0], ylabel=columns[1])

    return picture(NAME, "scatter", fill, _INCHES)


def grid(cells: Cells, counts: Floats, found: GridClustering, columns: tuple[str, ...]) -> Plot:
    """Noisy counts of a grid of two axes, with the centres."""
    low, high = cells.box.lower, cells.box.upper

    def fill(axes: Axes) -> None:
        image = axes.imshow(
            counts.reshape(cells.per_axis, cells.per_axis).T,
            origin="lower",
            extent=(low[0], high[0], low[1], high[1]),
            aspect="auto",
            cmap="Blues",
        )
        axes.figure.colorbar(image, ax=axes, label="noisy count")
        axes.scatter(found.centres[:, 0], found.centres[:, 1], marker="x", color=RED)
        axes.set(title="Noisy grid and centres", xlabel=columns[0], ylabel=columns[1])

    return picture(NAME, "grid", fill, _INCHES)


def dendrogram(merges: Floats) -> Plot:
    """The upper merges of an average linkage."""
    from scipy.cluster.hierarchy import dendrogram as draw

    def fill(axes: Axes) -> None:
        draw(merges, ax=axes, truncate_mode="lastp", p=30, no_labels=True)
        axes.set(title="Average linkage", ylabel="decoded distance")

    return picture(NAME, "dendrogram", fill, _INCHES)


def delta_curve(plan: BitPlan) -> Plot:
    """The true delta over epsilon of the accounted bits; needs flips."""
    bit = Fraction(plan.flip.epsilon)
    epsilons = np.linspace(0, plan.differing * plan.flip.epsilon, _POINTS)
    deltas = [
        float(delta_of_responses(plan.differing, bit, Fraction(each))) for each in epsilons.tolist()
    ]

    def fill(axes: Axes) -> None:
        axes.plot(epsilons, deltas, color=BLUE)
        axes.set(title="What holds for a record", xlabel="epsilon", ylabel="delta", ylim=(0, 1.02))

    return picture(NAME, "delta", fill, _INCHES)


def is_plane(dimension: int) -> bool:
    """Whether there are two axes to draw."""
    return dimension >= _PLANE
