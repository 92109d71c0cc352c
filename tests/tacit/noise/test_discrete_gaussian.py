"""The discrete Gaussian sampler against its exact law.

Spec: graph-random-matrix, section 8, check 4.

Checks of draws use fixed seeds of `SeededRandom`; with fresh seeds each would fail at the rate
that it names though all is well.
"""

from __future__ import annotations

import math
from fractions import Fraction
from importlib.util import find_spec

import numpy as np
import pytest
from scipy import stats

from tacit.noise.discrete_gaussian import (
    DiscreteGaussian,
    gaussian_table,
    reach_of,
)
from tacit.noise.discrete_gaussian import _layers as layers
from tacit.randomness import SecureRandom, SeededRandom

ALARM = 1e-6
DRAWS = 400_000
DEVIATIONS = [Fraction(text) for text in ("0.3", "1", "90.65", "1024", "5000", "1000000", "3e8")]
Z = 1 << 64


def goodness(drawn: np.ndarray, deviation: float, cells: int = 64) -> float:
    """The p-value of chi-square over cells of about equal mass, by the normal law with whole edges
    (the sums differ from the integral by less than e^-19 from a deviation of 1 on)."""
    edges = np.unique(np.rint(stats.norm.ppf(np.arange(1, cells) / cells) * deviation))
    if deviation <= 2000:
        inner = np.arange(-int(12 * deviation) - 3, int(12 * deviation) + 4)
        masses = np.exp(-(inner**2) / (2 * deviation**2))
        masses /= masses.sum()
        place = np.searchsorted(edges, inner, side="right")
        law = np.bincount(place, masses, len(edges) + 1)
    else:
        below = stats.norm.cdf((edges - 0.5) / deviation)
        law = np.diff(np.concatenate([[0], below, [1]]))
    counts = np.bincount(np.searchsorted(edges, drawn, side="right"), minlength=len(law))
    held = law * len(drawn) > 5
    assert held.sum() >= 3
    rest = 1 - law[held].sum()
    expected = np.append(law[held], rest) * len(drawn)
    found = np.append(counts[held], counts[~held].sum())
    if rest * len(drawn) < 5:
        expected, found = expected[:-1], found[:-1]
        expected *= found.sum() / expected.sum()
    return float(stats.chisquare(found, expected).pvalue)


def test_scale_one_has_the_stated_masses() -> None:
    """Within 4 standard errors of 4 million draws: each fails once in 15,800 fresh seeds."""
    drawn = DiscreteGaussian(Fraction(1)).draw(SeededRandom(1), 4_000_000)
    for value, mass in ((0, 0.398942), (1, 0.241971), (-1, 0.241971)):
        share = (drawn == value).mean()
        assert abs(share - mass) < 4 * math.sqrt(mass * (1 - mass) / drawn.size)
    law = DiscreteGaussian(Fraction(1)).pmf(np.arange(-4, 5))
    counts = np.bincount(drawn[np.abs(drawn) <= 4] + 4)
    assert stats.chisquare(counts, law / law.sum() * counts.sum()).pvalue > 1e-4


def test_the_variance_of_a_usual_scale() -> None:
    """sqrt(2 / 4e6) = 0.0007: 0.003 is over four standard errors."""
    drawn = DiscreteGaussian(Fraction("90.65") ** 2).draw(SeededRandom(2), 4_000_000)
    assert abs(drawn.var() / 90.65**2 - 1) < 0.003
    assert abs(drawn.mean()) < 5 * 90.65 / 2000


@pytest.mark.parametrize("deviation", DEVIATIONS, ids=str)
def test_draws_follow_the_law(deviation: Fraction) -> None:
    drawn = DiscreteGaussian(deviation**2).draw(SeededRandom(20), DRAWS)
    assert drawn.dtype == np.int64
    assert drawn.shape == (DRAWS,)
    assert goodness(drawn, float(deviation)) > ALARM
    assert np.abs(drawn).max() <= reach_of(deviation**2) + (1 << 25)


def test_low_bits_beyond_one_table() -> None:
    """What a wrong cell or a wrong coin would show: the residue of the magnitude in a cell."""
    variance = Fraction(5000) ** 2
    shift = layers(variance).shift
    drawn = DiscreteGaussian(variance).draw(SeededRandom(21), DRAWS)
    counts = np.bincount(np.abs(drawn) % (1 << shift), minlength=1 << shift)
    assert stats.chisquare(counts).pvalue > ALARM


@pytest.mark.parametrize("deviation", ["0.05", "1", "6.41", "90.65"])
def test_a_table_is_exact(deviation: str) -> None:
    """Against weights from the normal law summed with other arithmetic; ends with 2^64 - 1."""
    variance = Fraction(deviation) ** 2
    table = gaussian_table(variance)
    weights = table.weights()
    assert int(table.bounds[-1]) == Z - 1
    assert sum(weights) == 1 << 512
    assert len(weights) == 2 * reach_of(variance) + 1
    assert abs(weights[0] - weights[-1]) <= 2  # cumulated sums are rounded, from one side
    middle = len(weights) // 2
    law = DiscreteGaussian(variance).pmf(np.arange(-3, 4))
    for place, mass in zip(range(middle - 3, middle + 4), law, strict=True):
        assert weights[place] / (1 << 512) == pytest.approx(mass, rel=1e-12, abs=1e-300)
    # P(1) / P(0) = e^(-1 / 2 s^2), P(2) / P(0) is its fourth power: a check of many digits.
    ratio = Fraction(weights[middle + 1], weights[middle])
    other = Fraction(weights[middle + 2], weights[middle])
    if other > Fraction(1, 10**20):
        assert abs(ratio**4 / other - 1) < Fraction(1, 10**120)


@pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
@pytest.mark.parametrize("kind", [np.int32, np.int64], ids=["int32", "int64"])
@pytest.mark.parametrize("deviation", ["0.3", "90.65"])
def test_the_compiled_twin_draws_the_same(deviation: str, kind: type) -> None:
    law = DiscreteGaussian(Fraction(deviation) ** 2)
    plain = np.arange(50_001, dtype=kind)
    compiled = plain.copy()
    law.add_to(plain, SecureRandom.from_secret_seed(bytes(32), "one"))
    law.add_to(compiled, SecureRandom.from_secret_seed(bytes(32), "one"), compiled=True)
    assert (plain == compiled).all()
    assert (plain != np.arange(50_001)).any()
