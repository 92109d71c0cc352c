"""Thesis, Figure 7.7: the final cost of private k-means methods over Lloyd's, by budget.

Spec: kmeans, sections 7.2, 7.4 and 8.1. In each run LLOYD, BLUM, DWORK, SU and both strategies of
the source start from the same random records. The x axis is the source's budget of one step; the
methods that take a total get what the posterior strategy then sums up to, as the source does, and
so does our sound form. Global sensitivities for the baselines: the source's local ones are not
private.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from algorithms.contract import SequentialContext
from algorithms.kmeans.algorithm import cost
from algorithms.kmeans.paper import Settings, Strategy, drawn_start, final_release
from algorithms.kmeans.paper import run as run_paper
from algorithms.kmeans.plan import make_plan
from algorithms.kmeans.sound_run import Rows, release, run_central
from reproduction.experiment import (
    Effort,
    Experiment,
    Outcome,
    Row,
    Run,
    marked,
    over_runs,
)
from reproduction.kmeans_baselines import blum, dwork, gupt, lloyd, priv_gene, su
from reproduction.kmeans_convergence import epsilons
from reproduction.kmeans_data import NAMES, Dataset, datasets
from simulation.plots import Line, Panel, Plot
from tacit.encoders.kmeans import Floats, Grid
from tacit.randomness import SeededRandom

RUNS: Final = 300
FEWER_RUNS: Final = {"Iris": 1, "House": 3, "S1": 3, "Birch2": 5, "Image": 10, "Lifesci": 20}
FEWEST_RUNS: Final = 5
QUICK_SETS: Final = ("Iris", "S1", "Birch2")
GENETIC_SETS: Final = ("Iris", "S1")
GENETIC_RUNS: Final = 3
OURS: Final = "sound"
_MEAN_PASSES: Final = {"Iris": 7.2, "S1": 16.2, "Birch2": 17.0}
_SPEC_RUNS: Final = {"Iris": 100, "S1": 15, "Birch2": 15}

GAPS: Final[dict[tuple[str, float], dict[str, float]]] = {
    ("Iris", 0.1): {"prior": 0.947, "posterior": 0.889, "SU": 2.13, "BLUM": 8.22, OURS: 0.235},
    ("Iris", 0.5): {"prior": 0.051, "posterior": 0.062, "SU": 0.354, "BLUM": 1.82, OURS: -0.008},
    ("Iris", 1.0): {"prior": 0.006, "posterior": 0.018, "SU": 0.196, "BLUM": 0.844, OURS: -0.04},
    ("S1", 0.1): {"prior": 0.146, "posterior": 0.244, "SU": 0.581, "BLUM": 1.06, OURS: -0.499},
    ("S1", 0.5): {"prior": -0.066, "posterior": 0.01, "SU": 0.186, "BLUM": 0.191, OURS: -0.5},
    ("S1", 1.0): {"prior": -0.074, "posterior": 0.004, "SU": 0.112, "BLUM": 0.176, OURS: -0.5},
    ("Birch2", 0.1): {
        "prior": -0.001,
        "posterior": 0.001,
        "SU": 0.002,
        "BLUM": 0.016,
        OURS: -0.026,
    },
}
"""Cost over Lloyd's, minus 1: the spec's recomputation (the source prints a picture only)."""

NOTES: Final = (
    "The source's strategies are not differentially private for any epsilon; their place in the "
    "picture buys nothing.",
    "On S1 Lloyd's algorithm from random records ends at about twice the best cost, so most of the "
    "sound form's lead there is the better start that a noisy histogram allows.",
    "The box of the sound form is the data's own extremes, taken as declared, and n_hint is n, as "
    "the source's scaling has it. Grid, threshold and split were tuned on these same sets.",
    "The source drew with local sensitivities, which is not private; here they are global, which "
    "makes the baselines slightly noisier.",
    "A tolerance is four standard errors of both means, that of the specification's runs and ours.",
)


@dataclass(frozen=True, eq=False)
class Ratios:
    """Final cost over Lloyd's, per run, by method."""

    by_method: dict[str, Floats]

    def mean(self, method: str) -> float:
        """Of all runs."""
        return float(self.by_method[method].mean())

    def deviation(self, method: str) -> float:
        """Of one run."""
        return float(self.by_method[method].std(ddof=1))


