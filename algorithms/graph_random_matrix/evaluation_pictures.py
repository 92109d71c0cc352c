"""Plots of an evaluation: eigenvectors, influential vertices and clusters next to the true ones.

Spec: jobs, section "Result"; graph-random-matrix, section 5. Visible only to the operator; drawn
where the evaluation is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from algorithms.contract import Plot
from algorithms.drawing import BLUE, GREY, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (5.4, 4.0)
_NAME: Final = "graph-random-matrix"


def evaluation_pictures(
    evaluation: Mapping[str, Any],
    summary: Mapping[str, Any],  # noqa: ARG001 - one signature for all algorithms
) -> tuple[Plot, ...]:
    """Those that the evaluation has figures for."""
    cosines = evaluation.get("ev_cosine")
    if not cosines:
        return ()
    theory = evaluation.get("squared_cosine_by_theory")
    drawn = [picture(_NAME, "eigenvectors", lambda axes: _vectors(axes, cosines, theory), _INCHES)]
    if evaluation["overlap"]:
        shares = evaluation["overlap"]
        drawn.append(picture(_NAME, "overlap", lambda axes: _overlap(axes, shares), _INCHES))
    agreement = evaluation["nmi"]
    drawn.append(picture(_NAME, "clusters", lambda axes: _clusters(axes, agreement), _INCHES))
    return tuple(drawn)


def _vectors(axes: Axes, cosines: Sequence[float], theory: Sequence[float] | None) -> None:
    axes.set_title("Released eigenvectors against the true ones (private)")
    places = range(1, len(cosines) + 1)
    axes.bar(places, [abs(each) for each in cosines], color=BLUE, label="released")
    if theory is not None:
        expected = [max(each, 0.0) ** 0.5 for each in theory]
        axes.plot(places, expected, "_", color=GREY, markersize=14, label="foretold")
    axes.set_xticks(places)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("eigenvector")
    axes.set_ylabel("cosine (1: the same)")
    axes.legend(frameon=False)


def _overlap(axes: Axes, shares: Sequence[Mapping[str, Any]]) -> None:
    axes.set_title("Most influential vertices found (private)")
    names = [f"first {each['top']}" for each in shares]
    axes.bar(names, [each["share"] for each in shares], color=BLUE)
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("share that is right")


def _clusters(axes: Axes, agreement: Mapping[str, float]) -> None:
    axes.set_title("Clusters against those of the true graph (private)")
    names = ["true, clustered again", "released"]
    axes.bar(names, [agreement["original"], agreement["private"]], color=[GREY, BLUE])
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("mutual information (1: the same)")
