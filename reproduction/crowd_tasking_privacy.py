"""Book, Table 12.1 and Figure 12.11: what attacks find, and who joins.

Spec: crowd-tasking, sections 3.3, 4 and 5. The printed figures are reproduced by the source's
attacks; an attacker without any data and one with a prior are shown for comparison.
"""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction
from itertools import pairwise
from typing import Final

import numpy as np

from algorithms.crowd_tasking.algorithm import perturb_floating
from algorithms.crowd_tasking.evaluation import Prior, Risk, ane, filterable_variance, pca, risk, sf
from algorithms.crowd_tasking.prediction import mean_absolute
from algorithms.crowd_tasking.report import SOURCE_ANE, source_ane
from reproduction.experiment import (
    Experiment,
    Outcome,
    Row,
    Run,
    marked,
    over_runs,
    quoted,
    trend,
)
from reproduction.stand_in_data import DECLARED_WIDTH, user_limits, waypoints
from simulation.plots import Kind, Line, Panel, Plot
from simulation.stand_in_data import HEART_BOUNDS, heart_rates
from tacit.encoders.crowd_tasking import Component, Floats, admits

ROUNDS: Final = 600
USERS: Final = 600
FEWEST: Final = 150
_OTHERS: Final = 300
_PERSISTENCE: Final = 0.5
_SALUS: Final[tuple[Component, ...]] = ("Y", "G", "L")
_EPSILONS: Final = (1, 2, 3, 4, 5, 10, 20, 30)
_GPS_PRINTED: Final = {1: 1.38, 2: 0.61, 3: 0.45, 4: 0.32, 5: 0.26}
_WITH_PRIOR: Final = {1: 0.071, 2: 0.067, 5: 0.060, 10: 0.049, 20: 0.044, 30: 0.033}
PRIOR: Final = 0.073
ATTACKED: Final = {1: 1.04, 2: 0.59, 5: 0.24, 10: 0.09, 20: 0.06, 30: 0.04}
"""The smaller of PCA and SF, of the specification's 40 users."""
_GROUP: Final = 10
_BASIC: Final = (1, 2, 3, 5)
GENERATED: Final = (
    "heart rates: generated (level N(72, 6), autoregression 0.98, a slow wave, 50..150)",
)
NOTES: Final = (
    "The source's recordings, its p and the parameters of its attacks are not published; p = 0.5.",
    "ANE above the error of an attacker without any data says only that the attack is bad.",
)


def uploaded(
    run: Run,
    truth: Floats,
    epsilon: float,
    components: tuple[Component, ...],
    persistence: float,
) -> Floats:
    """(users, T) reports of series (users, T) of a range of 100, in floating point."""
    users, rounds = truth.shape
    reports = perturb_floating(
        components,
        np.array([DECLARED_WIDTH / epsilon]),
        persistence,
        np.repeat(np.arange(users), rounds),
        np.tile(np.arange(1, rounds + 1), users),
        truth.reshape(-1, 1),
        run.source("reports", epsilon, components, persistence, truth.shape),
    )
    return reports.reshape(users, rounds)


