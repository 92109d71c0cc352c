"""How many records have each length, from noisy counts. Spec: set-valued, section 10."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from algorithms.set_valued.lengths import (
    SIZES,
    LengthCounts,
    _edges,
    _seen,
    _smoothed,
    _walk,
    consistent_lengths,
)

FALLING = np.rint(3_000 * 0.8 ** np.arange(64)).astype(np.int64)
"""Records of each length, falling by a fifth each time."""


def noisy(true: np.ndarray, scale: float, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return np.rint(true + generator.laplace(0, scale, true.size)).astype(np.int64)


def test_chances_are_those_of_all_sequences_of_classes() -> None:
    """Four lengths of five classes: each of the 625 sequences by itself."""
    generator = np.random.default_rng(1)
    chances, walk, ends = generator.random((4, 5)), _walk(5), generator.random(5)
    assert walk.sum(axis=1) == pytest.approx(np.ones(5))
    expected = np.zeros((4, 5))
    for sequence in itertools.product(range(5), repeat=4):
        chance = 0.5 if sequence[0] == 0 else 0.5 / 4
        for length, place in enumerate(sequence):
            chance *= chances[length, place]
            chance *= walk[place, sequence[length + 1]] if length < 3 else ends[place]
        for length, place in enumerate(sequence):
            expected[length, place] += chance
    expected /= expected.sum(axis=1, keepdims=True)
    assert _smoothed(chances, walk, ends) == pytest.approx(expected, rel=1e-9)


def test_what_is_seen_of_a_class_is_its_mean_chance() -> None:
    """By adding up e^-|off| over 20,000 places of each class."""
    edges = _edges(30.0, 500.0)
    seen = np.array([-90.0, 0.0, 77.0, 500.0])
    chances, means = _seen(seen, edges, 30.0)
    for row, count in enumerate(seen.tolist()):
        assert chances[row, 0] == pytest.approx(math.exp(-abs(count) / 30))
        assert means[row, 0] == 0
        for place, (low, high) in enumerate(itertools.pairwise(edges.tolist()), 1):
            inside = low + (high - low) * (np.arange(20_000) + 0.5) / 20_000
            weights = np.exp(-np.abs(inside - count) / 30)
            assert chances[row, place] == pytest.approx(weights.mean(), rel=1e-4)
            mean = (weights @ inside) / weights.sum()
            assert means[row, place] == pytest.approx(mean, rel=1e-3, abs=1e-2)


def test_clear_counts_stay_and_noise_alone_is_no_record() -> None:
    """Without noise to speak of all are exact; of 64 empty lengths less than two scales of noise
    are left on average, where cut at 0 they hold 32; no record is longer than may be."""
    exact = LengthCounts.of(FALLING, 64, Fraction(1, 50))
    assert exact.counts.tolist() == FALLING.tolist()
    assert exact.deviations.max() < 1
    large = np.full(64, 10**7)
    assert LengthCounts.of(large, 64, Fraction(30)).counts == pytest.approx(large, rel=1e-6)
    nothing = [
        LengthCounts.of(noisy(np.zeros(64), 30, seed), 64, Fraction(30)).counts.sum()
        for seed in range(40)
    ]
    assert np.mean(nothing) < 2 * 30
    few = LengthCounts.of(noisy(FALLING, 30, 1), 5, Fraction(30))
    assert not few.counts[5:].any()
    assert not few.deviations[5:].any()


@pytest.mark.parametrize("draws", [1, 3])
@pytest.mark.parametrize(
    "true", [FALLING, np.rint(20_000 / SIZES**2), np.where(SIZES < 40, 0, 120)]
)
def test_records_that_noise_hides_add_up(true: np.ndarray, draws: int) -> None:
    """30 releases at a scale of 30: the number of items of all records is off by less than by
    counts cut at 0 and by counts cut at five scales, the older rule. (Of 2,000 / L records of each
    length, a tail that does not fall, counts cut at 0 would err a quarter less.)"""
    off = np.zeros((30, 3))
    for seed in range(30):
        generator = np.random.default_rng(seed)
        noise = generator.laplace(0, 30, (draws, 64)).sum(axis=0)
        seen = np.rint(true + noise).astype(np.int64)
        found = LengthCounts.of(seen, 64, Fraction(30), Fraction(draws))
        shown = np.where(seen >= 150 * math.sqrt(draws), seen, 0)
        for place, counts in enumerate((found.counts, np.maximum(seen, 0), shown)):
            off[seed, place] = SIZES @ counts / (SIZES @ true) - 1
        assert found.hidden > 0
    errors = np.sqrt(np.square(off).mean(axis=0))
    assert errors[0] < 0.9 * errors[1:].min()


def test_items_correct_the_counts_that_are_known_least() -> None:
    """100 records too many, of lengths that are known alike or not; none falls below 0."""
    counts, deviations = np.zeros(64, np.int64), np.zeros(64)
    counts[[1, 9]], deviations[[1, 9]] = (1_000, 100), (1, 50)
    items = np.array([2_000.0, 500.0])  # 50 records of 10
    moved = consistent_lengths(counts, deviations, 64, items, 0.0)
    assert moved[[1, 9]].tolist() == [1_000, 50]
    half = consistent_lengths(counts, deviations, 64, items, 10 * 50 / math.sqrt(2))
    assert half[[1, 9]].tolist() == [1_000, 75]  # both sums are known as well
    assert consistent_lengths(counts, deviations, 64, 0 * items, 0.0)[9] == 0
    assert (consistent_lengths(counts, 0 * deviations, 64, items, 0.0) == counts).all()
    assert consistent_lengths(counts, deviations, 2, items, 0.0)[9] == pytest.approx(250, abs=1)


def test_counts_that_no_noise_explains_disturb_no_others() -> None:
    """Of a declared round a curator that lies moves a count by any amount."""
    seen = noisy(FALLING, 30, 1)
    seen[[20, 50]] = -(10**12), 10**12
    found = LengthCounts.of(seen, 64, Fraction(30))
    assert (found.counts[20], found.counts[50]) == (0, 10**12)
    assert np.isfinite(found.deviations).all()
    true = LengthCounts.of(noisy(FALLING, 30, 1), 64, Fraction(30)).counts
    assert np.abs(found.counts - true)[:19].max() < 30
