"""Plots of an evaluation: reference labels against released ones, true sizes, scores.

Spec: jobs, section "Result". Visible only to the operator; drawn where the evaluation is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from algorithms.contract import Plot
from algorithms.drawing import compared_bars, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (5.4, 4.0)
_NAME: Final = "dpbv-clustering"


def evaluation_pictures(
    evaluation: Mapping[str, Any], summary: Mapping[str, Any]
) -> tuple[Plot, ...]:
    """Those that the evaluation has figures for."""
    drawn = []
    if "agreement" in evaluation:
        table = evaluation["agreement"]
        drawn.append(picture(_NAME, "agreement", lambda axes: _agreement(axes, table), _INCHES))
    if summary.get("masses") and "rows" in evaluation:
        rows, masses = evaluation["rows"], summary["masses"]
        drawn.append(picture(_NAME, "sizes", lambda axes: _sizes(axes, rows, masses), _INCHES))
    baselines = evaluation.get("baselines", {})
    scored = {name: found for name, found in baselines.items() if "nmi" in found}
    if scored and "nmi" in evaluation:
        scores = {"this job": evaluation, **scored}
        drawn.append(picture(_NAME, "scores", lambda axes: _scores(axes, scores), _INCHES))
    return tuple(drawn)


def _agreement(axes: Axes, table: Mapping[str, Any]) -> None:
    axes.set_title("Rows by reference and released label (private)")
    counts = np.array(table["rows"], np.float64)
    shown = axes.imshow(counts, cmap="Blues", aspect="auto", vmin=0)
    axes.set_xticks(range(len(table["labels"])), [str(each) for each in table["labels"]])
    axes.set_yticks(range(len(table["reference"])), [str(each) for each in table["reference"]])
    axes.set_xlabel("released label (-1: noise)")
    axes.set_ylabel("reference label")
    axes.figure.colorbar(shown, ax=axes, label="rows")


def _sizes(axes: Axes, rows: Mapping[str, int], masses: list[float]) -> None:
    axes.set_title("Rows of each cluster (private)")
    names = [str(place) for place in range(len(masses))]
    true = [rows.get(name, 0) for name in names]
    compared_bars(axes, names, {"true": true, "released": masses})
    axes.set_xlabel("cluster")
    axes.set_ylabel("rows")


def _scores(axes: Axes, scores: Mapping[str, Mapping[str, float]]) -> None:
    axes.set_title("Agreement with the reference labels (private)")
    series = {
        "mutual information": [found["nmi"] for found in scores.values()],
        "adjusted Rand index": [found["ari"] for found in scores.values()],
    }
    compared_bars(axes, list(scores), series)
    axes.set_ylabel("score (1: the same)")