def table_12_1(run: Run) -> Outcome:
    """The printed column means by the source's attacks, and the attackers with a prior."""
    users = max(FEWEST, run.effort.repetitions(USERS))
    truth = heart_rates(users, ROUNDS, run.source("heart rates"))
    found: dict[int, tuple[Risk, ...]] = {}
    for place, epsilon in enumerate(_EPSILONS):
        found[epsilon] = risks(run, truth, epsilon)
        run.progress(0.6 * (place + 1) / len(_EPSILONS))
    rows = [
        ane_row(
            f"heart rate: ANE at epsilon {epsilon} (mean of the printed column: "
            f"{source_ane(epsilon):.3g})",
            expected,
            [each.source for each in found[epsilon]],
        )
        for epsilon, expected in ATTACKED.items()
    ]
    rows += [
        over_runs(
            f"raw reports: ANE times epsilon at {epsilon}",
            mean_absolute(3),
            [each.raw * epsilon for each in found[epsilon]],
            reference=0,
        )
        for epsilon in (1, 2)  # beyond, clipping to 50..150 and the drawing matter
    ]
    rows.append(ane_row("no data, population mean: ANE", PRIOR, [each.prior for each in found[1]]))
    rows += [
        ane_row(
            f"reports and a prior (wiener): ANE at epsilon {epsilon}",
            expected,
            [each.wiener for each in found[epsilon]],
        )
        for epsilon, expected in _WITH_PRIOR.items()
    ]
    means = {epsilon: _mean(each) for epsilon, each in found.items()}
    never_worse = all(each.wiener <= each.prior + 0.005 for each in means.values())
    shown = all(each.shown[1] <= each.prior for each in means.values())
    rows += [
        Row("the attack with a prior is never worse than no data", True, "trend", never_worse),
        Row("the risk shown never exceeds that of no data", True, "trend", shown),
    ]
    rows += _basic_rows(run, truth)
    run.progress(0.8)
    rows += _gps_rows(run)
    run.progress(1.0)
    return Outcome(tuple(marked(rows, stand_in=True)), (_plot(means),), GENERATED, NOTES)


