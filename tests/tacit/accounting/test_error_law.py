"""Quantiles of the error against closed forms and drawn noise.

Spec: console, sections 4.3 and 7.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.expected_error import absolute_quantiles, standard_deviation
from tacit.accounting.loss.rounding import Draws
from tacit.noise import DiscreteLaplace, PolyaShare
from tacit.randomness import SeededRandom

LEVELS = (0.025, 0.5, 0.95)


def most(scale: float, reach: float) -> float:
    """P(|X| <= k) = 1 - 2 a^(k+1) / (1 + a) with a = e^(-1/scale)."""
    rate = 1 / scale
    return 1 - 2 * math.exp(-rate * (reach + 1)) / (1 + math.exp(-rate)) if reach >= 0 else 0.0


@given(st.fractions(Fraction(1, 5), 300), st.floats(0.01, 0.999))
def test_one_narrow_laplace_is_exact(scale: Fraction, level: float) -> None:
    [found] = absolute_quantiles((Draws(scale, 1),), (level,))
    assert found == int(found)
    assert most(float(scale), found - 1) < level + 1e-9
    assert most(float(scale), found) > level - 1e-9


@pytest.mark.parametrize("scale", [10**4, 10**9, 10**15])
def test_a_wide_laplace(scale: int) -> None:
    found = absolute_quantiles((Draws(Fraction(scale), 1),), LEVELS)
    for quantile, level in zip(found, LEVELS, strict=True):
        assert quantile == pytest.approx(-math.log(1 - level) * scale, abs=0.01 * scale)


def test_shares_add_up_to_one_draw() -> None:
    whole = absolute_quantiles((Draws(Fraction(100), 1),), LEVELS)
    assert absolute_quantiles((Draws(Fraction(100), 400, Fraction(1, 400)),), LEVELS) == whole


def test_many_draws_are_nearly_normal() -> None:
    draws = (Draws(Fraction(30), 10_000),)
    [found] = absolute_quantiles(draws, (0.95,))
    assert found == pytest.approx(1.959964 * standard_deviation(draws), rel=0.005)


def test_curators_that_mostly_do_not_draw() -> None:
    """Two draws expected of 10,000: none with e^-2, and then the error is 0."""
    draws = (Draws(Fraction(50), 10_000, probability=Fraction(1, 5000)),)
    silent = math.exp(-2)
    assert absolute_quantiles(draws, (silent * 0.99,)) == (0.0,)
    assert absolute_quantiles(draws, (silent * 1.05,))[0] > 0


def test_no_noise_is_no_error() -> None:
    assert absolute_quantiles((), (0.5, 0.95)) == (0.0, 0.0)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, math.nan])
def test_only_levels_between_0_and_1(level: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        absolute_quantiles((Draws(Fraction(1), 1),), (level,))


def test_drawn_noise_of_two_layers_falls_as_told() -> None:
    """40,000 sums of five shares and one whole draw: each of three shares of them is off by less
    than five standard errors (false alarms 2e-6)."""
    random, count = SeededRandom(29), 40_000
    share, whole = Fraction(1, 5), Draws(Fraction(9), 1)
    total = DiscreteLaplace(Fraction(9)).draw(random, count).astype(np.int64)
    for _ in range(5):
        total += PolyaShare(Fraction(40), share).draw(random, count).astype(np.int64)
    draws = (Draws(Fraction(40), 5, share), whole)
    for quantile, level in zip(absolute_quantiles(draws, LEVELS), LEVELS, strict=True):
        below = np.mean(np.abs(total) < quantile)
        upto = np.mean(np.abs(total) <= quantile)
        slack = 5 * math.sqrt(level * (1 - level) / count)
        assert below - slack <= level <= upto + slack
