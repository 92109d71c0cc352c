"""Thesis, Figures 5.2 to 5.4 (Lu & Shen, Figures 2 to 4): the tables over epsilon, as lines.

Spec: budget, section 6. Figure 5.4 adds `distributed`, which hides all of a curator's readings.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np

from reproduction.baselines import distributed, exact_total, expected_absolute, sampling_error
from reproduction.budget_noise import (
    EPSILONS,
    NOTES,
    REPETITIONS,
    SCHEMES,
    Dataset,
    Measured,
    all_differences,
    all_injections,
    datasets,
    provenance,
)
from reproduction.experiment import Experiment, Outcome, Row, Run, marked, sampled, trend
from simulation.plots import Line, Panel, Plot

AGGREGATORS: Final = 5
_EPSILON_LABEL: Final = "epsilon (of every curator)"


def _line(name: str, found: dict[int, Measured]) -> Line:
    return Line(
        name,
        tuple(float(epsilon) for epsilon in found),
        tuple(each.value for each in found.values()),
        tuple(each.expected for each in found.values()),
    )


def _slope(name: str, line: Line, found: dict[int, Measured]) -> Row:
    """All curves of the chapter fall as 1/epsilon ("the same gradient")."""
    places = np.log(line.x)
    slope = float(np.polyfit(places, np.log(line.y), 1)[0])
    worst = max(each.error / each.expected for each in found.values())
    error = worst / math.sqrt(float(np.square(places - places.mean()).sum()))
    return sampled(f"{name}: slope in log-log axes", -1.0, "recomputed", slope, error)


def _privacy_figure(
    run: Run, name: str, title: str, chosen: dict[str, Dataset], better: str, worse: str
) -> Outcome:
    """Figures 5.2 and 5.3: the two bounds' MAE over epsilon, a panel for each data set."""
    rows: list[Row] = []
    panels = []
    for place, (label, data) in enumerate(chosen.items()):
        found = all_differences(run, data, place / len(chosen), (place + 1) / len(chosen))
        lines = tuple(_line(scheme, found[scheme]) for scheme in SCHEMES)
        y_label = f"MAE of |G| - |L| ({data.unit})"
        panels.append(Panel(label, _EPSILON_LABEL, y_label, lines))
        of_data: list[Row] = []
        below = all(found[better][each].value < found[worse][each].value for each in EPSILONS)
        of_data.append(trend(f"{data.name}: {better}'s MAE is the lower one throughout", below))
        for line in lines:
            of_data += [
                _slope(f"{data.name}, {line.name}", line, found[line.name]),
                _farthest(data.name, line, found),
            ]
        rows += marked(of_data, stand_in=data.stand_in)
    plot = Plot(name, title, tuple(panels))
    return Outcome(tuple(rows), (plot,), provenance(tuple(chosen.values())), NOTES)


def _farthest(name: str, line: Line, found: dict[str, dict[int, Measured]]) -> Row:
    """The point of a line that lies farthest from its expectation, as their ratio."""
    points = found[line.name].values()
    worst = max(points, key=lambda each: abs(each.value - each.expected) / each.error)
    words = f"{name}, {line.name}: value over expectation, farthest point of the line"
    ratio, error = worst.value / worst.expected, worst.error / worst.expected
    return sampled(words, 1.0, "recomputed", ratio, error)


def figure_5_2(run: Run) -> Outcome:
    """MovieLens: (a) counting, (b) summation."""
    summed, counted, _ = datasets(run)
    chosen = {"(a) counting": counted, "(b) summation": summed}
    title = f"Noise of the global budget against the curators': {summed.marginals.name}"
    return _privacy_figure(run, "fig-5.2", title, chosen, "ThisWork", "MaxEpsilon")


def figure_5_3(run: Run) -> Outcome:
    """ElectricityLoadDiagrams, summation."""
    _, _, meters = datasets(run)
    title = f"Noise of the global budget against the curators': {meters.marginals.name}"
    chosen = {"summation": meters}
    return _privacy_figure(run, "fig-5.3", title, chosen, "MaxEpsilon", "ThisWork")


def figure_5_4(run: Run) -> Outcome:
    """The curators' noise: (a) MovieLens, (b) electricity; and `distributed` for comparison."""
    summed, _, meters = datasets(run)
    rows: list[Row] = []
    panels = []
    for place, (label, data) in enumerate((("(a)", summed), ("(b)", meters))):
        found = all_injections(run, data)
        lines = [_line(scheme, found[scheme]) for scheme in found]
        below = all(
            found["ThisWork"][each].value < found["SumEpsilon"][each].value for each in EPSILONS
        )
        of_data = [trend(f"{data.name}: ThisWork injects less", below)]
        for line in lines:
            of_data += [
                _slope(f"{data.name}, {line.name}", line, found[line.name]),
                _farthest(data.name, line, found),
            ]
        for corrupt in (0, AGGREGATORS - 1):
            line, error = _distributed_line(run, data, corrupt)
            assert line.expected is not None
            of_data.append(
                sampled(
                    f"{data.name}, {line.name}: mean absolute noise at epsilon 10",
                    line.expected[0],
                    "recomputed",
                    line.y[0],
                    line.expected[0] * error,
                )
            )
            lines.append(line)
        rows += marked(of_data, stand_in=data.stand_in)
        panels.append(
            Panel(
                f"{label} {data.marginals.name}",
                _EPSILON_LABEL,
                f"mean absolute noise ({data.unit})",
                tuple(lines),
            )
        )
        run.progress((place + 1) / 2)
    plot = Plot("fig-5.4", "Noise in a sum, by scheme", tuple(panels))
    return Outcome(tuple(rows), (plot,), provenance((summed, meters)), NOTES)


def _distributed_line(run: Run, data: Dataset, corrupt: int) -> tuple[Line, float]:
    """`distributed` at the aggregators, with the global sensitivity: it hides a whole curator; and
    the relative standard error of its points."""
    name = f"distributed (curator unit), t_s = {corrupt} of {AGGREGATORS}"
    repetitions = run.effort.repetitions(REPETITIONS)
    values, expected = [], []
    for epsilon in EPSILONS:
        layers = distributed(data.global_sensitivity, Fraction(epsilon), AGGREGATORS, corrupt)
        source = run.source(data.name, name, epsilon)
        noise = exact_total(layers, data.resolution, source, repetitions)
        values.append(float(np.abs(noise).mean()))
        expected.append(expected_absolute(layers))
    line = Line(name, tuple(map(float, EPSILONS)), tuple(values), tuple(expected), "ours")
    return line, sampling_error(layers, repetitions)


_SOURCE: Final = "Lu's thesis"
EXPERIMENTS: Final = (
    Experiment(
        "fig-5.2",
        f"{_SOURCE}, Figure 5.2; Lu & Shen, Figure 2",
        "Table 5.3 on MovieLens",
        2,
        figure_5_2,
    ),
    Experiment(
        "fig-5.3",
        f"{_SOURCE}, Figure 5.3; Lu & Shen, Figure 3",
        "Table 5.3 on electricity",
        5,
        figure_5_3,
    ),
    Experiment(
        "fig-5.4",
        f"{_SOURCE}, Figure 5.4; Lu & Shen, Figure 4",
        "Table 5.4, and `distributed` beside it",
        7,
        figure_5_4,
    ),
)
