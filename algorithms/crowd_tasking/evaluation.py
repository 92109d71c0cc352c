"""What only the operator of a simulated task may see: errors and risks against the true readings;
and the plots of a task.

Risks are how well the server can guess the readings: the source's figure, and attacks to measure
it. Published plots are made of public parameters and noisy reports only. Those of an evaluation
show the true aggregate next to the released one. They need matplotlib (drawn by Agg).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from algorithms.contract import Drawing, Picture, Plot
from algorithms.crowd_tasking.aggregates import (
    Classified,
    Reports,
    cross_validated,
    histogram_distance,
    shares,
)
from algorithms.crowd_tasking.parameters import MOST_EPSILON
from algorithms.crowd_tasking.prediction import autocovariance, class_distance, mean_shift
from algorithms.crowd_tasking.report import source_ane
from algorithms.crowd_tasking.task import Task
from algorithms.drawing import BLUE, GREY, RED, compared_bars, floats, picture
from tacit.encoders.crowd_tasking import Bools, Component, Floats, Ints
from tacit.randomness import PublicRandom

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes


WINDOW: Final = 40
_TOGETHER: Final = 32


def ane(truth: Floats, guess: Floats, diameter: float) -> Floats:
    """(users,) average normalised error: mean over rounds of ||x_t - r_t||_1 / sigma.

    truth, guess: (users, T) or (users, T, k); `diameter` sigma: the largest L1 distance of two
    readings. Source: section 12.5.1 (x = 75, r = 50, sigma = 100 gives 0.25).
    """
    distance = np.abs(truth - guess)
    if distance.ndim > 2:
        distance = distance.sum(axis=2)
    return np.asarray(distance.mean(axis=1) / diameter, np.float64)


def filterable_variance(scale: float, components: Sequence[Component]) -> float:
    """v, the variance of the parts that a filter could remove: 2 b^2 for each of Y and L."""
    return 2 * scale**2 * sum(part != "G" for part in components)


def pca(reports: Floats, variance: float, window: int = WINDOW) -> Floats:
    """Keep the components of the trajectory matrix before the largest gap of cov(H) - v I."""

    def kept(values: Floats, _rows: int) -> Bools:
        gaps = -np.diff(np.maximum(values - variance, 0), axis=1)
        return np.asarray(np.arange(values.shape[1]) <= np.argmax(gaps, axis=1)[:, None])

    return _projected(reports, window, kept)


def sf(reports: Floats, variance: float, window: int = WINDOW) -> Floats:
    """Spectral filtering: keep what is above the largest eigenvalue that noise of variance v
    alone would have, v (1 + 1/sqrt(Q))^2, Q = rows / window."""

    def kept(values: Floats, rows: int) -> Bools:
        limit = variance * (1 + 1 / math.sqrt(rows / values.shape[1])) ** 2
        return np.asarray(values > limit)

    return _projected(reports, window, kept)


def _projected(reports: Floats, window: int, keeps: Callable[[Floats, int], Bools]) -> Floats:
    """Trajectory matrices (rows, window), centred by column, projected on the kept eigenvectors,
    their anti-diagonals averaged. Series of fewer than 4 rounds are unchanged."""
    rounds = reports.shape[1]
    window = min(window, rounds // 2)
    if window < 2:
        return reports
    rows = rounds - window + 1
    counts = np.convolve(np.ones(rows), np.ones(window))
    guesses = np.empty_like(reports)
    for start in range(0, reports.shape[0], _TOGETHER):
        some = reports[start : start + _TOGETHER]
        matrices = np.lib.stride_tricks.sliding_window_view(some, window, axis=1)
        means = matrices.mean(axis=1, keepdims=True)
        centred = matrices - means
        values, vectors = np.linalg.eigh(centred.transpose(0, 2, 1) @ centred / rows)
        values, vectors = values[:, ::-1], vectors[:, :, ::-1]
        chosen = vectors * keeps(values, rows)[:, None, :]
        smooth = centred @ (chosen @ chosen.transpose(0, 2, 1)) + means
        guesses[start : start + _TOGETHER] = _anti_diagonal_sums(smooth) / counts
    return guesses


def _anti_diagonal_sums(matrices: Floats) -> Floats:
    """(users, rows + window - 1) sums over i + j = t of (users, rows, window) matrices."""
    users, rows, window = matrices.shape
    padded = np.zeros((users, window, rows + window))
    padded[:, :, :rows] = matrices.transpose(0, 2, 1)
    sheared = padded.reshape(users, -1)[:, :-window].reshape(users, window, -1)
    return np.asarray(sheared.sum(axis=1), np.float64)


@dataclass(frozen=True, eq=False)
class Prior:
    """What an outsider knows about one coordinate: from series of other people, (users, T)."""

    others: Floats

    @cached_property
    def mean(self) -> float:
        """The population mean."""
        return float(self.others.mean())

    @cached_property
    def covariance(self) -> Floats:
        """(T, T) about that mean, equal for equal lags: it includes the users' levels."""
        centred = self.others - self.mean
        rounds = centred.shape[1]
        spectrum = np.fft.rfft(centred, 2 * rounds, axis=1)
        products = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :rounds].mean(axis=0)
        by_lag = products / np.arange(rounds, 0, -1)
        lags = np.abs(np.subtract.outer(np.arange(rounds), np.arange(rounds)))
        return _nearest_covariance(by_lag[lags])


