"""The error forecast against its table, closed forms and drawn noise.

Spec: aggregation, section 9.

Quantiles of the error against closed forms and drawn noise.

Spec: console, sections 4.3 and 7.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.expected_error import (
    Draws,
    absolute_quantiles,
    forecast,
    mean_absolute,
    smallest_useful_group,
    standard_deviation,
)
from tacit.noise import DiscreteLaplace, PolyaShare
from tacit.randomness import SeededRandom
from tests.tacit.examples import query

CURATORS, AGGREGATORS = 10_000, 5
UNITS = 5_000_000  # sensitivity 500 at a resolution of 1e-4
TABLE = {
    1: (615, 75_390, 1_231, 56_420, 500),
    10: (61.5, 7_539, 123.1, 5_642, 50),
    100: (6.15, 754, 12.3, 564, 5.0),
}


def layers(
    epsilon: Fraction,
    ratio: Fraction,
    pr_u: Fraction = Fraction(1, 10_000),
    pr_s: Fraction = Fraction(1, 100),
) -> tuple[Draws, Draws]:
    return (
        Draws(UNITS / (epsilon * ratio), CURATORS, probability=pr_u),
        Draws(UNITS / (epsilon * (1 - ratio)), AGGREGATORS, probability=pr_s),
    )


def error(*draws: Draws) -> float:
    return mean_absolute(draws) / 10_000


def this_work(ratio: str) -> float:
    return error(*layers(Fraction(10), Fraction(ratio)))


def orig(ratio: str) -> float:
    return error(*layers(Fraction(10), Fraction(ratio), Fraction(1), Fraction(1)))


@pytest.mark.parametrize("epsilon", TABLE)
def test_table_of_section_9(epsilon: int) -> None:
    ours, plain, privada, paste, one = TABLE[epsilon]
    e = Fraction(epsilon)
    assert error(*layers(e, Fraction(3, 4))) == pytest.approx(ours, rel=2e-3)
    assert error(*layers(e, Fraction(3, 4), Fraction(1), Fraction(1))) == pytest.approx(
        plain, rel=2e-3
    )
    assert error(Draws(UNITS / e, AGGREGATORS)) == pytest.approx(privada, rel=2e-3)
    assert error(Draws(UNITS / e, CURATORS)) == pytest.approx(paste, rel=2e-3)
    assert error(Draws(UNITS / e, 1)) == pytest.approx(one, rel=2e-3)


def test_minima_over_the_ratio() -> None:
    grid = [f"{k / 1000:.3f}" for k in range(780, 830)]
    assert abs(float(min(grid, key=this_work)) - 0.802) < 0.0015
    assert this_work("0.802") == pytest.approx(60.59, abs=0.01)
    assert this_work("0.817") == pytest.approx(60.70, abs=0.02)
    assert this_work("0.75") == pytest.approx(61.48, abs=0.01)
    grid = [f"{k / 1000:.3f}" for k in range(900, 950)]
    assert abs(float(min(grid, key=orig)) - 0.927) < 0.0015
    assert orig("0.927") == pytest.approx(6_326, abs=1)


def test_where_this_work_beats_privada() -> None:
    privada = error(Draws(Fraction(UNITS, 10), AGGREGATORS))
    assert this_work("0.330") > privada > this_work("0.332")
    assert this_work("0.969") < privada < this_work("0.971")
    for parameter, below, above in (("pr_u", "2.97e-4", "2.99e-4"), ("pr_s", "0.0924", "0.0926")):
        low, high = (
            error(*layers(Fraction(10), Fraction(3, 4), **{parameter: Fraction(value)}))
            for value in (below, above)
        )
        assert low < privada < high


def test_costs_of_a_true_guarantee() -> None:
    for t_s, expected in enumerate((50.0, 57.2, 67.6, 84.9, 123.0)):
        draws = Draws(Fraction(UNITS, 10), AGGREGATORS, Fraction(1, AGGREGATORS - t_s))
        assert error(draws) == pytest.approx(expected, abs=0.06)
    for t_u, expected in ((0, 50.0), (1_000, 53.3), (3_333, 63.7), (5_000, 75.0), (9_000, 176.0)):
        draws = Draws(Fraction(UNITS, 10), CURATORS, Fraction(1, CURATORS - t_u))
        assert error(draws) == pytest.approx(expected, abs=0.2)


def test_exact_has_no_error_but_of_rounding() -> None:
    assert forecast(query(), 5)[0].mean_absolute == 0
    assert smallest_useful_group(query(), Fraction(1, 100)) is None  # halves become 0 or 1
    assert smallest_useful_group(query(resolution="0.000000001"), Fraction(1, 100)) == 2


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
