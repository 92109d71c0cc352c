"""What only the operator of a simulated task may see: errors and risks against the true readings.

How well the server can guess the readings: the source's risk figure, and attacks to measure it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from algorithms.crowd_tasking.aggregates import (
    Classified,
    Reports,
    cross_validated,
    histogram_distance,
    shares,
)
from algorithms.crowd_tasking.prediction import autocovariance, class_distance, mean_shift
from algorithms.crowd_tasking.task import Task
from tacit.encoders.crowd_tasking.encoder import Bools, Component, Floats, Ints
from tacit.randomness import PublicRandom

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
    """v, the variance of the parts that a filter may hope to remove: 2 b^2 for each of Y and L."""
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


def _projected(reports: Floats, window: int, kept: Callable[[Floats, int], Bools]) -> Floats:
    """Trajectory matrices (rows, window), centred by column, projected on the kept eigenvectors,
    their anti-diagonals averaged. Series of fewer than 4 rounds stay as they are."""
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
        chosen = vectors * kept(values, rows)[:, None, :]
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
    """What an outsider knows of one coordinate: from series of other people, (users, T)."""

    others: Floats

    @cached_property
    def mean(self) -> float:
        """The population mean."""
        return float(self.others.mean())

    @cached_property
    def covariance(self) -> Floats:
        """(T, T) about that mean, the same for equal lags: users' levels are part of it."""
        centred = self.others - self.mean
        rounds = centred.shape[1]
        spectrum = np.fft.rfft(centred, 2 * rounds, axis=1)
        products = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :rounds].mean(axis=0)
        by_lag = products / np.arange(rounds, 0, -1)
        lags = np.abs(np.subtract.outer(np.arange(rounds), np.arange(rounds)))
        return _nearest_covariance(by_lag[lags])


def _nearest_covariance(matrix: Floats) -> Floats:
    """Negative eigenvalues, which averages over few pairs may bring, set to 0."""
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
    found: Floats | None,
    tick: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Realised error, clamped readings, attacks; rows of `truth` (n, k) as those of the reports.

    `tick` is called between steps.
    """
    lower, upper = np.array(task.grid.lower), np.array(task.grid.upper)
    known: dict[str, Any] = {
        "readings": reports.count,
        "clamped": int(((truth < lower) | (truth > upper)).any(axis=1).sum()),
    }
    if not reports.count:
        return known
    match task.params.aggregate:
        case "AVG":
            known["average"] = _average(task, truth, reports)
        case "HIST":
            assert found is not None
            edges = np.array(task.params.bucket_edges)
            true_shares = shares(truth[:, task.params.histogram_place], edges)
            known["histogram"] = {
                "true_shares": true_shares.tolist(),
                "error": histogram_distance(found, true_shares),
            }
        case "CLS":
            if true_labels is not None and reports.labels is not None:
                known["classifier"] = _classifier(task, truth, true_labels, reports, tick)
    known["risk"] = _risks(task, np.clip(truth, lower, upper), reports, tick)
    return known


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
    seen = counts > 0
    return {
        "true_mean": truth.mean(axis=0).tolist(),
        "error": np.abs((reports.values - truth).mean(axis=0)).tolist(),
        "mean_error_of_a_round": np.abs(wrong[seen] / counts[seen, None]).mean(axis=0).tolist(),
    }


def _classifier(
    task: Task, truth: Floats, true_labels: Ints, reports: Reports, tick: Callable[[], None]
) -> dict[str, Any]:
    params = task.params
    assert params.classes is not None
    assert reports.labels is not None

    def measured(training: Floats, labels: Ints) -> float | None:
        found: Classified | None = cross_validated(
            params.classifier,
            params.neighbours,
            training,
            labels,
            len(params.classes or ()),
            PublicRandom(params.prediction_seed),
            truth,
            tick,
        )
        return None if found is None else found.accuracy

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
    whole = starts[sizes == task.params.rounds]
    if whole.size < 2:
        return None
    length = min(task.params.rounds, MOST_ROUNDS)
    rows = whole[:, None] + np.arange(length)
    attacked, others = rows[::2][:MOST_ATTACKED], rows[1::2][: 10 * MOST_ATTACKED]
    result = {}
    for place, coordinate in enumerate(task.params.sensor.coordinates):
        tick()
        measured = risk(
            truth[attacked, place],
            reports.values[attacked, place],
            Prior(truth[others, place]),
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
