"""Chen's thesis, section 6.4: errors of count queries (Figures 6.7 to 6.11), n-grams and prefix
trees.

Spec: sequential-ngram, section 5. The text prints no figures of these plots: what it says in words
is `printed`, figures are the spec's recomputation, on the whole MSNBC file alone. The trips of the
source are not public: its statements on them are shown on a stand-in, as trends. "Query size 8" of
Figures 6.9 and 6.10 must mean at most 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from simulation.experiments.experiment import Basis, Effort, Experiment, Outcome, Row, Run
from simulation.experiments.sequential_ngram_data import STM_SEQUENCES, msnbc, stm_like
from simulation.experiments.sequential_ngram_study import (
    BASELINE,
    PAPER,
    SIZES,
    SOUND,
    Floats,
    Measured,
    Method,
    Study,
    mean,
)
from simulation.plots import Kind, Line, Panel, Plot

EPSILONS: Final = ("0.1", "1")
HEIGHTS: Final = (5, 8, 12, 20)
QUERIES: Final = 10_000
RUNS: Final = 3
WITHIN: Final = 0.2
"""Of the spec's figure; the queries are other ones."""
SIZE_8: Final = SIZES.index(8)
L_SWEEP: Final = (4, 8, 12, 16, 20, 24)
N_SWEEP: Final = (2, 3, 4, 5, 6, 7)
NO_FILL: Final = Method("paper", "none")
METHODS: Final = {"n-grams (paper)": PAPER, "n-grams (sound)": SOUND}
PREFIX: Final = "prefix tree, best height"
NOTES: Final = (
    "Most random queries are 0 in the data and in the release: the error falls with the size of "
    "the queries by construction.",
    "The prefix tree has the best of four heights, found by looking at the error on the data: a "
    "favour to the baseline that no private run can have.",
)

REFERENCE: Final[dict[tuple[str, str], tuple[float, ...]]] = {
    ("1", "n-grams (paper)"): (9.7, 4.8, 3.2, 2.4, 2.0),
    ("1", "n-grams (sound)"): (9.5, 4.8, 3.2, 2.4, 2.1),
    ("1", PREFIX): (19.9, 10.1, 6.6, 5.0, 4.2),
    ("0.1", "n-grams (paper)"): (17.6, 8.8, 5.9, 4.5, 3.6),
    ("0.1", "n-grams (sound)"): (17.0, 8.3, 5.6, 4.3, 3.6),
    ("0.1", PREFIX): (25.5, 12.7, 8.4, 6.5, 5.3),
}
"""Relative error in percent."""
L_REFERENCE: Final = dict(zip(L_SWEEP, (14.0, 9.0, 6.8, 5.6, 5.1, 5.0), strict=True))
N_REFERENCE: Final = dict(zip(N_SWEEP, (4.4, 4.2, 4.7, 5.1, 5.2, 5.4), strict=True))