def risks(run: Run, truth: Floats, epsilon: int) -> tuple[Risk, ...]:
    """What the attacks make of the uploads of series (users, T), by groups of users."""
    prior = Prior(heart_rates(_OTHERS, ROUNDS, run.source("other people")))
    reports = uploaded(run, truth, epsilon, _SALUS, _PERSISTENCE)
    scale = DECLARED_WIDTH / epsilon
    return tuple(
        risk(truth[group], reports[group], prior, scale, _SALUS, _PERSISTENCE, HEART_BOUNDS)
        for group in np.split(np.arange(len(truth)), len(truth) // _GROUP)
    )


def ane_row(name: str, expected: float, values: list[float]) -> Row:
    """By groups of users; the specification's prototype had 40 users, four groups."""
    return over_runs(name, expected, values, reference=4, rounding=0.5 * _PLACE[expected >= 0.1])


_PLACE: Final = (0.001, 0.01)
"""The last place of an expected error below 0.1, and of others."""


def _mean(found: tuple[Risk, ...]) -> Risk:
    """Over the groups, which are alike in size."""
    return Risk(**{name: float(np.mean([vars(each)[name] for each in found])) for name in _ATTACKS})


_ATTACKS: Final = tuple(each.name for each in fields(Risk))


def _basic_rows(run: Run, truth: Floats) -> list[Row]:
    """Algorithm 1: one fresh part only."""
    rows = []
    for epsilon in _BASIC:
        reports = uploaded(run, truth, epsilon, ("Y",), _PERSISTENCE)
        variance = filterable_variance(DECLARED_WIDTH / epsilon, ("Y",))
        best = min(
            float(ane(truth, attack(reports, variance), DECLARED_WIDTH).mean())
            for attack in (pca, sf)
        )
        rows.append(
            Row(f"basic Laplace, heart rate: ANE at epsilon {epsilon}", None, "quoted", best)
        )
        if epsilon == 1:
            below = best < SOURCE_ANE[1] / 3
            rows.append(
                Row("basic Laplace at epsilon 1 is recovered far better", True, "trend", below)
            )
    return rows


def _gps_rows(run: Run) -> list[Row]:
    """Two coordinates, each with its own noise; sigma is the L1 diameter."""
    paths = waypoints(FEWEST, ROUNDS, run.source("waypoints"))
    rows, found = [], []
    for epsilon, printed in _GPS_PRINTED.items():
        variance = filterable_variance(DECLARED_WIDTH / epsilon, _SALUS)
        guesses = []
        for axis in range(2):
            reports = uploaded(run, paths[:, :, axis], epsilon + axis / 1e6, _SALUS, _PERSISTENCE)
            guesses.append([attack(reports, variance) for attack in (pca, sf)])
        best = min(
            float(ane(paths, np.stack(pair, axis=2), 2 * DECLARED_WIDTH).mean())
            for pair in zip(*guesses, strict=True)
        )
        name = f"GPS (random waypoints for T-Drive): ANE at epsilon {epsilon}"
        found.append(best)
        rows.append(quoted(f"{name} (printed {printed})", best))
    rows.append(trend("GPS (random waypoints): the error falls with epsilon", _falls(found)))
    return rows


def _plot(found: dict[int, Risk]) -> Plot:
    x = tuple(float(epsilon) for epsilon in found)

    def line(name: str, values: list[float], kind: Kind = "ours") -> Line:
        return Line(name, x, tuple(values), None, kind)

    panel = Panel(
        "heart rate, 600 rounds",
        "epsilon",
        "ANE",
        (
            line("printed (mean of sensors)", [source_ane(each) for each in x], "source"),
            line("raw reports", [each.raw for each in found.values()]),
            line("better of PCA and SF", [each.source for each in found.values()]),
            line("no data: population mean", [each.prior for each in found.values()]),
            line("reports and a prior", [each.wiener for each in found.values()]),
        ),
        "log",
    )
    return Plot("book-table-12.1", "What reconstruction attacks leave", (panel,))


def figure_12_1(run: Run) -> Outcome:
    """PCA and SF against one, two and all parts of the noise, at epsilon 5."""
    users = max(FEWEST, run.effort.repetitions(USERS))
    truth = heart_rates(users, ROUNDS, run.source("heart rates"))
    errors: dict[str, list[float]] = {}
    likeness: dict[str, list[float]] = {}
    lines = [Line("truth", _ROUND_NUMBERS, tuple(truth[0].tolist()), kind="bound")]
    for place, (panel, components) in enumerate(_PARTS.items()):
        reports = uploaded(run, truth, _ATTACKED_EPSILON, components, _PERSISTENCE)
        variance = filterable_variance(DECLARED_WIDTH / _ATTACKED_EPSILON, components)
        series = [reports, *(attack(reports, variance) for attack in (pca, sf))]
        errors[panel] = [float(ane(truth, each, DECLARED_WIDTH).mean()) for each in series]
        likeness[panel] = [_likeness(truth, each) for each in series[1:]]
        lines.append(Line(f"PCA, {panel}", _ROUND_NUMBERS, tuple(series[1][0].tolist())))
        run.progress((place + 1) / len(_PARTS))
    (raw, *basic), (_, *value), _ = (errors[panel] for panel in _PARTS)
    like_basic, like_value, like_all = (likeness[panel] for panel in _PARTS)
    rows = [
        trend("(a) basic: PCA and SF leave less than a third of the error", max(basic) < raw / 3),
        trend(
            "(b) with the permanent part PCA and SF err three times as much as in (a)",
            min(value) > 3 * max(basic),
        ),
        trend(
            "(b) and the trend stays: correlation with the truth above 0.6", min(like_value) > 0.6
        ),
        trend(
            "(b) as in (a), within 0.05",
            max(abs(a - b) for a, b in zip(like_basic, like_value, strict=True)) < 0.05,
        ),
        trend(
            "(c) with the dynamic part PCA and SF lose a fifth of the correlation of (b)",
            all(c < 0.8 * b for b, c in zip(like_value, like_all, strict=True)),
        ),
        *(
            quoted(f"({letter}) ANE of PCA and SF, {panel}", " ".join(f"{x:.3f}" for x in left))
            for letter, (panel, (_, *left)) in zip("abc", errors.items(), strict=True)
        ),
    ]
    chart = Panel("one user, epsilon 5", "round", "heart rate", tuple(lines), "linear", "linear")
    plot = Plot("book-fig-12.1", "What PCA finds behind the noise", (chart,))
    return Outcome(tuple(marked(rows, stand_in=True)), (plot,), GENERATED, NOTES)


_ATTACKED_EPSILON: Final = 5
"""The figure's is not printed: noise that hides the readings, and not from PCA."""
_ROUND_NUMBERS: Final = tuple(map(float, range(1, ROUNDS + 1)))
_PARTS: Final[dict[str, tuple[Component, ...]]] = {
    "basic": ("Y",),
    "permanent part": ("Y", "G"),
    "Salus": _SALUS,
}


def _likeness(truth: Floats, guesses: Floats) -> float:
    """The mean correlation of a user's series (users, T) with its guess."""
    rows = [np.corrcoef(one, other)[0, 1] for one, other in zip(truth, guesses, strict=True)]
    return float(np.mean(rows))


def figure_12_2(run: Run) -> Outcome:
    """ANE of uploads and of what the better of PCA and SF finds, by epsilon."""
    truth = heart_rates(FEWEST, ROUNDS, run.source("heart rates"))
    found = {}
    for place, epsilon in enumerate(_EPSILONS):
        found[epsilon] = _mean(risks(run, truth, epsilon))
        run.progress((place + 1) / len(_EPSILONS))
    raw = [each.raw for each in found.values()]
    attacked = [each.source for each in found.values()]
    shares = [after / before for before, after in zip(raw, attacked, strict=True)]
    rows = [
        trend("the error of uploads falls with epsilon", _falls(raw)),
        trend("the error after PCA or SF falls with epsilon", _falls(attacked)),
        Row(
            "after PCA or SF the error is nearly that of uploads, within a fifth at every epsilon, "
            "as the text says",
            False,
            "trend",
            min(shares) > 0.8,
        ),
        quoted("least share of the uploads' error after PCA or SF", min(shares)),
    ]
    plot = replace(_plot(found), name="book-fig-12.2", title="ANE by epsilon")
    return Outcome(tuple(marked(rows, stand_in=True)), (plot,), GENERATED, NOTES)


def _falls(values: list[float]) -> bool:
    return all(one > other for one, other in pairwise(values))


def figure_12_11(run: Run) -> Outcome:
    """The 20 participants' limits, and who joins at epsilon 5 and 20."""
    limits = user_limits(run.source("limits"))
    ordered = sorted(limits, reverse=True)

    def joined(asked: int) -> float:
        return float(sum(admits(limit, Fraction(asked)) for limit in limits))

    rows = [
        Row("participants who join at epsilon 5 (printed: all 20)", 20.0, "recomputed", joined(5)),
        Row(
            "share that joins at epsilon 20 (printed: 45 %)",
            0.45,
            "recomputed",
            joined(20) / len(limits),
        ),
        Row("more than half above epsilon 15", True, "trend", joined(15) > len(limits) / 2),
    ]
    points = tuple(float(place + 1) for place in range(len(ordered)))
    line = Line("epsilon_u", points, tuple(float(limit) for limit in ordered))
    panel = Panel("20 participants", "participant", "epsilon_u", (line,), "linear", "linear")
    notes = ("Generated to the printed shares: 9 U(20, 30), 3 U(15, 20), 8 U(5, 15).",)
    plot = Plot("book-fig-12.11", "Limits that users set", (panel,))
    return Outcome(tuple(marked(rows, stand_in=True)), (plot,), ("limits: generated",), notes)


_SOURCE: Final = "book, chapter 12"
EXPERIMENTS: Final = (
    Experiment(
        "book-table-12.1",
        f"{_SOURCE}, Table 12.1",
        "reconstruction attacks, and attackers who need no data",
        15,
        table_12_1,
    ),
    Experiment(
        "book-fig-12.1",
        f"{_SOURCE}, Figure 12.1",
        "what PCA and SF find behind one, two and all parts of the noise",
        35,
        figure_12_1,
    ),
    Experiment(
        "book-fig-12.2",
        f"{_SOURCE}, Figure 12.2",
        "errors of uploads and of attackers, by epsilon",
        70,
        figure_12_2,
    ),
    Experiment(
        "book-fig-12.11",
        f"{_SOURCE}, Figure 12.11",
        "limits that users set, and who joins",
        1,
        figure_12_11,
    ),
)