def _nearest_covariance(matrix: Floats) -> Floats:
    """Negative eigenvalues, which can result from averages over few pairs, are set to 0."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0)) @ vectors.T, np.float64)


def wiener(
    reports: Floats,
    prior: Prior,
    scale: float,
    components: tuple[Component, ...],
    persistence: float,
    bounds: tuple[float, float],
) -> Floats:
    """m + K (K + N)^-1 (y - m), clipped to the bounds; N the covariance of the noise."""
    rounds = reports.shape[1]
    by_lag = np.array([autocovariance(lag, components, persistence) for lag in range(rounds)])
    lags = np.abs(np.subtract.outer(np.arange(rounds), np.arange(rounds)))
    noise = scale**2 * by_lag[lags]
    gain = np.linalg.solve(prior.covariance + noise, prior.covariance).T
    guess = prior.mean + (reports - prior.mean) @ gain.T
    return np.asarray(np.clip(guess, *bounds), np.float64)


@dataclass(frozen=True)
class Risk:
    """Mean ANE of each attack on one coordinate. `shown`: the smallest, with its name."""

    raw: float
    pca: float
    sf: float
    prior: float
    mid_range: float
    wiener: float

    @property
    def source(self) -> float:
        """What the source's table shows: the smaller of its two attacks."""
        return min(self.pca, self.sf)

    @property
    def shown(self) -> tuple[str, float]:
        """The best attack of all, and its ANE."""
        named = {
            "prior": self.prior,
            "mid-range": self.mid_range,
            "wiener": self.wiener,
            "sf": self.sf,
            "pca": self.pca,
            "raw": self.raw,
        }
        best = min(named, key=lambda name: named[name])
        return best, named[best]


def risk(
    truth: Floats,
    reports: Floats,
    prior: Prior,
    scale: float,
    components: tuple[Component, ...],
    persistence: float,
    bounds: tuple[float, float],
) -> Risk:
    """Every attack on the reports (users, T) of series whose truth is known."""
    variance = filterable_variance(scale, components)
    diameter = bounds[1] - bounds[0]
    best = wiener(reports, prior, scale, components, persistence, bounds)

    def mean_ane(guess: Floats) -> float:
        return float(ane(truth, guess, diameter).mean())

    return Risk(
        raw=mean_ane(reports),
        pca=mean_ane(pca(reports, variance)),
        sf=mean_ane(sf(reports, variance)),
        prior=mean_ane(np.full_like(truth, prior.mean)),
        mid_range=mean_ane(np.full_like(truth, sum(bounds) / 2)),
        wiener=mean_ane(best),
    )


# Spec: crowd-tasking, sections 2, 3.3 and 9; jobs, "Parameters" (`evaluate`). Never published.

MOST_ATTACKED: Final = 100
MOST_ROUNDS: Final = 1_000
"""Longer series are attacked in their first rounds."""


