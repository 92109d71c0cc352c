"""Shares of neighbouring buckets: smoothed where noise hides them, left alone where it does not."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.crowd_tasking.prediction import smoothed, subset_shares
from algorithms.simplex import on_simplex
from tacit.encoders.crowd_tasking_bounded import Floats, Subset
from tacit.randomness import SeededRandom

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
