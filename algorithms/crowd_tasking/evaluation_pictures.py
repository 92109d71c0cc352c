"""Plots of an evaluation: the true aggregate next to the released one, and what attacks find.

Spec: jobs, section "Result". Visible only to the operator; drawn where the evaluation is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from algorithms.contract import Plot
from algorithms.drawing import BLUE, GREY, compared_bars, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES: Final = (5.4, 4.0)
_NAME: Final = "crowd-tasking"


def evaluation_pictures(
    evaluation: Mapping[str, Any], summary: Mapping[str, Any]
) -> tuple[Plot, ...]:
    """Those that the evaluation has figures for."""
    drawn = []
    if "average" in evaluation:
        true = evaluation["average"]["true_mean"]
        found = summary["average"]
        unit = summary["task"]["unit"]
        drawn.append(
            picture(_NAME, "average", lambda axes: _average(axes, true, found, unit), _INCHES)
        )
    if "histogram" in evaluation:
        shares = evaluation["histogram"]["true_shares"]
        released = summary["histogram"]
        drawn.append(
            picture(_NAME, "histogram", lambda axes: _histogram(axes, shares, released), _INCHES)
        )
    if "classifier" in evaluation:
        measured = evaluation["classifier"]
        drawn.append(picture(_NAME, "classifier", lambda axes: _accuracy(axes, measured), _INCHES))
    if evaluation.get("risk"):
        risks = evaluation["risk"]
        drawn.append(picture(_NAME, "risk", lambda axes: _risk(axes, risks), _INCHES))
    return tuple(drawn)


def _average(
    axes: Axes, true: Sequence[float], found: Mapping[str, Mapping[str, float | None]], unit: str
) -> None:
    axes.set_title("Averages (private)")
    released = [each["estimate"] for each in found.values()]
    compared_bars(axes, list(found), {"true": true, "released": released})
    axes.set_ylabel(f"mean ({unit})")


def _histogram(axes: Axes, true: Sequence[float], released: Mapping[str, Any]) -> None:
    axes.set_title("Histogram (private)")
    axes.stairs(true, released["edges"], color=GREY, fill=True, alpha=0.4, label="true")
    axes.stairs(released["shares"], released["edges"], color=BLUE, label="released")
    axes.set_xlabel(released["coordinate"])
    axes.set_ylabel("share")
    axes.legend(frameon=False)


def _accuracy(axes: Axes, measured: Mapping[str, float | None]) -> None:
    axes.set_title("Classifier, tested on true readings (private)")
    names = ["trained on true readings", "trained on reports"]
    values = [measured["accuracy_without_noise"], measured["accuracy_on_true_readings"]]
    axes.bar(names, [value or 0.0 for value in values], color=[GREY, BLUE])
    axes.set_ylim(0, 1)
    axes.set_ylabel("accuracy")


def _risk(axes: Axes, risks: Mapping[str, Mapping[str, Any]]) -> None:
    axes.set_title("What attacks find of a reading (private)")
    series = {
        "prior alone": [each["prior_only"] for each in risks.values()],
        "best attack": [each["best_attack"] for each in risks.values()],
        "as the source has it": [each["source_ane"] for each in risks.values()],
    }
    compared_bars(axes, list(risks), series)
    axes.set_ylabel("mean error (share of the range)")
