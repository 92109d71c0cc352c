"""Chen's thesis, Figures 7.6 to 7.8: degree distributions by epsilon and by k, and run time.

Spec: graph-der, sections 5 and 7. The figures print no numbers; rows carry the specification's.
"""

from __future__ import annotations

import time
from typing import Final

import numpy as np

from algorithms.graph_der.evaluation import Ends
from reproduction.experiment import (
    Experiment,
    Floats,
    Outcome,
    Row,
    Run,
    marked,
    over_runs,
    pooled,
    quoted,
    trend,
)
from reproduction.graph_der import (
    EPSILONS,
    GROUPS,
    PROTOTYPE_RUNS,
    RUNS,
    STANCES,
    queries,
    runs_of,
)
from reproduction.graph_der_printed import DIVERGENCES
from reproduction.graph_der_study import STAND_IN, Study, studies
from simulation.plots import Line, Panel, Plot

EXACT: Final = 1e-3
PARTS: Final = (0.2, 0.4, 0.6, 0.8, 1.0)
NOTES: Final = (
    "Kullback-Leibler in nats of the true degree distribution from the released one, both smoothed "
    "by one vertex spread over all degrees: the source does not say how it avoids log 0.",
    "Step 4; labels by first appearance, which sound refuses in a job.",
)
TIMES: Final = (
    "Processor seconds on this machine, the best of two; the source's are of C++ on a Core 2.",
)


def figure_7_6(run: Run) -> Outcome:
    """Divergence by epsilon."""
    found = studies(run.data)
    rows, panels = [], []
    for number, study in enumerate(found):
        by_run = _divergences(run, study, [(epsilon, 1) for epsilon in EPSILONS])
        lines = {stance: each.mean(axis=0).tolist() for stance, each in by_run.items()}
        of_data: list[Row] = []
        empty: Ends = (study.graph.first[:0], study.graph.second[:0])
        flat = {
            "random": study.divergence(study.random),
            "laplace": study.divergence(study.noisy_cells("1")),
            "empty": study.divergence(empty),
        }
        values = {"paper": lines["paper"][-1], "sound": lines["sound"][-1], **flat}
        for name, value in values.items():
            expected = DIVERGENCES.get((study.name, name))
            text = f"{study.name}, {name}, epsilon 1"
            if expected is None or (study.stand_in and name in STANCES):
                of_data.append(quoted(text, value))
            elif name in by_run:
                of_data.append(_divergence_row(text, expected, by_run[name]))
            elif name == "random":
                others = [study.divergence(study.uniform(seed)) for seed in runs_of(run)]
                of_data.append(
                    over_runs(
                        text, expected, others, reference=PROTOTYPE_RUNS, rounding=_place(expected)
                    )
                )
            else:
                of_data.append(Row(text, expected, "recomputed", value, EXACT))
        text = f"{study.name}: noise on every cell is about as bad as an empty graph"
        alike = abs(flat["laplace"] / flat["empty"] - 1) < 0.05
        if study.name == STAND_IN:
            of_data.append(quoted(text, flat["laplace"] / flat["empty"]))
        else:
            of_data.append(trend(text, alike))
        for stance in STANCES:
            nearer = lines[stance][-1] < flat["random"]
            text = f"{study.name}, {stance}, epsilon 1: nearer than a random graph"
            of_data.append(trend(text, nearer))
        rows += marked(of_data, stand_in=study.stand_in)
        everywhere = {
            f"{name}, epsilon 1" if name == "laplace" else name: [value] * len(EPSILONS)
            for name, value in flat.items()
        }
        places = tuple(map(float, EPSILONS))
        panels.append(_panel(study.name, "epsilon", places, lines | everywhere))
        run.progress((number + 1) / len(found))
    plot = Plot("chen-fig-7.6", "Divergence of degrees by epsilon", tuple(panels))
    return Outcome(tuple(rows), (plot,), tuple(each.provenance for each in found), NOTES)


def figure_7_7(run: Run) -> Outcome:
    """Divergence by k."""
    found = studies(run.data)
    rows, panels = [], []
    for number, study in enumerate(found):
        by_run = _divergences(run, study, [("1", k) for k in GROUPS])
        lines = {stance: each.mean(axis=0).tolist() for stance, each in by_run.items()}
        random = study.divergence(study.random)
        rows += [
            Row(f"{study.name}, {name}, k {k}", None, "quoted", value)
            for name, values in lines.items()
            for k, value in zip(GROUPS, values, strict=True)
        ]
        of_data = []
        for stance in STANCES:
            text = f"{study.name}, {stance}, k 1: nearer than a random graph"
            of_data.append(trend(text, lines[stance][0] < random))
        text = f"{study.name}, paper, k 25: still nearer than a random graph"
        if study.stand_in:  # of a few thousand links nothing is left at k 25
            of_data.append(quoted(text, lines["paper"][-1] < random))
        else:
            of_data.append(trend(text, lines["paper"][-1] < random))
        rows += marked(of_data, stand_in=study.stand_in)
        lines["random"] = [random] * len(GROUPS)
        panels.append(_panel(study.name, "k", tuple(map(float, GROUPS)), lines))
        run.progress((number + 1) / len(found))
    plot = Plot("chen-fig-7.7", "Divergence of degrees by k", tuple(panels))
    return Outcome(tuple(rows), (plot,), tuple(each.provenance for each in found), NOTES)


