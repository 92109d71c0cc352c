"""Chen's thesis, Figures 4.3, 4.4 and 4.6: relative errors by epsilon, fan-out and size.

Spec: set-valued, section 5. The text prints no figures: what it says in words is `printed`, the
figures are the spec's recomputation. The stand-ins are generated; the real MSNBC file is measured
besides where it is at hand. C1 and C2 are not given for any figure: those near the source's
suggestion explode on 1,012 items, hence C2 = 5, C1 = 3 where the paper stance is shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from reproduction.experiment import (
    Effort,
    Experiment,
    Floats,
    Outcome,
    Row,
    Run,
    marked,
    quoted,
    sampled,
    trend,
)
from reproduction.set_valued_study import Method, Study
from reproduction.stand_in_data import STM_RECORDS, msnbc, stm_like_concentrated, stm_like_diffuse
from simulation.plots import Kind, Line, Panel, Plot
from simulation.stand_in_data import MSNBC_RECORDS, msnbc_like

EPSILONS: Final = ("0.5", "0.75", "1", "1.25")
_MSNBC_LIKE: Final = "MSNBC-like"
GROUPS: Final = (20, 40, 60, 80, 100)
MIDDLE: Final = 2
"""The group of queries up to 60% of the longest record."""
FANOUTS: Final = (2, 4, 6, 8, 10, 12)
QUICK_FANOUTS: Final = (4, 8, 12)
SIZES: Final = (100_000, 250_000, 500_000, MSNBC_RECORDS)
RUNS: Final = 10
STM_RUNS: Final = 3
STM_QUERIES: Final = 2_000
LEAST_RUNS: Final = 5
PROTOTYPE_RUNS: Final = 3
PROTOTYPE_QUERIES: Final = 10_000
BASELINES: Final[tuple[Method, ...]] = (
    "sound",
    "paper, C2 = 5",
    "paper, C2 = 1.2",
    "Basic, clipped",
    "Basic, raw",
)

REFERENCE: Final[dict[tuple[str, Method], tuple[float, ...]]] = {
    ("0.5", "sound"): (0.280, 0.184, 0.115, 0.089, 0.069),
    ("1", "sound"): (0.236, 0.158, 0.099, 0.077, 0.059),
    ("1.25", "sound"): (0.236, 0.158, 0.099, 0.077, 0.059),
    ("1", "paper, C2 = 1.2"): (1.32, 1.01, 0.633, 0.488, 0.368),
    ("1", "Basic, clipped"): (3.73, 2.98, 1.88, 1.46, 1.11),
}
STM_REFERENCE: Final = {"0.5": 0.0092, "0.75": 0.0072, "1": 0.0057, "1.25": 0.0041}
SIZE_REFERENCE: Final = dict(zip(SIZES, (0.155, 0.137, 0.119, 0.096), strict=True))

NOTES: Final = (
    "Most long random queries are 0 in the data and in the release, so the mean error falls with "
    "the length by construction; rows on answers of at least 0.1% of the records say more.",
    "Basic loses to DiffPart only when negative counts are clipped; with all counts kept it beats "
    "DiffPart at 17 items.",
    "The paper stance splits a random node first; on MSNBC-like data a run that takes the smaller "
    "node first has two thirds of the other's error.",
)


def msnbc_study(effort: Effort) -> Study:
    """The stand-in at its full size."""
    return Study(msnbc_like(), effort.repetitions(10_000))


def stm_study(effort: Effort, *, diffuse: bool = False) -> Study:
    """The stand-in; a quick run takes a tenth of the records."""
    make = stm_like_diffuse if diffuse else stm_like_concentrated
    return Study(make(effort.repetitions(STM_RECORDS)), STM_QUERIES)


def runs_of(run: Run) -> int:
    """Of the MSNBC-like set; fewer say too little about how much one differs from the next."""
    return max(LEAST_RUNS, run.effort.repetitions(RUNS))


def errors_of(
    study: Study, epsilon: str, runs: int, fanout: int = 10, method: Method = "sound"
) -> tuple[Floats, Floats]:
    """Relative errors (runs, 5), of all queries and of those with large answers."""
    found = [study.measured(epsilon, seed, fanout, method) for seed in range(runs)]
    return np.array([each.mean for each in found]), np.array([each.large for each in found])


def mean_errors(
    study: Study, epsilon: str, runs: int, fanout: int = 10, method: Method = "sound"
) -> tuple[Floats, Floats]:
    """Their means over runs (5,)."""
    every, large = errors_of(study, epsilon, runs, fanout, method)
    return every.mean(axis=0), large.mean(axis=0)


def compared(
    name: str, expected: float, runs: Floats, study: Study, place: int, rounding: float
) -> Row:
    """A mean error against the specification's. Both sides drew their own set and queries: the
    tolerance has the deviation between runs and the error of a mean over this many queries."""
    asked = study.query_errors[place] * math.sqrt(1 + study.each / PROTOTYPE_QUERIES)
    mean = float(runs.mean())
    between = float(runs.std(ddof=1)) * math.sqrt(1 / len(runs) + 1 / PROTOTYPE_RUNS)
    error = math.hypot(between, mean * asked)
    return sampled(name, expected, "recomputed", mean, error, rounding=rounding, stand_in=True)


def figure_4_3(run: Run) -> Outcome:
    """Error by epsilon and length of queries, and against Basic."""
    study = msnbc_study(run.effort)
    runs = runs_of(run)
    steps = len(EPSILONS) * (len(BASELINES) + 1) + 2
    step_done = run.counted(steps)
    by_run: dict[tuple[str, Method], Floats] = {}
    found: dict[tuple[str, Method], Floats] = {}
    for epsilon in EPSILONS:
        for method in BASELINES:
            by_run[epsilon, method] = errors_of(study, epsilon, runs, method=method)[0]
            found[epsilon, method] = by_run[epsilon, method].mean(axis=0)
            step_done()
    rows = [
        compared(
            f"MSNBC-like, epsilon {epsilon}, {method}: mean relative error, {group}% queries",
            expected,
            by_run[epsilon, method][:, place],
            study,
            place,
            0.005 if expected >= 1 else 0.0005,
        )
        for (epsilon, method), values in REFERENCE.items()
        for place, (group, expected) in enumerate(zip(GROUPS, values, strict=True))
    ]
    sound = np.array([found[epsilon, "sound"] for epsilon in EPSILONS])
    basic = np.array([found[epsilon, "Basic, clipped"] for epsilon in EPSILONS])
    raw = np.array([found[epsilon, "Basic, raw"] for epsilon in EPSILONS])
    rows += [
        _said("the error at epsilon 1.25 is below that at 0.5", (sound[-1] < sound[0]).all()),
        _said("Basic has a larger error everywhere", (basic > 2 * sound).all()),
        _said("Basic is worst for short queries", (np.diff(basic, axis=1) < 0).all()),
        _said(
            "MSNBC-like: Basic without clipping has the smaller error at epsilon 1",
            (raw[2] < sound[2]).all(),
        ),
    ]
    stm = stm_study(run.effort)
    stm_runs = run.effort.repetitions(STM_RUNS)
    stm_errors = []
    for epsilon in EPSILONS:
        every, large = mean_errors(stm, epsilon, stm_runs)
        stm_errors.append(every)
        rows.append(_stm_row(epsilon, every))
        rows.append(_trend(f"STM-like, epsilon {epsilon}: 60% queries, large answers", large))
        step_done()
    stm_all = np.array(stm_errors)
    rows.append(
        _falling_row(
            "STM-like: the error at epsilon 1.25 is below that at 0.5", stm_all[:, MIDDLE], run
        )
    )
    data = [study.population.provenance, stm.population.provenance]
    if run.effort.divisor == 1:
        diffuse = stm_study(run.effort, diffuse=True)
        large = mean_errors(diffuse, "1", 1)[1]
        rows.append(_trend("STM-like, diffuse, epsilon 1: 60% queries, large answers", large))
        data.append(diffuse.population.provenance)
    step_done()
    real = msnbc(run.data)
    if real is not None:
        measured = mean_errors(Study(real, run.effort.repetitions(10_000)), "1", runs)[0]
        rows.append(_trend("MSNBC (the file), epsilon 1: 60% queries", measured))
        data.append(real.provenance)
    step_done()
    by_epsilon = Panel(
        "MSNBC-like, queries up to 60%",
        "epsilon",
        "mean relative error",
        tuple(
            _line(method, EPSILONS, [found[each, method][MIDDLE] for each in EPSILONS])
            for method in BASELINES
        ),
    )
    by_group = Panel(
        "MSNBC-like, epsilon 1",
        "queries up to (% of the longest record)",
        "mean relative error",
        tuple(_line(method, GROUPS, found["1", method].tolist()) for method in BASELINES),
    )
    of_stm = Panel(
        "STM-like, concentrated",
        "epsilon",
        "mean relative error",
        tuple(
            Line(
                f"sound, {GROUPS[place]}% queries",
                _numbers(EPSILONS),
                tuple(stm_all[:, place].tolist()),
                kind="ours",
            )
            for place in (0, MIDDLE, 4)
        ),
    )
    panels = (by_epsilon, by_group, of_stm)
    plot = Plot("chen-fig-4.3", "Relative error of counting queries", panels)
    return Outcome(tuple(rows), (plot,), tuple(data), NOTES)


def _stm_row(epsilon: str, found: np.ndarray) -> Row:
    """Of few records and another drawing of them."""
    name = f"STM-like, epsilon {epsilon}, sound, 60% queries"
    return _trend(f"{name} (recomputed, of another drawing: {STM_REFERENCE[epsilon]})", found)


def figure_4_4(run: Run) -> Outcome:
    """Error by fan-out."""
    return _swept(
        run,
        "chen-fig-4.4",
        "Relative error by fan-out, queries up to 60%",
        "fan-out",
        FANOUTS if run.effort.divisor == 1 else QUICK_FANOUTS,
        lambda study, fanout, epsilon, runs: errors_of(study, epsilon, runs, fanout)[0],
        _fanout_rows,
    )


def _fanout_rows(study: Study, found: dict[str, Floats]) -> list[Row]:
    name = study.population.name
    rows = []
    for epsilon, by_run in found.items():
        errors = by_run.mean(axis=1)
        ratio = float(errors[1:].max() / errors[1:].min())
        text = f"{name}, epsilon {epsilon}: largest over smallest error, fan-out 4 to 12"
        rows.append(quoted(text, ratio))
        if name == _MSNBC_LIKE:
            text = f"{name}, epsilon {epsilon}: the fan-out hardly matters, less than a half"
            rows.append(trend(text, ratio < 1.5))
    if name == _MSNBC_LIKE:
        errors = {epsilon: by_run.mean(axis=1) for epsilon, by_run in found.items()}
        falls = bool((errors["1.25"] < errors["0.5"]).all())
        rows.append(trend(f"{name}: at every fan-out the error falls with epsilon", falls))
    return rows


def _swept(
    run: Run,
    name: str,
    title: str,
    axis: str,
    places: Sequence[int],
    measure: Callable[[Study, int, str, int], Floats],
    rows_of: Callable[[Study, dict[str, Floats]], list[Row]],
    least: int | None = None,
) -> Outcome:
    """Both stand-ins over places of an axis, a line for each epsilon; `rows_of` a study receives
    errors (places, runs) by epsilon, of at least this many runs."""
    studies = {"MSNBC-like": msnbc_study(run.effort), "STM-like": stm_study(run.effort)}
    step_done = run.counted(len(studies) * len(places))
    rows, panels = [], []
    for which, study in studies.items():
        fewer = run.effort.repetitions(RUNS if which == "MSNBC-like" else STM_RUNS)
        runs = fewer if least is None else max(least, fewer)
        by_run: dict[str, list[Floats]] = {epsilon: [] for epsilon in EPSILONS}
        for place in places:
            for epsilon in EPSILONS:
                by_run[epsilon].append(measure(study, place, epsilon, runs)[:, MIDDLE])
            step_done()
        arrays = {epsilon: np.array(values) for epsilon, values in by_run.items()}
        rows += marked(rows_of(study, arrays), stand_in=True)
        found = {epsilon: values.mean(axis=1) for epsilon, values in arrays.items()}
        lines = tuple(
            Line(f"epsilon {epsilon}", tuple(map(float, places)), tuple(values), kind="ours")
            for epsilon, values in found.items()
        )
        panels.append(Panel(which, axis, "mean relative error", lines))
    data = tuple(study.population.provenance for study in studies.values())
    return Outcome(tuple(rows), (Plot(name, title, tuple(panels)),), data, NOTES[:1])


def figure_4_6(run: Run) -> Outcome:
    """Error by the number of records: random subsets of the MSNBC-like and STM-like sets."""
    shares = tuple(size / MSNBC_RECORDS for size in SIZES)
    studies: dict[tuple[str, int], Study] = {}

    def part(study: Study, place: int) -> Study:
        key = (study.population.name, place)
        if key not in studies:
            size = round(shares[place] * study.records)
            source = run.source("chen-fig-4.6", *key)
            sample = study.population.sample(size, source.generator)
            longest = int(np.diff(study.population.dataset.offsets).max())
            studies[key] = Study(sample, study.each, longest)
        return studies[key]

    def rows_of(study: Study, by_run: dict[str, Floats]) -> list[Row]:
        name = study.population.name
        found = {epsilon: each.mean(axis=1) for epsilon, each in by_run.items()}
        rows = [
            compared(
                f"{name}, {size:,} records, epsilon 1: mean relative error, 60% queries",
                expected,
                runs,
                study,
                MIDDLE,
                0.0005,
            )
            for (size, expected), runs in zip(SIZE_REFERENCE.items(), by_run["1"], strict=True)
            if name == _MSNBC_LIKE
        ]
        for epsilon, errors in found.items():
            text = f"{name}, epsilon {epsilon}: the error of all records is below that of a tenth"
            rows.append(_falling_row(text, errors, run))
        gaps = {epsilon: errors[0] - errors[-1] for epsilon, errors in found.items()}
        name_of_gap = f"{name}: epsilon 0.5 loses more by a tenth of the records than 1.25"
        rows.append(Row(name_of_gap, None, "quoted", bool(gaps["0.5"] > gaps["1.25"])))
        return rows

    return _swept(
        run,
        "chen-fig-4.6",
        "Relative error by number of records, queries up to 60%",
        "size (MSNBC-like: 100,000, 250,000, 500,000, all; STM-like in the same shares)",
        range(len(SIZES)),
        lambda study, place, epsilon, runs: errors_of(part(study, place), epsilon, runs)[0],
        rows_of,
        LEAST_RUNS,
    )


# ---------------------------------------------------------------------------------------- helpers


def _said(text: str, holds: object) -> Row:
    """What the source says in words."""
    return trend(text, holds, stand_in=True)


def _trend(name: str, found: np.ndarray) -> Row:
    return quoted(f"{name}: mean relative error", round(float(found[MIDDLE]), 6))


def _falling_row(text: str, errors: np.ndarray, run: Run) -> Row:
    """A quick run's few STM-like records release next to nothing: there it is a trend."""
    falls = bool(errors[-1] < errors[0])
    if text.startswith("STM") and run.effort.divisor > 1:
        return quoted(text, falls)
    return _said(text, falls)


def _numbers(values: Sequence[object]) -> tuple[float, ...]:
    return tuple(float(str(value)) for value in values)


def _line(method: Method, places: Sequence[object], errors: Sequence[float]) -> Line:
    kind: Kind = "ours" if method == "sound" else "source"
    return Line(method, _numbers(places), tuple(map(float, errors)), kind=kind)


EXPERIMENTS: Final = (
    Experiment(
        "chen-fig-4.3",
        "Chen's thesis, Figure 4.3",
        "relative error of counting queries by epsilon, and against a noisy histogram",
        60,
        figure_4_3,
    ),
    Experiment(
        "chen-fig-4.4",
        "Chen's thesis, Figure 4.4",
        "relative error by fan-out",
        400,
        figure_4_4,
    ),
    Experiment(
        "chen-fig-4.6",
        "Chen's thesis, Figure 4.6",
        "relative error by number of records",
        60,
        figure_4_6,
    ),
)