def evaluate(
    task: Task,
    truth: Floats,
    true_labels: Ints | None,
    reports: Reports,
    estimates: Floats | None,
    tick: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Realised error, clamped readings, attacks; rows of `truth` (n, k) as those of the reports.

    `tick` is called between steps.
    """
    lower, upper = np.array(task.grid.lower), np.array(task.grid.upper)
    summary: dict[str, Any] = {
        "readings": reports.count,
        "clamped": int(((truth < lower) | (truth > upper)).any(axis=1).sum()),
    }
    if not reports.count:
        return summary
    match task.params.aggregate:
        case "AVG":
            summary["average"] = _average(task, truth, reports)
        case "HIST":
            assert estimates is not None
            edges = np.array(task.params.bucket_edges)
            true_shares = shares(truth[:, task.params.histogram_place], edges)
            summary["histogram"] = {
                "true_shares": true_shares.tolist(),
                "error": histogram_distance(estimates, true_shares),
            }
        case "CLS":
            if true_labels is not None and reports.labels is not None:
                summary["classifier"] = _classifier(task, truth, true_labels, reports, tick)
    summary["risk"] = _risks(task, np.clip(truth, lower, upper), reports, tick)
    return summary


def _average(task: Task, truth: Floats, reports: Reports) -> dict[str, Any]:
    rounds = task.params.rounds
    counts = np.bincount(reports.rounds - 1, minlength=rounds)
    wrong = np.stack(
        [
            np.bincount(reports.rounds - 1, weights=column, minlength=rounds)
            for column in (reports.values - truth).T
        ],
        axis=1,
    )
    has_reports = counts > 0
    return {
        "true_mean": truth.mean(axis=0).tolist(),
        "error": np.abs((reports.values - truth).mean(axis=0)).tolist(),
        "mean_error_of_a_round": np.abs(wrong[has_reports] / counts[has_reports, None])
        .mean(axis=0)
        .tolist(),
    }


def _classifier(
    task: Task, truth: Floats, true_labels: Ints, reports: Reports, tick: Callable[[], None]
) -> dict[str, Any]:
    params = task.params
    assert params.classes is not None
    assert reports.labels is not None

    def measured(training: Floats, labels: Ints) -> float | None:
        classified: Classified | None = cross_validated(
            params.classifier,
            params.neighbours,
            training,
            labels,
            len(params.classes or ()),
            PublicRandom(params.prediction_seed),
            truth,
            tick,
        )
        return None if classified is None else classified.accuracy

    distance = class_distance(truth, true_labels)
    shift = float(task.scales.max()) * mean_shift(params.dimension, task.parts)
    return {
        "accuracy_without_noise": measured(truth, true_labels),
        "accuracy_on_true_readings": measured(reports.values, reports.labels),
        "d_avg": distance,
        "ratio": shift / distance if distance else None,
    }


def _risks(
    task: Task, truth: Floats, reports: Reports, tick: Callable[[], None]
) -> dict[str, Any] | None:
    """Attacks on the complete series of every second user, with the others' as the prior."""
    _, starts, sizes = np.unique(reports.users, return_index=True, return_counts=True)
    complete = starts[sizes == task.params.rounds]
    if complete.size < 2:
        return None
    length = min(task.params.rounds, MOST_ROUNDS)
    rows = complete[:, None] + np.arange(length)
    attacked, population = rows[::2][:MOST_ATTACKED], rows[1::2][: 10 * MOST_ATTACKED]
    result = {}
    for place, coordinate in enumerate(task.params.sensor.coordinates):
        tick()
        measured = risk(
            truth[attacked, place],
            reports.values[attacked, place],
            Prior(truth[population, place]),
            float(task.scales[place]),
            task.components,
            float(task.params.p),
            (coordinate.lower, coordinate.upper),
        )
        result[coordinate.name] = _stated(measured)
    return result


def _stated(measured: Risk) -> dict[str, Any]:
    name, best = measured.shown
    return {
        "prior_only": measured.prior,
        "best_attack": best,
        "attack_name": name,
        "source_ane": measured.source,
        "raw": measured.raw,
        "pca": measured.pca,
        "sf": measured.sf,
        "mid_range": measured.mid_range,
        "wiener": measured.wiener,
    }


_INCHES: Final = (5.4, 3.6)
_GRID: Final = 16
_SHOWN_USERS: Final = 5
_SHOWN_REPORTS: Final = 2_000


def task_plots(
    task: Task, joined: int, reports: Reports, estimates: Floats | None, tick: Callable[[], None]
) -> tuple[Plot, ...]:
    """All plots of a result. `found`: bucket shares.

    `tick` is called between steps.
    """
    plots = [_plot_of_risk(task)]
    if joined:
        plots.append(_plot_of_error(task, joined, tick))
    if reports.count:
        plots.append(_plot_of_reports(task, reports))
    if estimates is not None and joined:
        chosen = task.params.histogram_coordinate
        plots.append(
            Plot.of(
                "histogram",
                edges=np.array(task.params.bucket_edges),
                shares=estimates,
                reference=task.reference,
                estimator=task.params.estimator,
                axis=f"{chosen.name} ({task.params.sensor.unit})",
            )
        )
    return tuple(plots)


def _epsilons(task: Task) -> list[Fraction]:
    least = min(Fraction(1, 2), task.epsilon)
    most = max(Fraction(MOST_EPSILON), task.epsilon)
    if task.params.sensor.steps > 1:
        least = max(least, task.epsilon * task.perturbation.scale / 20_000_000)
    return [
        Fraction(round(epsilon, 6)) for epsilon in np.geomspace(float(least), float(most), _GRID)
    ]


def _plot_of_error(task: Task, joined: int, tick: Callable[[], None]) -> Plot:
    epsilons = _epsilons(task)
    predicted = []
    for epsilon in epsilons:
        tick()
        predicted.append(replace(task, epsilon=epsilon).predicted(joined))
    label_of = {"AVG": f"error ({task.params.sensor.unit})", "HIST": "error of shares"}
    return Plot.of(
        "error",
        epsilons=[float(epsilon) for epsilon in epsilons],
        mean=[prediction.mean for prediction in predicted],
        point_95=[prediction.point_95 for prediction in predicted],
        bound=[prediction.bound for prediction in predicted],
        epsilon=float(task.epsilon),
        users=joined,
        axis=label_of.get(task.params.aggregate, f"shift ({task.params.sensor.unit})"),
    )


def _error(axes: Axes, values: Mapping[str, Any]) -> None:
    places = values["epsilons"]
    axes.plot(places, floats(values["mean"]), color=BLUE, label="predicted mean")
    axes.plot(places, floats(values["point_95"]), "--", color=BLUE, label="95 % point")
    axes.plot(places, floats(values["bound"]), ":", color=GREY, label="the source's bound")
    axes.axvline(values["epsilon"], color=RED, linewidth=1, label="this task")
    axes.set_ylabel(values["axis"])
    _finish(axes, f"Predicted error, {values['users']} users")


def _plot_of_risk(task: Task) -> Plot:
    epsilons = [float(epsilon) for epsilon in _epsilons(task)]
    factor = task.params.dimension if task.per_coordinate else 1
    return Plot.of(
        "risk",
        epsilons=epsilons,
        ane=[source_ane(epsilon) for epsilon in epsilons],
        floor=[1 / (1 + math.exp(min(factor * epsilon, 700))) for epsilon in epsilons],
        epsilon=float(task.epsilon),
    )


def _risk(axes: Axes, values: Mapping[str, Any]) -> None:
    places = values["epsilons"]
    axes.plot(places, floats(values["ane"]), color=GREY, label="ANE of the source")
    axes.plot(places, values["floor"], color=BLUE, label="least error of any test of one reading")
    axes.axvline(values["epsilon"], color=RED, linewidth=1, label="this task")
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


def _plot_of_reports(task: Task, reports: Reports) -> Plot:
    users = []
    for user in np.unique(reports.users)[:_SHOWN_USERS]:
        mine = np.flatnonzero(reports.users == user)[:_SHOWN_REPORTS]
        users.append({"rounds": reports.rounds[mine], "values": reports.values[mine, 0]})
    first = task.params.sensor.coordinates[0]
    return Plot.of(
        "uploaded",
        users=users,
        lower=float(first.lower),
        upper=float(first.upper),
        axis=f"{first.name} ({task.params.sensor.unit})",
    )


def _uploaded(axes: Axes, values: Mapping[str, Any]) -> None:
    for user in values["users"]:
        axes.plot(user["rounds"], floats(user["values"]), ".", markersize=3)
    axes.axhspan(values["lower"], values["upper"], color="#eeeeee", zorder=0, label="bounds")
    axes.set_xlabel("round")
    axes.set_ylabel(values["axis"])
    axes.set_title("Reports as uploaded (noisy), the first users")
    axes.legend(frameon=False)


def _histogram(axes: Axes, values: Mapping[str, Any]) -> None:
    edges, label = values["edges"], values["estimator"]
    axes.stairs(floats(values["shares"]), edges, color=BLUE, fill=True, alpha=0.4, label=label)
    axes.stairs(floats(values["reference"]), edges, color=GREY, label="public reference")
    axes.set_xlabel(values["axis"])
    axes.set_ylabel("share")
    axes.set_title("Histogram from noisy reports")
    axes.legend(frameon=False)


DRAWINGS: Final = {
    "risk": Drawing(_risk, _INCHES),
    "error": Drawing(_error, _INCHES),
    "uploaded": Drawing(_uploaded, _INCHES),
    "histogram": Drawing(_histogram, _INCHES),
}


# Spec: jobs, section "Result". Visible only to the operator; drawn where the evaluation is read.

_EVALUATION_INCHES: Final = (5.4, 4.0)
_NAME: Final = "crowd-tasking"


def evaluation_pictures(
    evaluation: Mapping[str, Any], summary: Mapping[str, Any]
) -> tuple[Picture, ...]:
    """Those that the evaluation has figures for."""
    drawn = []
    if "average" in evaluation:
        true = evaluation["average"]["true_mean"]
        averages_of = summary["average"]
        unit = summary["task"]["unit"]
        drawn.append(
            picture(
                _NAME,
                "average",
                lambda axes: _average_bars(axes, true, averages_of, unit),
                _EVALUATION_INCHES,
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


def _average_bars(
    axes: Axes, true: Sequence[float], averages: Mapping[str, Mapping[str, float | None]], unit: str
) -> None:
    axes.set_title("Averages (private)")
    released = [average["estimate"] for average in averages.values()]
    compared_bars(axes, list(averages), {"true": true, "released": released})
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
        "best attack": [risk["best_attack"] for risk in risks.values()],
        "as the source has it": [risk["source_ane"] for risk in risks.values()],
    }
    compared_bars(axes, list(risks), series)
    axes.set_ylabel("mean error (share of the range)")
