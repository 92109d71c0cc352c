"""Plots of a task. They need matplotlib (drawn by Agg).

Published ones are made of public parameters and noisy reports only. Those of an evaluation show
the true aggregate next to the released one and what attacks find, for the operator only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from algorithms.contract import Plot
from algorithms.crowd_tasking.aggregates import Reports
from algorithms.crowd_tasking.parameters import MOST_EPSILON
from algorithms.crowd_tasking.report import NAME, source_ane
from algorithms.crowd_tasking.task import Task
from algorithms.drawing import BLUE, GREY, RED, can_draw, compared_bars, picture
from tacit.encoders.crowd_tasking.encoder import Floats

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes

_INCHES: Final = (5.4, 3.6)
_GRID: Final = 16
_SHOWN_USERS: Final = 5
_SHOWN_REPORTS: Final = 2_000


def task_plots(
    task: Task, joined: int, reports: Reports, found: Floats | None, tick: Callable[[], None]
) -> tuple[Plot, ...]:
    """All plots of a result; none where matplotlib is not installed. `found`: bucket shares.

    `tick` is called between steps.
    """
    if not can_draw():
        return ()
    drawn: list[tuple[str, Callable[[Axes], None]]] = [("risk", lambda axes: _risk(axes, task))]
    if joined:
        drawn.append(("error", lambda axes: _error(axes, task, joined, tick)))
    if reports.count:
        drawn.append(("uploaded", lambda axes: _uploaded(axes, task, reports)))
    if found is not None and joined:
        drawn.append(("histogram", lambda axes: _histogram(axes, task, found)))
    plots = []
    for name, fill in drawn:
        tick()
        plots.append(picture(NAME, name, fill, _INCHES))
    return tuple(plots)


def _epsilons(task: Task) -> list[Fraction]:
    least = min(Fraction(1, 2), task.epsilon)
    most = max(Fraction(MOST_EPSILON), task.epsilon)
    if task.params.sensor.steps > 1:
        least = max(least, task.epsilon * task.perturbation.scale / 20_000_000)
    return [Fraction(round(each, 6)) for each in np.geomspace(float(least), float(most), _GRID)]


def _error(axes: Axes, task: Task, joined: int, tick: Callable[[], None]) -> None:
    epsilons = _epsilons(task)
    found = []
    for each in epsilons:
        tick()
        found.append(replace(task, epsilon=each).predicted(joined))
    places = [float(epsilon) for epsilon in epsilons]
    axes.plot(places, [each.mean for each in found], color=BLUE, label="predicted mean")
    axes.plot(places, [each.point_95 for each in found], "--", color=BLUE, label="95 % point")
    bounds = [math.nan if each.bound is None else each.bound for each in found]
    axes.plot(places, bounds, ":", color=GREY, label="the source's bound")
    axes.axvline(float(task.epsilon), color=RED, linewidth=1, label="this task")
    what = {"AVG": f"error ({task.params.sensor.unit})", "HIST": "error of shares"}
    axes.set_ylabel(what.get(task.params.aggregate, f"shift ({task.params.sensor.unit})"))
    _finish(axes, f"Predicted error, {joined} users")


def _risk(axes: Axes, task: Task) -> None:
    places = [float(each) for each in _epsilons(task)]
    factor = task.params.dimension if task.per_coordinate else 1
    axes.plot(
        places, [source_ane(place) for place in places], color=GREY, label="ANE of the source"
    )
    floor = [1 / (1 + math.exp(min(factor * each, 700))) for each in places]
    axes.plot(places, floor, color=BLUE, label="least error of any test of one reading")
    axes.axvline(float(task.epsilon), color=RED, linewidth=1, label="this task")
    axes.set_ylim(bottom=1e-4)
    axes.set_ylabel("share of the range; probability")
    _finish(axes, "Risk: an average attack, and the guarantee")


def _finish(axes: Axes, title: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("epsilon")
    axes.set_title(title)
    axes.grid(which="major", color="#dddddd", linewidth=0.6)
    axes.legend(frameon=False)


def _uploaded(axes: Axes, task: Task, reports: Reports) -> None:
    for user in np.unique(reports.users)[:_SHOWN_USERS]:
        mine = np.flatnonzero(reports.users == user)[:_SHOWN_REPORTS]
        axes.plot(reports.rounds[mine], reports.values[mine, 0], ".", markersize=3)
    first = task.params.sensor.coordinates[0]
    axes.axhspan(first.lower, first.upper, color="#eeeeee", zorder=0, label="bounds")
    axes.set_xlabel("round")
    axes.set_ylabel(f"{first.name} ({task.params.sensor.unit})")
    axes.set_title("Reports as uploaded (noisy), the first users")
    axes.legend(frameon=False)


def _histogram(axes: Axes, task: Task, found: Floats) -> None:
    edges = np.array(task.params.bucket_edges)
    axes.stairs(found, edges, color=BLUE, fill=True, alpha=0.4, label=task.params.estimator)
    axes.stairs(task.reference, edges, color=GREY, label="public reference")
    chosen = task.params.histogram_coordinate
    axes.set_xlabel(f"{chosen.name} ({task.params.sensor.unit})")
    axes.set_ylabel("share")
    axes.set_title("Histogram from noisy reports")
    axes.legend(frameon=False)


# Spec: jobs, section "Result". Visible only to the operator; drawn where the evaluation is read.

_EVALUATION_INCHES: Final = (5.4, 4.0)
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
            picture(
                _NAME, "average", lambda axes: _average(axes, true, found, unit), _EVALUATION_INCHES
            )
        )
    if "histogram" in evaluation:
        shares = evaluation["histogram"]["true_shares"]
        released = summary["histogram"]
        drawn.append(
            picture(
                _NAME,
                "histogram",
                lambda axes: _true_histogram(axes, shares, released),
                _EVALUATION_INCHES,
            )
        )
    if "classifier" in evaluation:
        measured = evaluation["classifier"]
        drawn.append(
            picture(_NAME, "classifier", lambda axes: _accuracy(axes, measured), _EVALUATION_INCHES)
        )
    if evaluation.get("risk"):
        risks = evaluation["risk"]
        drawn.append(
            picture(_NAME, "risk", lambda axes: _attack_risk(axes, risks), _EVALUATION_INCHES)
        )
    return tuple(drawn)


def _average(
    axes: Axes, true: Sequence[float], found: Mapping[str, Mapping[str, float | None]], unit: str
) -> None:
    axes.set_title("Averages (private)")
    released = [each["estimate"] for each in found.values()]
    compared_bars(axes, list(found), {"true": true, "released": released})
    axes.set_ylabel(f"mean ({unit})")


def _true_histogram(axes: Axes, true: Sequence[float], released: Mapping[str, Any]) -> None:
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


def _attack_risk(axes: Axes, risks: Mapping[str, Mapping[str, Any]]) -> None:
    axes.set_title("What attacks find of a reading (private)")
    series = {
        "prior alone": [risk["prior_only"] for risk in risks.values()],
        "best attack": [each["best_attack"] for each in risks.values()],
        "as the source has it": [each["source_ane"] for each in risks.values()],
    }
    compared_bars(axes, list(risks), series)
    axes.set_ylabel("mean error (share of the range)")