def _divergences(run: Run, study: Study, budgets: list[tuple[str, int]]) -> dict[str, Floats]:
    """By stance, (runs, budgets)."""
    return {
        stance: np.array(
            [
                [study.divergence(study.release(stance, e, k, seed)) for e, k in budgets]
                for seed in runs_of(run)
            ]
        )
        for stance in STANCES
    }


def _divergence_row(name: str, expected: float, runs: Floats) -> Row:
    """Of the last budget; its deviation is that of all of them, relative."""
    return over_runs(
        name,
        expected,
        runs[:, -1].tolist(),
        reference=PROTOTYPE_RUNS,
        rounding=_place(expected),
        deviation=pooled(runs) * expected,
    )


def _place(expected: float) -> float:
    """Half a unit of the last of an expected figure's places: one from 10 on, else two."""
    return 0.05 if expected >= 10 else 0.005


def figure_7_8(run: Run) -> Outcome:
    """Run time by vertices, step 1 and as printed; what a step of 10 saves and costs."""
    found = studies(run.data)
    rows, lines = [], []
    for number, study in enumerate(found):
        generator = np.random.default_rng(run.seed)
        study.release("paper", step=1)  # compiles
        taken = []
        for share in PARTS:
            part = study.sample(share, generator) if share < 1 else study
            taken.append(_seconds(part, 1))
        sizes = tuple(round(share * study.vertices) for share in PARTS)
        lines.append(Line(study.name, tuple(map(float, sizes)), tuple(taken)))
        text = f"{study.name}, step 1: seconds of the whole (printed: roughly quadratic in |V|)"
        rows.append(Row(text, None, "quoted", taken[-1]))
        growth = taken[-1] / taken[1]
        text = f"{study.name}: time of all vertices over that of 0.4 of them (quadratic: 6.25)"
        rows.append(quoted(text, growth, stand_in=study.stand_in))
        text = (
            f"{study.name}: the time grows faster than the vertices, 2.5 times of which there are"
        )
        rows.append(trend(text, growth > 2.5, stand_in=study.stand_in))
        if study.name != STAND_IN:
            saved = taken[-1] / _seconds(study, 10)
            text = f"{study.name}: step 10 is faster by (printed: about 8)"
            rows.append(Row(text, None, "quoted", saved))
            text = f"{study.name}: errors at step 10 over those at step 1 (printed: 1.1)"
            rows.append(Row(text, None, "quoted", _worse(run, study)))
        run.progress((number + 1) / len(found))
    panel = Panel("stance paper, step 1", "vertices", "seconds", tuple(lines))
    plot = Plot("chen-fig-7.8", "Run time by vertices", (panel,))
    return Outcome(tuple(rows), (plot,), tuple(each.provenance for each in found), TIMES)


def _seconds(study: Study, step: int) -> float:
    taken = []
    for _ in range(2):
        start = time.process_time()
        study.release("paper", step=step)
        taken.append(time.process_time() - start)
    return min(taken)


def _worse(run: Run, study: Study) -> float:
    runs = range(run.effort.repetitions(RUNS // 2))
    graphs = [study.release("paper", seed=seed, step=step) for step in (1, 10) for seed in runs]
    errors = study.errors(graphs, round(0.4 * study.vertices), queries(run), "range")
    return float(np.mean(errors[len(runs) :]) / np.mean(errors[: len(runs)]))


def _panel(title: str, axis: str, x: tuple[float, ...], lines: dict[str, list[float]]) -> Panel:
    return Panel(
        title,
        axis,
        "divergence (nats)",
        tuple(
            Line(
                f"DER, {name}" if name in STANCES else name,
                x,
                tuple(values),
                kind="ours" if name == "sound" else "source",
            )
            for name, values in lines.items()
        ),
    )


EXPERIMENTS: Final = (
    Experiment(
        "chen-fig-7.6",
        "Chen's thesis, Figure 7.6",
        "divergence of the degree distribution by epsilon, and of the baselines",
        60,
        figure_7_6,
    ),
    Experiment(
        "chen-fig-7.7",
        "Chen's thesis, Figure 7.7",
        "divergence of the degree distribution by k",
        140,
        figure_7_7,
    ),
    Experiment(
        "chen-fig-7.8",
        "Chen's thesis, Figure 7.8",
        "run time by vertices, and what a grid step of 10 saves",
        170,
        figure_7_8,
    ),
)
