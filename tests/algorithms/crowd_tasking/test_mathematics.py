"""The law of the noise, predictions and bounds, attacks: the spec's worked figures.

Shares of neighbouring buckets: smoothed where noise hides them, left alone where it does not.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.crowd_tasking.aggregates import (
    Reports,
    averages,
    deconvolved,
    histogram_distance,
    noise_pairs,
    shares,
)
from algorithms.crowd_tasking.algorithm import perturb_floating
from algorithms.crowd_tasking.evaluation import Prior, risk
from algorithms.crowd_tasking.prediction import (
    autocovariance,
    average_bound,
    average_deviation,
    average_error,
    cumulative,
    histogram_error,
    mean_absolute,
    mean_shift,
    shift_bound,
    smoothed,
    subset_shares,
    transition,
    variance,
)
from algorithms.simplex import on_simplex
from tacit.encoders.crowd_tasking import Component
from tacit.encoders.crowd_tasking_bounded import Floats, Subset
from tacit.randomness import PublicRandom, SeededRandom

ALL: tuple[Component, ...] = ("Y", "G", "L")


def noise(components: tuple[Component, ...], p: float, users: int, rounds: int, seed: int):
    """(users, T) noise of scale 1."""
    return perturb_floating(
        components,
        np.ones(1),
        p,
        np.repeat(np.arange(users), rounds),
        np.tile(np.arange(1, rounds + 1), users),
        np.zeros((users * rounds, 1)),
        SeededRandom(seed),
    ).reshape(users, rounds)


@pytest.mark.parametrize("p", [0.0, 0.5, 0.9, 1.0])
def test_covariance_between_rounds(p: float) -> None:
    drawn = noise(ALL, p, 100_000, 6, 2)
    for lag in (1, 5):
        found = float((drawn[:, 0] * drawn[:, lag]).mean())
        assert found == pytest.approx(autocovariance(lag, ALL, p), abs=0.15)
    assert autocovariance(1, ALL, 0.5) == 3
    assert autocovariance(5, ALL, 0.5) == 2.0625


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_closed_forms_of_each_number_of_parts(parts: int) -> None:
    drawn = SeededRandom(parts).generator.laplace(size=(400_000, parts)).sum(axis=1)
    assert np.abs(drawn).mean() == pytest.approx(mean_absolute(parts), rel=0.01)
    assert drawn.var() == pytest.approx(variance(parts), rel=0.02)
    for z in (-2.0, 0.0, 0.5, 4.0):
        assert (drawn <= z).mean() == pytest.approx(float(cumulative(z, 1.0, parts)), abs=0.004)
    assert cumulative([-np.inf, np.inf], 3.0, parts) == pytest.approx([0, 1], abs=1e-200)


@pytest.mark.parametrize("components", [("Y",), ("Y", "G"), ALL])
def test_averaging_rounds(components: tuple[Component, ...]) -> None:
    rounds, p = 7, 0.6
    direct = sum(
        autocovariance(abs(s - t), components, p) for s in range(rounds) for t in range(rounds)
    )
    users = np.repeat([0, 1], rounds)
    pairs = noise_pairs(users, np.tile(np.arange(1, rounds + 1), 2), components, p)
    assert 2 * pairs == pytest.approx(2 * direct)


def test_averages_are_predicted() -> None:
    # Acceptance 2; 40,000 simulated averages (4 sd of their mean: 1.5 %).
    assert average_error(20, 20.0, 3) == pytest.approx(8.74, abs=0.005)
    assert average_error(1000, 20.0, 3) == pytest.approx(1.236, abs=0.001)
    bound = average_bound(20, 20.0, 1, 3, 0.05)
    assert bound == pytest.approx(42.079, abs=1e-3)
    simulated = np.abs(20 * noise(ALL, 0.5, 40_000 * 20, 1, 4).reshape(-1, 20).mean(axis=1))
    assert simulated.mean() == pytest.approx(8.74, rel=0.03)
    assert (simulated > bound).mean() < 0.05
    assert average_deviation(20, 20.0, 3) == pytest.approx(20 * math.sqrt(6 / 20))


def test_the_bound_needs_enough_users() -> None:
    assert average_bound(1, 1.0, 13, 3, 0.05) is None
    assert average_bound(3, 1.0, 13, 3, 0.05) is not None


def test_shifts_are_bounded() -> None:
    # Acceptance 4.
    assert shift_bound(0.2, 3, 3, 0.05) == pytest.approx(5.397, abs=1e-3)
    assert 0.2 * mean_shift(3, 3) == pytest.approx(0.763, abs=1e-3)
    drawn = SeededRandom(5).generator.laplace(size=(20_000, 3, 3)).sum(axis=2)
    assert (0.2 * np.sqrt((drawn**2).sum(axis=1)) > 5.397).mean() < 0.05


@pytest.mark.parametrize("parts", [1, 3])
def test_histograms_are_predicted(parts: int) -> None:
    """The mean over fresh data and noise; 300 draws give the prediction a sd of about 2 %."""
    edges = np.arange(0.0, 101.0, 10.0)
    reference = np.array([0, 0, 0.1, 0.3, 0.4, 0.2, 0, 0, 0, 0])
    predicted = histogram_error(50, reference, edges, 5.0, parts, PublicRandom(1))
    generator = SeededRandom(7).generator
    errors = []
    for _ in range(1000):
        buckets = generator.choice(10, 50, p=reference)
        truth = 10 * buckets + generator.uniform(0, 10, 50)
        noisy = truth + 5 * generator.laplace(size=(50, parts)).sum(axis=1)
        errors.append(histogram_distance(shares(noisy, edges), shares(truth, edges)))
    assert predicted.mean == pytest.approx(float(np.mean(errors)), rel=0.08)
    assert predicted.point_95 == pytest.approx(float(np.quantile(errors, 0.95)), rel=0.15)
    assert predicted.bound is not None
    assert (np.array(errors) > predicted.bound).mean() < 0.05
    assert transition(edges, 5.0, parts).sum(axis=1) == pytest.approx(np.ones(10))


def test_deconvolution_takes_the_noise_off() -> None:
    edges = np.arange(50.0, 151.0, 10.0)
    generator = SeededRandom(8).generator
    truth = np.clip(generator.normal(74, 9, 20_000), 50, 150)
    noisy = truth + 10 * generator.laplace(size=(20_000, 3)).sum(axis=1)
    naive = histogram_distance(shares(noisy, edges), shares(truth, edges))
    found = deconvolved(noisy, edges, 50, 150, 10.0, 3)
    assert found.sum() == pytest.approx(1)
    assert histogram_distance(found, shares(truth, edges)) < naive / 4
    assert np.isnan(deconvolved(noisy[:0], edges, 50, 150, 10.0, 3)).all()


def test_averages_of_uneven_rounds() -> None:
    reports = Reports(
        np.array([0, 0, 1]), np.array([1, 3, 3]), np.array([[1.0, 2], [3, 4], [7, 8]])
    )
    found = averages(reports, 3, np.array([1.0, 2.0]), ("Y",), 0.5)
    assert found.counts.tolist() == [1, 0, 2]
    assert found.means[[0, 2]].tolist() == [[1, 2], [5, 6]]
    assert np.isnan(found.means[1]).all()
    assert found.errors[2] == pytest.approx([1, 2])
    assert found.mean == pytest.approx([11 / 3, 14 / 3])
    assert found.error == pytest.approx(np.array([1, 2]) * math.sqrt(6) / 3)


def waves(users: int, seed: int) -> np.ndarray:
    generator = SeededRandom(seed).generator
    level = generator.normal(72, 6, (users, 1))
    phase = generator.uniform(0, 6, (users, 1))
    return level + 8 * np.sin(np.arange(300) / 40 + phase)


@pytest.mark.parametrize("epsilon", [1, 20])
def test_an_attacker_with_a_prior_is_never_worse_than_one_without_reports(epsilon: int) -> None:
    truth, prior = waves(20, 5), Prior(waves(200, 6))
    reports = truth + 100 / epsilon * noise(ALL, 0.5, 20, 300, epsilon)
    found = risk(truth, reports, prior, 100 / epsilon, ALL, 0.5, (50, 150))
    assert found.wiener <= found.prior + 0.005
    assert found.shown[1] <= found.prior
    assert found.source == min(found.pca, found.sf)
    if epsilon == 1:
        assert found.source > 5 * found.prior


SHAPES: dict[str, Floats] = {
    "flat": np.full(20, 0.05),
    "one hill": np.exp(-np.square(np.arange(20) - 13) / 30),
    "two hills": np.exp(-np.square(np.arange(20) - 4) / 6)
    + np.exp(-np.square(np.arange(20) - 14) / 9),
    "four spikes": np.isin(np.arange(20), (2, 9, 10, 17)).astype(float),
    "one bucket": np.isin(np.arange(20), (6,)).astype(float),
    "every other": (np.arange(20) % 2).astype(float),
}


def ratio(shape: Floats, readings: int, epsilon: str) -> float:
    """The error of what is published over that of the simplex alone, means of 40 draws."""
    law = Subset.of(Fraction(epsilon), shape.size)
    true = np.floor(shape / shape.sum() * readings).astype(np.int64)
    places = np.repeat(np.arange(shape.size), true)
    errors = np.zeros(2)
    for seed in range(40):
        counts = law.reports(places, SeededRandom(seed)).sum(axis=0)
        plain = on_simplex(law.shares(counts, places.size))
        for row, found in enumerate((subset_shares(law, counts, places.size), plain)):
            errors[row] += np.abs(found - true / places.size).sum()
    return float(errors[0] / errors[1])


@pytest.mark.parametrize(("name", "most"), [("flat", 0.45), ("one hill", 0.8), ("two hills", 0.95)])
def test_what_varies_smoothly_is_found_better(name: str, most: float) -> None:
    assert ratio(SHAPES[name], 2_000, "2") < most


@pytest.mark.parametrize(
    ("name", "epsilon", "most"),
    [
        ("four spikes", "1", 1.05),
        ("one bucket", "1", 1.01),
        ("every other", "1", 1.25),  # the worst that was found: its one wave drowns in the noise
        ("every other", "5", 1.01),
    ],
)
def test_what_does_not_is_left_alone(name: str, epsilon: str, most: float) -> None:
    assert ratio(SHAPES[name], 2_000, epsilon) < most


def test_the_variance_of_a_wave() -> None:
    """Of 4,000 draws; all waves together."""
    law = Subset.of(Fraction(1), 8)
    places = np.repeat(np.arange(8), (30, 0, 0, 20, 0, 50, 0, 0))
    found = []
    for seed in range(4_000):
        counts = law.reports(places, SeededRandom(seed)).sum(axis=0)
        found.append(law.shares(counts, places.size))
    total = np.var(found, axis=0).sum()
    assert total == pytest.approx(7 * law.wave_variance(places.size), rel=0.03)


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=30), st.floats(0, 10))
def test_shares_are_shares(values: list[float], variance: float) -> None:
    """Whatever comes; and without noise they are those that the simplex gives."""
    unbiased = np.array(values)
    unbiased += (1 - unbiased.sum()) / unbiased.size
    found = smoothed(unbiased, variance)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    proper = on_simplex(unbiased)
    assert smoothed(proper, 0.0) == pytest.approx(proper, abs=1e-3)
