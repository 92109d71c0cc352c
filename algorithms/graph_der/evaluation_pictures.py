"""Plots of an evaluation: errors of cut queries, and the structure next to the true one.

Spec: jobs, section "Result"; graph-der, section 5. Visible only to the operator; drawn where the
evaluation is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from algorithms.contract import Plot
from algorithms.drawing import BLUE, RED, compared_bars, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (5.4, 4.0)
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
        drawn.append(picture(_NAME, "cut-queries", lambda axes: _cuts(axes, rows), _INCHES))
    if "structure" in evaluation:
        found = evaluation["structure"]
        drawn.append(picture(_NAME, "structure", lambda axes: _structure(axes, found), _INCHES))
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