def runs_of(name: str, effort: Effort) -> int:
    """How many runs of a data set."""
    return max(FEWEST_RUNS, effort.repetitions(RUNS) // FEWER_RUNS[name])


def sound_centres(data: Dataset, epsilon: Fraction, seed: int) -> Floats:
    """Our sound form at this budget, with the data's size and extremes taken as public."""
    count, dimension = data.points.shape
    plan = make_plan(size=count, dimension=dimension, clusters=data.clusters, epsilon=epsilon)
    grid = Grid((0.0,) * dimension, (1.0,) * dimension, plan.steps)
    context = SequentialContext(test_seed=seed)
    return grid.raw(release(run_central(Rows(data.points), grid, plan, seed, context)).centres)


def measure(run: Run, data: Dataset, epsilon: float) -> Ratios:
    """All methods on one data set at one budget of a step."""
    source = run.source("fig-7.7", data.name, epsilon)
    rows = [
        _one_run(data, epsilon, source, place) for place in range(runs_of(data.name, run.effort))
    ]
    found = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    if run.effort.divisor == 1 and data.name in GENETIC_SETS:
        total = epsilon * (1 + _MEAN_PASSES[data.name])
        found["PrivGene"] = _genetic(data, total, source)
    return Ratios(found)


def _one_run(data: Dataset, epsilon: float, source: SeededRandom, place: int) -> dict[str, float]:
    points, clusters = data.points, data.clusters
    start = drawn_start(points, clusters, source.generator)
    exact = cost(points, lloyd(points, start).centres)
    centres: dict[str, Floats] = {}
    passes = 0
    strategies: tuple[Strategy, ...] = ("prior", "posterior")
    for strategy in strategies:
        found = run_paper(points, start, Settings(epsilon, strategy), source.generator)
        centres[strategy] = final_release(points, found, epsilon, source)[0]
        passes = found.passes
    total = (passes + 1) * epsilon
    centres["SU"] = su(points, start, total, source)
    centres["BLUM"] = blum(points, start, total, source)
    centres["DWORK"] = dwork(points, start, total, source)
    centres["GUPT (one step)"] = gupt(points, clusters, epsilon, source)
    centres["GUPT (total)"] = gupt(points, clusters, total, source)
    centres[OURS] = sound_centres(data, Fraction(round(1000 * total), 1000), place)
    return {name: cost(points, each) / exact for name, each in centres.items()}


def _genetic(data: Dataset, total: float, source: SeededRandom) -> Floats:
    points, ratios = data.points, []
    for _ in range(GENETIC_RUNS):
        start = drawn_start(points, data.clusters, source.generator)
        exact = cost(points, lloyd(points, start).centres)
        ratios.append(cost(points, priv_gene(points, data.clusters, total, source)) / exact)
    return np.array(ratios)


def figure_7_7(run: Run) -> Outcome:
    """Every data set and budget; a quick run takes three sets and three budgets."""
    names = NAMES if run.effort.divisor == 1 else QUICK_SETS
    chosen, budgets = datasets(run.data, names), epsilons(run.effort)
    rows: list[Row] = []
    panels: list[Panel] = []
    for at, data in enumerate(chosen):
        found: dict[float, Ratios] = {}
        for number, epsilon in enumerate(budgets):
            found[epsilon] = measure(run, data, epsilon)
            run.progress((at + (number + 1) / len(budgets)) / len(chosen))
        of_data = _order(data.name, found[budgets[0]])
        for place, epsilon in enumerate(budgets):
            noisier = found[budgets[max(place - 1, 0)]]
            of_data += _rows(data.name, epsilon, found[epsilon], noisier)
        rows += marked(of_data, stand_in=data.stand_in)
        panels.append(_panel(data.name, found))
    plot = Plot("fig-7.7", "Final cost over that of Lloyd's algorithm", tuple(panels))
    return Outcome(tuple(rows), (plot,), tuple(data.provenance for data in chosen), NOTES)


def _rows(name: str, epsilon: float, found: Ratios, noisier: Ratios) -> list[Row]:
    """A run in many ends in another optimum than Lloyd's, which few runs may not show: a mean has
    no smaller deviation than at the budget before, which is noisier."""
    expected = GAPS.get((name, epsilon))
    if expected is None:
        return []
    return [
        over_runs(
            f"{name}, {method}: cost over Lloyd's at epsilon {epsilon} a step",
            1 + gap,
            found.by_method[method].tolist(),
            reference=_SPEC_RUNS[name],
            rounding=0.0005,
            deviation=max(found.deviation(method), noisier.deviation(method)),
        )
        for method, gap in expected.items()
    ]


def _order(name: str, found: Ratios) -> list[Row]:
    """The source's message, and ours, at the smallest budget, where methods lie far apart."""
    if name not in ("Iris", "S1"):
        return []
    theirs = max(found.mean("prior"), found.mean("posterior"))
    others = min(found.mean(each) for each in ("SU", "BLUM", "DWORK", "GUPT (one step)"))
    rest = min(found.mean(each) for each in found.by_method if each != OURS)
    return [
        Row(
            f"{name}: both strategies cost less than every baseline at epsilon 0.1 a step",
            True,
            "trend",
            theirs < others,
        ),
        Row(
            f"{name}: the sound form costs least of all at epsilon 0.1 a step",
            True,
            "trend",
            found.mean(OURS) < rest,
        ),
    ]


def _panel(name: str, found: dict[float, Ratios]) -> Panel:
    methods = next(iter(found.values())).by_method
    lines = tuple(
        Line(
            method,
            tuple(found),
            tuple(each.mean(method) for each in found.values()),
            kind="ours" if method == OURS else "source",
        )
        for method in methods
    )
    return Panel(name, "epsilon of a step", "cost over Lloyd's", lines)


EXPERIMENTS: Final = (
    Experiment(
        "fig-7.7",
        "Lu's thesis, Figure 7.7",
        "cost of private k-means methods over Lloyd's, by budget",
        900,
        figure_7_7,
    ),
)
