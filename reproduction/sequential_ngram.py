"""Chen's thesis, section 6.4: errors of count queries (Figures 6.7 to 6.11), n-grams and prefix
trees.

Spec: sequential-ngram, section 5. The text prints no figures of these plots: what it says in words
is `printed`, figures are the spec's recomputation, on the whole MSNBC file alone. The trips of the
source are not public: its statements on them are shown on a stand-in, as trends. "Query size 8" of
Figures 6.9 and 6.10 must mean at most 8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from reproduction.experiment import (
    Experiment,
    Floats,
    Outcome,
    Row,
    Run,
    pooled,
    quoted,
    sampled,
    trend,
)
from reproduction.sequential_ngram_data import STM_SEQUENCES, msnbc, stm_like
from reproduction.sequential_ngram_study import (
    BASELINE,
    PAPER,
    SIZES,
    SOUND,
    Measured,
    Method,
    Study,
)
from simulation.plots import Kind, Line, Panel, Plot

EPSILONS: Final = ("0.1", "1")
HEIGHTS: Final = (5, 8, 12, 20)
QUERIES: Final = 10_000
RUNS: Final = 3
QUICK_QUERIES: Final = 2_000
PROTOTYPE_RUNS: Final = 3
SIZE_8: Final = SIZES.index(8)
L_SWEEP: Final = (4, 8, 12, 16, 20, 24)
N_SWEEP: Final = (2, 3, 4, 5, 6, 7)
QUICK_SWEEPS: Final = {"l_max": (4, 20, 24), "n_max": (2, 5, 7)}
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


def study_of(name: str, run: Run, *, whole: bool = False) -> Study:
    """MSNBC, or the stand-in for trips: a quick run takes fewer queries, and a tenth of the trips
    unless the whole of them is asked for."""
    quick = run.effort.divisor > 1
    divisor = 1 if whole or not quick else run.effort.divisor
    population = msnbc(run.data) if name == "MSNBC" else stm_like(STM_SEQUENCES // divisor)
    return Study(population, QUICK_QUERIES if quick else QUERIES)


def runs_of(run: Run) -> int:
    """At least two, which differ."""
    return RUNS if run.effort.divisor == 1 else 2


def compared(
    name: str,
    expected: float,
    runs: Floats,
    study: Study,
    *,
    queries: float = 0.0,
    rounding: float,
    deviation: float | None = None,
) -> Row:
    """A mean of runs (n,) against a figure of the spec, where the data are those of the figure.

    queries: the relative error that drawing the queries adds; deviation: of one run.
    """
    text, mean = f"{study.population.name}, {name}", float(runs.mean())
    if not study.population.real:
        return quoted(f"{text} (recomputed: {expected})", round(mean, 4), stand_in=True)
    spread = float(runs.std(ddof=1)) if deviation is None else deviation
    between = spread * math.sqrt(1 / len(runs) + 1 / PROTOTYPE_RUNS)
    error = math.hypot(between, queries * mean)
    return sampled(text, expected, "recomputed", mean, error, rounding=rounding)


def said(name: str, holds: object, study: Study) -> Row:
    """What the source says in words, or the spec; on data that are not its own it is shown."""
    text = f"{study.population.name}: {name}"
    return trend(text, holds) if study.population.real else quoted(text, bool(holds), stand_in=True)


def repeated(study: Study, epsilon: str, method: Method, runs: int) -> Measured:
    """All runs."""
    return stacked([study.ngrams(epsilon, method, seed) for seed in range(1, runs + 1)])


def best_prefix(study: Study, epsilon: str, runs: int) -> Measured:
    """Of the heights the one with the least error of short queries."""
    found = [
        stacked([study.prefix(epsilon, height, seed) for seed in range(1, runs + 1)])
        for height in HEIGHTS
    ]
    return min(found, key=lambda each: float(each.errors[:, 0].mean()))


def stacked(found: Sequence[Measured]) -> Measured:
    """Runs, one below the other."""
    return Measured(
        np.array([each.errors for each in found]),
        np.array([each.positives for each in found]),
        np.array([each.losses for each in found]),
    )


def saved(errors: Floats, others: Floats) -> Floats:
    """By how much errors are below others, in % of these; 0 where there are none."""
    less = np.zeros(others.size)
    np.divide(100 * (others - errors), others, out=less, where=others > 0)
    return less


def line(name: str, x: Sequence[float], y: Floats, kind: Kind = "source") -> Line:
    """A line of a plot."""
    return Line(name, tuple(map(float, x)), tuple(map(float, y)), kind=kind)


def _error_row(
    name: str, expected: float, runs: Floats, place: int, study: Study, *, stand_in: bool
) -> Row:
    """The spec has no figures of the stand-in for trips."""
    if stand_in:
        mean = round(float(runs[:, place].mean()), 4)
        return quoted(f"{study.population.name}, {name}", mean, stand_in=True)
    return compared(
        name,
        expected,
        runs[:, place],
        study,
        queries=float(study.query_errors[place]),
        rounding=0.05,
        deviation=pooled(runs) * expected,
    )


def _by_size(run: Run, which: str, number: str) -> Outcome:
    """Figures 6.7 and 6.8: errors by size of queries and epsilon."""
    study = study_of(which, run)
    runs = runs_of(run)
    step_done = run.counted(1 + len(EPSILONS) * (len(METHODS) + 1))
    base = 100 * study.ngrams("1", BASELINE).errors if which == "MSNBC" else None
    step_done()
    rows, panels = [], []
    for epsilon in EPSILONS:
        by_run: dict[str, Floats] = {}
        for name, method in METHODS.items():
            by_run[name] = 100 * repeated(study, epsilon, method, runs).errors
            step_done()
        by_run[PREFIX] = 100 * best_prefix(study, epsilon, 2).errors
        step_done()
        for name, each in by_run.items():
            expected = REFERENCE[epsilon, name]
            rows += [
                _error_row(
                    f"epsilon {epsilon}, {name}: mean relative error in %, up to {size} items",
                    expected[place],
                    each,
                    place,
                    study,
                    stand_in=which != "MSNBC",
                )
                for place, size in enumerate(SIZES)
            ]
        found = {name: each.mean(axis=0) for name, each in by_run.items()}
        less = saved(found["n-grams (paper)"], found[PREFIX])
        smaller = f"epsilon {epsilon}, n-grams have the smaller error"
        if which == "MSNBC":
            rows.append(said(smaller, (less > 0).all(), study))
        elif epsilon == "1":
            text = f"{study.population.name}: {smaller}"
            rows.append(trend(text, (less > 0).all(), stand_in=True))
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
    figure_of: Callable[[Measured], Floats],
    what: str,
    rows_of: Callable[[Study, dict[int, Measured]], list[Row]],
) -> Outcome:
    """One figure of both populations over places of an axis, at epsilon 1; a quick run takes some
    of them."""
    runs = runs_of(run)
    if run.effort.divisor > 1:
        places = QUICK_SWEEPS[axis]
    studies = [study_of(name, run) for name in ("MSNBC", "STM")]
    step_done = run.counted(len(studies) * len(places))
    rows, panels = [], []
    for study in studies:
        found = {}
        for place in places:
            found[place] = repeated(study, "1", method_of(place), runs)
            step_done()
        values = np.array([float(figure_of(each).mean()) for each in found.values()])
        rows += rows_of(study, found)
        rows += [
            quoted(
                f"{study.population.name}, {axis} {place}: {what}",
                round(float(value), 4),
                stand_in=not study.population.real,
            )
            for place, value in zip(places, values, strict=True)
        ]
        panels.append(
            Panel(
                study.population.name,
                axis,
                what,
                (line("n-grams (sound)", places, values, "ours"),),
                y_scale="linear",
            )
        )
    title = f"{what[0].upper()}{what[1:]} by {axis}, epsilon = 1"
    data = tuple(study.population.provenance for study in studies)
    return Outcome(tuple(rows), (Plot(number, title, tuple(panels)),), data, NOTES[:1])


def _error_rows(
    axis: str, reference: dict[int, float]
) -> Callable[[Study, dict[int, Measured]], list[Row]]:
    def rows_of(study: Study, found: dict[int, Measured]) -> list[Row]:
        errors = {place: 100 * each.errors[:, SIZE_8] for place, each in found.items()}
        least, most = min(errors), max(errors)
        name = study.population.name
        if not study.population.real:
            falls = errors[least].mean() > errors[most].mean()
            text = f"{name}: the error falls with l_max"
            return [trend(text, falls, stand_in=True)] if axis == "l_max" else []
        spread = pooled(np.array(list(errors.values())).T)
        rows = [
            compared(
                f"{axis} {place}: {_WHAT}",
                reference[place],
                runs,
                study,
                queries=float(study.query_errors[SIZE_8]),
                rounding=0.05,
                deviation=spread * reference[place],
            )
            for place, runs in errors.items()
        ]
        if axis == "l_max":
            flat = abs(errors[most].mean() / errors[20].mean() - 1) <= 0.1
            rows.append(said("the error hardly changes beyond l_max 20", flat, study))
        return rows

    return rows_of


def by_l_max(place: int) -> Method:
    """Grams of up to 5 items."""
    return Method(l_max=place, n_max=min(place, 5))


def by_n_max(place: int) -> Method:
    """Sequences of up to 20 items."""
    return Method(n_max=place)


def _error(found: Measured) -> Floats:
    return 100 * found.errors[:, SIZE_8]


_WHAT: Final = "relative error (%), up to 8 items"
_L_ROWS: Final = _error_rows("l_max", L_REFERENCE)
_N_ROWS: Final = _error_rows("n_max", N_REFERENCE)


def figure_6_9(run: Run) -> Outcome:
    """Error by l_max."""
    return swept(run, "chen-fig-6.9", "l_max", L_SWEEP, by_l_max, _error, _WHAT, _L_ROWS)


def figure_6_10(run: Run) -> Outcome:
    """Error by n_max."""
    return swept(run, "chen-fig-6.10", "n_max", N_SWEEP, by_n_max, _error, _WHAT, _N_ROWS)


def figure_6_11(run: Run) -> Outcome:
    """What estimating the counts that did not pass is worth."""
    runs = runs_of(run)
    step_done = run.counted(2 * len(EPSILONS) * 3)
    rows, panels, data = [], [], []
    for which in ("MSNBC", "STM"):
        study = study_of(which, run)
        data.append(study.population.provenance)
        lines = []
        for epsilon in EPSILONS:
            found = {}
            for name, method in (("ratio", PAPER), ("leftover", SOUND), ("none", NO_FILL)):
                found[name] = 100 * repeated(study, epsilon, method, runs).errors.mean(axis=0)
                kind: Kind = "ours" if name == "leftover" else "source"
                lines.append(line(f"epsilon {epsilon}, {name}", SIZES, found[name], kind))
                step_done()
            gain = saved(found["ratio"], found["none"])
            text = f"epsilon {epsilon}, ratio has a smaller error than none for every size"
            rows.append(
                said(text, (gain > 0).all(), study)
                if which == "MSNBC"
                else trend(f"{study.population.name}: {text}", (gain > 0).all(), stand_in=True)
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


NEEDED: Final = "the click paths of MSNBC, msnbc990928.seq.gz (--data)"


def figure(number: int, title: str, seconds: int, work: Callable[[Run], Outcome]) -> Experiment:
    """The entry of a figure of section 6.4."""
    name = f"6.{number}"
    return Experiment(
        f"chen-fig-{name}", f"Chen's thesis, Figure {name}", title, seconds, work, NEEDED
    )


EXPERIMENTS: Final = (
    figure(7, "relative error by epsilon and size of queries, MSNBC", 20, figure_6_7),
    figure(8, "relative error by epsilon and size of queries, trips", 25, figure_6_8),
    figure(9, "relative error by l_max", 40, figure_6_9),
    figure(10, "relative error by n_max", 100, figure_6_10),
    figure(11, "relative error with and without estimated counts", 40, figure_6_11),
)
