"""Rows of noise: one coin each, one scale per block; the self-test and the floating baseline."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tacit.noise import floating_laplace, laplace, polya_shares, probabilistic_laplace, self_test
from tacit.noise.self_test import FALSE_ALARM
from tacit.randomness import SecureRandom, SeededRandom
from tests.tacit.noise.words import Counting

ALARM = 1e-6
SCALES = [Fraction(2), Fraction(500)]
DIMENSIONS = [3, 2]


def test_each_block_has_its_scale():
    noise = laplace(SeededRandom(1), SCALES, DIMENSIONS, 100_000)
    assert noise.shape == (100_000, 5) and noise.dtype == np.int64
    for column, b in enumerate([2, 2, 2, 500, 500]):
        a = np.exp(-1 / b)
        assert noise[:, column].std() == pytest.approx(np.sqrt(2 * a) / (1 - a), rel=0.02)
    correlation = np.corrcoef(noise, rowvar=False) - np.eye(5)
    assert np.abs(correlation).max() < 0.02


def test_one_coin_per_contribution():
    """A row is noisy in every column or in none: no column is bared alone."""
    rows = probabilistic_laplace(SeededRandom(2), [Fraction(10**6)], [8], Fraction(1, 4), 20_000)
    noisy = (rows != 0).sum(axis=1)
    assert set(noisy.tolist()) <= {0, 7, 8}  # a column of scale 10^6 is 0 about once in 10^6
    assert stats.binomtest(int((noisy > 0).sum()), 20_000, 0.25).pvalue > ALARM


def test_the_coin_costs_the_same_randomness_either_way():
    asked = set()
    for probability in (Fraction(0), Fraction(1, 1000), Fraction(1, 2), Fraction(1)):
        source = Counting(3)
        probabilistic_laplace(source, SCALES, DIMENSIONS, probability, 100)
        asked.add(source.asked)
    assert len(asked) == 1


def test_certain_coins():
    none = probabilistic_laplace(SeededRandom(4), SCALES, DIMENSIONS, Fraction(0), 1000)
    always = probabilistic_laplace(SeededRandom(4), SCALES, DIMENSIONS, Fraction(1), 1000)
    assert not none.any() and (always[:, 3] != 0).mean() > 0.99


def test_shares_of_all_parties_are_one_laplace():
    total = sum(
        polya_shares(SeededRandom(10 + i), SCALES, DIMENSIONS, Fraction(1, 5), 50_000)
        for i in range(5)
    )
    single = laplace(SeededRandom(5), SCALES, DIMENSIONS, 50_000)
    for column in range(5):
        assert stats.ks_2samp(total[:, column], single[:, column]).pvalue > ALARM


@pytest.mark.parametrize(
    ("scales", "dimensions", "count", "reason"),
    [
        ([], [], 1, "one scale and one dimension"),
        (SCALES, [1], 1, "one scale and one dimension"),
        (SCALES, [1, 0], 1, "at least one column"),
        (SCALES, [1, 1], -1, "a count is not negative"),
    ],
)
def test_malformed_blocks_are_refused(scales, dimensions, count, reason):
    with pytest.raises(ValueError, match=reason):
        laplace(SeededRandom(1), scales, dimensions, count)


def test_a_block_of_one_column():
    source = SeededRandom(1)
    expected = [laplace(source, [scale], [1], 10)[:, 0] for scale in SCALES]
    assert np.array_equal(laplace(SeededRandom(1), SCALES, [1, 1], 10), np.column_stack(expected))


def test_no_contribution():
    assert laplace(SeededRandom(1), SCALES, DIMENSIONS, 0).shape == (0, 5)


def test_floating_laplace_is_for_simulations():
    noise = floating_laplace(SeededRandom(6), 3.0, 100_000)
    assert stats.kstest(noise, stats.laplace(scale=3.0).cdf).pvalue > ALARM
    with pytest.raises(TypeError):
        floating_laplace(SecureRandom(), 3.0, 1)
    with pytest.raises(ValueError):
        floating_laplace(SeededRandom(6), 0.0, 1)
    assert floating_laplace(SeededRandom(6), 1e-9, 3).shape == (3,)


def test_self_test_statistics_are_chi_square():
    """Means over 20 runs are the degrees of freedom; the stated rate is an upper bound."""
    runs = [self_test(SeededRandom(seed)).checks for seed in range(20)]
    rate = 0.0
    for number, check in enumerate(runs[0]):
        mean = np.mean([run[number].statistic for run in runs])
        freedom = {"keystream": 255, "bernoulli": 1, "polya_share": 12}.get(check.sampler, 30)
        assert abs(mean - freedom) < 6 * np.sqrt(2 * freedom / 20)
        rate += stats.chi2.sf(check.limit, freedom)
    assert rate < FALSE_ALARM / 10


class Faulty:
    """Words of a sound generator, spoiled."""

    def __init__(self, spoil):
        self.inner, self.spoil = SeededRandom(7), spoil

    def words(self, count):
        return self.spoil(self.inner.words(count))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda words: words * np.uint64(0),
        lambda words: words | np.uint64(1),
        lambda words: words & np.uint64((1 << 63) - 1),
        lambda words: np.repeat(words[:1], len(words)),
        lambda words: words >> np.uint64(4),
    ],
    ids=["zero", "low bit stuck", "high bit stuck", "constant", "shifted"],
)
def test_a_spoiled_source_fails(spoil):
    assert not self_test(Faulty(spoil)).passed
