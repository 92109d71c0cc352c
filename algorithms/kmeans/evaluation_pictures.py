"""Plots of an evaluation: true and released sizes, centres and the means of their rows.

Spec: jobs, section "Result". Visible only to the operator; drawn where the evaluation is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from algorithms.contract import Plot
from algorithms.drawing import BLUE, compared_bars, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (5.4, 4.0)


def evaluation_pictures(
    evaluation: Mapping[str, Any], summary: Mapping[str, Any]
) -> tuple[Plot, ...]:
    """Both plots, where the evaluation has `clusters`."""
    clusters = evaluation.get("clusters")
    if not clusters:
        return ()
    true = [each["rows"] for each in clusters]
    shifts = [each["mean_distance_off"] for each in clusters]
    released = summary["noisy_counts"]
    return (
        picture("kmeans", "sizes", lambda axes: _sizes(axes, true, released), _INCHES),
        picture("kmeans", "shifts", lambda axes: _shifts(axes, shifts), _INCHES),
    )


def _sizes(axes: Axes, true: Sequence[float], released: Sequence[float]) -> None:
    axes.set_title("Rows of each cluster (private)")
    names = [str(place) for place in range(len(true))]
    compared_bars(axes, names, {"true": true, "released": released})
    axes.set_xlabel("cluster")
    axes.set_ylabel("rows")


def _shifts(axes: Axes, shifts: Sequence[float | None]) -> None:
    axes.set_title("Released centres against their rows' means (private)")
    known = [(place, shift) for place, shift in enumerate(shifts) if shift is not None]
    axes.bar([place for place, _ in known], [shift for _, shift in known], color=BLUE)
    axes.set_xticks(range(len(shifts)))
    axes.set_xlabel("cluster")
    axes.set_ylabel("distance (sides of the box)")
