"""Means and shares of bounded readings: Laplace, window, subset and their peers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Final

import numpy as np

from algorithms.crowd_tasking.aggregates import deconvolved, histogram_distance, shares
from algorithms.crowd_tasking.prediction import subset_shares
from bench.utility.compare import Comparison, Figures, compare
from bench.utility.peers import (
    hybrid,
    piecewise,
    randomised_response,
)
from tacit.encoders.crowd_tasking_bounded import Subset, best_window, bucket_of
from tacit.encoders.kmeans import Floats
from tacit.noise import floating_laplace
from tacit.randomness import SeededRandom

CHEAP: Final = 30
"""How many times as many runs where one takes milliseconds."""


def reports(runs: int) -> Iterator[Comparison]:
    """Means and histograms of bounded readings: window and subset against Laplace."""
    readings = np.random.default_rng(1).beta(2, 5, 2_000)
    edges = np.linspace(0, 1, 21)
    for epsilon in (1, 2, 5):
        contenders = {
            "Laplace": partial(laplace_reports, readings, edges, epsilon),
            "window, subset": partial(bounded_reports, readings, edges, epsilon),
            "piecewise": partial(_mean_of, piecewise, readings, epsilon),
            "hybrid": partial(_mean_of, hybrid, readings, epsilon),
            "GRR": partial(_response, readings, edges, epsilon),
        }
        yield compare(f"2,000 readings, 20 buckets, epsilon {epsilon}", contenders, CHEAP * runs)


def laplace_reports(readings: Floats, edges: Floats, epsilon: float, seed: int) -> Figures:
    noisy = readings + floating_laplace(SeededRandom(seed), 1 / epsilon, readings.size)
    found = deconvolved(noisy, edges, 0, 1, 1 / epsilon, 1)
    return {
        "error of the mean": abs(float(noisy.mean() - readings.mean())),
        "error of shares": histogram_distance(found, shares(readings, edges)),
    }


def bounded_reports(readings: Floats, edges: Floats, epsilon: float, seed: int) -> Figures:
    source = SeededRandom(seed)
    window = best_window(Fraction(epsilon))
    steps = np.rint(readings * 65_536).astype(np.int64)
    values = window.estimates(*window.reports(window.placed(steps, 65_536, source), source))
    subset = Subset.of(Fraction(epsilon), edges.size - 1)
    places = bucket_of(readings, edges)
    held = subset.reports(places, source).sum(axis=0)
    found = subset_shares(subset, held, readings.size)
    return {
        "error of the mean": abs(float((values.mean() + 1) / 2 - readings.mean())),
        "error of shares": histogram_distance(found, shares(readings, edges)),
    }


def _mean_of(method: Callable[..., Floats], readings: Floats, epsilon: float, seed: int) -> Figures:
    found = method(2 * readings - 1, epsilon, np.random.default_rng(seed))
    return {"error of the mean": abs(float((found.mean() + 1) / 2 - readings.mean()))}


def _response(readings: Floats, edges: Floats, epsilon: float, seed: int) -> Figures:
    places = bucket_of(readings, edges)
    found = randomised_response(places, edges.size - 1, epsilon, np.random.default_rng(seed))
    return {"error of shares": histogram_distance(found, shares(readings, edges))}