def study_of(name: str, run: Run) -> Study:
    """MSNBC, or the stand-in for trips; a quick run takes a tenth of both."""
    effort = run.effort
    population = (
        msnbc(run.data, effort.divisor)
        if name == "MSNBC"
        else stm_like(max(STM_SEQUENCES // effort.divisor, 1))
    )
    return Study(population, effort.repetitions(QUERIES))


def reproducible(study: Study, effort: Effort) -> bool:
    """Whether the figures are those of the source: on its own data, all of them."""
    return study.population.real and effort.divisor == 1


def compared(
    name: str, expected: float, measured: float, tolerance: float, study: Study, effort: Effort
) -> Row:
    """A figure of the spec where it can come out, else a trend."""
    text = f"{study.population.name}, {name}"
    if reproducible(study, effort):
        return Row(text, expected, "recomputed", round(measured, 4), tolerance)
    return Row(text, None, "quoted", round(measured, 4))


def said(name: str, holds: object, study: Study, effort: Effort, basis: Basis = "printed") -> Row:
    """What the source says in words, or (recomputed) the spec."""
    text = f"{study.population.name}: {name}"
    if reproducible(study, effort):
        return Row(text, True, basis, bool(holds))
    return Row(text, None, "quoted", bool(holds))


def repeated(study: Study, epsilon: str, method: Method, runs: int) -> Measured:
    """Mean over runs."""
    return mean([study.ngrams(epsilon, method, seed) for seed in range(1, runs + 1)])


def best_prefix(study: Study, epsilon: str, runs: int) -> Measured:
    """Of the heights the one with the least error of short queries."""
    found = [
        mean([study.prefix(epsilon, height, seed) for seed in range(1, runs + 1)])
        for height in HEIGHTS
    ]
    return min(found, key=lambda each: float(each.errors[0]))


def saved(errors: Floats, others: Floats) -> Floats:
    """By how much errors are below others, in % of these; 0 where there are none."""
    less = np.zeros(others.size)
    np.divide(100 * (others - errors), others, out=less, where=others > 0)
    return less


def line(name: str, x: Sequence[float], y: Floats, kind: Kind = "source") -> Line:
    """A line of a plot."""
    return Line(name, tuple(map(float, x)), tuple(map(float, y)), kind=kind)


def _by_size(run: Run, which: str, number: str) -> Outcome:
    """Figures 6.7 and 6.8: errors by size of queries and epsilon."""
    study = study_of(which, run)
    runs = run.effort.repetitions(RUNS)
    told = run.counted(1 + len(EPSILONS) * (len(METHODS) + 1))
    base = 100 * study.ngrams("1", BASELINE).errors if which == "MSNBC" else None
    told()
    rows, panels = [], []
    for epsilon in EPSILONS:
        found: dict[str, Floats] = {}
        for name, method in METHODS.items():
            found[name] = 100 * repeated(study, epsilon, method, runs).errors
            told()
        found[PREFIX] = 100 * best_prefix(study, epsilon, run.effort.repetitions(2)).errors
        told()
        for name, errors in found.items():
            expected = REFERENCE[epsilon, name]
            rows += [
                compared(
                    f"epsilon {epsilon}, {name}: mean relative error in %, up to {size} items",
                    expected[place],
                    float(errors[place]),
                    WITHIN,
                    study,
                    run.effort,
                )
                for place, size in enumerate(SIZES)
            ]
        less = saved(found["n-grams (paper)"], found[PREFIX])
        rows.append(
            said(
                f"epsilon {epsilon}, n-grams have the smaller error",
                (less > 0).all(),
                study,
                run.effort,
            )
        )
        rows.append(
            Row(
                f"{study.population.name}, epsilon {epsilon}: error of n-grams (paper) below the "
                "prefix tree's, mean of sizes, in % (printed: 32 to 63)",
                None,
                "quoted",
                round(float(less.mean()), 1),
            )
        )
        lines = [
            line(name, SIZES, errors, "ours" if "sound" in name else "source")
            for name, errors in found.items()
        ]
        if base is not None:
            lines.append(line("n-grams without noise", SIZES, base, "bound"))
        panels.append(
            Panel(
                f"epsilon = {epsilon}",
                "items of a query, at most",
                "mean relative error (%)",
                tuple(lines),
            )
        )
    title = f"Relative error of count queries, {study.population.name}"
    return Outcome(
        tuple(rows), (Plot(number, title, tuple(panels)),), (study.population.provenance,), NOTES
    )


def figure_6_7(run: Run) -> Outcome:
    """On MSNBC."""
    return _by_size(run, "MSNBC", "chen-fig-6.7")


def figure_6_8(run: Run) -> Outcome:
    """On trips."""
    return _by_size(run, "STM", "chen-fig-6.8")


def swept(
    run: Run,
    number: str,
    axis: str,
    places: Sequence[int],
    method_of: Callable[[int], Method],
    figure_of: Callable[[Measured], float],
    what: str,
    reference: dict[int, float] | None,
) -> Outcome:
    """One figure of both populations over places of an axis, at epsilon 1."""
    runs = run.effort.repetitions(RUNS)
    studies = [study_of(name, run) for name in ("MSNBC", "STM")]
    told = run.counted(len(studies) * len(places))
    rows, panels = [], []
    for study in studies:
        found = []
        for place in places:
            found.append(figure_of(repeated(study, "1", method_of(place), runs)))
            told()
        for place, value in zip(places, found, strict=True):
            name = f"{axis} {place}: {what}"
            if reference is not None and study is studies[0]:
                rows.append(compared(name, reference[place], value, WITHIN, study, run.effort))
            else:
                text = f"{study.population.name}, {name}"
                rows.append(Row(text, None, "quoted", round(value, 4)))
        if study is studies[0] and axis == "l_max" and reference is not None:
            flat = abs(found[-1] - found[-2]) <= 0.1 * found[-2]
            rows.append(said("the error hardly changes beyond l_max 20", flat, study, run.effort))
        panels.append(
            Panel(
                study.population.name,
                axis,
                what,
                (line("n-grams (sound)", places, np.array(found), "ours"),),
                y_scale="linear",
            )
        )
    title = f"{what[0].upper()}{what[1:]} by {axis}, epsilon = 1"
    data = tuple(study.population.provenance for study in studies)
    return Outcome(tuple(rows), (Plot(number, title, tuple(panels)),), data, NOTES[:1])


def by_l_max(place: int) -> Method:
    """Grams of up to 5 items."""
    return Method(l_max=place, n_max=min(place, 5))


def by_n_max(place: int) -> Method:
    """Sequences of up to 20 items."""
    return Method(n_max=place)


def _error(found: Measured) -> float:
    return 100 * float(found.errors[SIZE_8])


_WHAT: Final = "relative error (%), up to 8 items"


def figure_6_9(run: Run) -> Outcome:
    """Error by l_max."""
    return swept(run, "chen-fig-6.9", "l_max", L_SWEEP, by_l_max, _error, _WHAT, L_REFERENCE)


def figure_6_10(run: Run) -> Outcome:
    """Error by n_max."""
    return swept(run, "chen-fig-6.10", "n_max", N_SWEEP, by_n_max, _error, _WHAT, N_REFERENCE)


def figure_6_11(run: Run) -> Outcome:
    """What estimating the counts that did not pass is worth."""
    runs = run.effort.repetitions(RUNS)
    told = run.counted(2 * len(EPSILONS) * 3)
    rows, panels, data = [], [], []
    for which in ("MSNBC", "STM"):
        study = study_of(which, run)
        data.append(study.population.provenance)
        lines = []
        for epsilon in EPSILONS:
            found = {}
            for name, method in (("ratio", PAPER), ("leftover", SOUND), ("none", NO_FILL)):
                found[name] = 100 * repeated(study, epsilon, method, runs).errors
                kind: Kind = "ours" if name == "leftover" else "source"
                lines.append(line(f"epsilon {epsilon}, {name}", SIZES, found[name], kind))
                told()
            gain = saved(found["ratio"], found["none"])
            rows.append(
                said(
                    f"epsilon {epsilon}, ratio has a smaller error than none for every size",
                    (gain > 0).all(),
                    study,
                    run.effort,
                )
            )
            rows.append(
                Row(
                    f"{study.population.name}, epsilon {epsilon}: error saved by ratio, the most "
                    "of all sizes, in % (printed: up to 47)",
                    None,
                    "quoted",
                    round(float(gain.max()), 1),
                )
            )
        panels.append(
            Panel(
                study.population.name,
                "items of a query, at most",
                "mean relative error (%)",
                tuple(lines),
            )
        )
    title = "Effect of estimating the counts that did not pass"
    return Outcome(
        tuple(rows), (Plot("chen-fig-6.11", title, tuple(panels)),), tuple(data), NOTES[:1]
    )


def figure(number: int, title: str, seconds: int, work: Callable[[Run], Outcome]) -> Experiment:
    """The entry of a figure of section 6.4."""
    name = f"6.{number}"
    return Experiment(f"chen-fig-{name}", f"Chen's thesis, Figure {name}", title, seconds, work)


EXPERIMENTS: Final = (
    figure(7, "relative error by epsilon and size of queries, MSNBC", 20, figure_6_7),
    figure(8, "relative error by epsilon and size of queries, trips", 25, figure_6_8),
    figure(9, "relative error by l_max", 40, figure_6_9),
    figure(10, "relative error by n_max", 100, figure_6_10),
    figure(11, "relative error with and without estimated counts", 40, figure_6_11),
)
