"""Figures of Gaussian noise to the last digits: 40-digit minima, searches, tails, edges."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import pytest
from scipy import stats

from tacit.noise.gaussian_privacy import (
    _bisected,
    _log_shape,
    _log_upper_tail,
    _minimum,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_sigma,
    projection_theorem_epsilon,
    projection_theorem_sigma,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
    zcdp_sigma,
)

EXACT = Context(prec=40)
SLACK = 1e-12


# --------------------------------------------------------------------------------- numerics


@pytest.mark.parametrize("above", [1e-9, 0.25, 0.999, 1.0, 1.5, 4.0, 1e7])
def test_the_shape_of_an_order(above: float) -> None:
    """log of (1 - 1/a)^a / (a - 1)."""
    with localcontext(EXACT):
        a = 1 + Decimal(above)
        exact = a * (1 - 1 / a).ln() - (a - 1).ln()
    assert _log_shape(above) == pytest.approx(float(exact), rel=1e-14, abs=0)


@pytest.mark.parametrize("x", [-6.0, -1.0, 0.0, 0.7, 5.0, 24.999, 25.0, 25.001, 31.0, 400.0])
def test_the_logarithm_of_a_tail(x: float) -> None:
    assert _log_upper_tail(x) == pytest.approx(float(stats.norm.logsf(x)), rel=2e-14, abs=1e-16)


@pytest.mark.parametrize("end", [1e-300, 1e-9, 0.3, 1.0, 7.77, 123456.0])
def test_a_search_finds_the_last_value_that_holds(end: float) -> None:
    found = _bisected(lambda x: x <= end, 0.0, 1e9)
    assert found == pytest.approx(end, rel=1e-15, abs=1e-27)
    if end > 1e-6:
        assert found == end


def test_a_search_ends_where_all_holds_or_nothing_does() -> None:
    assert _bisected(lambda x: x <= 5.0, 0.0, 5.0) == 5.0
    assert _bisected(lambda x: x <= 5.0, 0.0, 4.0) == 4.0
    assert _bisected(lambda x: x <= 0.0, 0.0, 1.0) < 1e-30
    assert _bisected(lambda x: x <= 1.0, 1.0, 2.0) == 1.0


def asked_of(end: float, low: float, high: float) -> list[float]:
    """The values that a search asks about, where those up to `end` hold."""
    asked: list[float] = []

    def holds(x: float) -> bool:
        asked.append(x)
        return x <= end

    assert _bisected(holds, low, high) == end
    return asked


def test_a_search_is_geometric_where_the_bounds_are_far_apart() -> None:
    # sqrt(256), sqrt(16), then halves: the ratio is no longer above 4.
    assert asked_of(1.5, 1.0, 256.0)[:5] == [256.0, 16.0, 4.0, 2.5, 1.75]
    assert asked_of(2.0, 1.0, 4.5)[:2] == [4.5, math.sqrt(4.5)]
    assert asked_of(0.01, 2.0**-8, 1.0)[:3] == [1.0, 2.0**-4, 2.0**-6]


def test_a_search_has_120_steps() -> None:
    assert asked_of(0.0, 0.0, 1.0) == [2.0**-step for step in range(121)]


@pytest.mark.parametrize("place", [-20.0, -19.9, -7.3, 0.0, 0.6, 12.34, 39.9, 40.0])
def test_a_minimum_is_found_in_the_logarithm(place: float) -> None:
    """A parabola whose lowest point lies in e^-20..e^40."""
    asked: list[float] = []

    def value(above: float) -> float:
        asked.append(math.log(above))
        return (math.log(above) - place) ** 2

    assert _minimum(value) == pytest.approx(0, abs=1e-24)
    assert (min(asked), max(asked)) == pytest.approx((-20, 40), abs=1e-12)
    # A look at every quarter, then two for each of 60 steps, and three at the end.
    assert sorted({round(a, 2) for a in asked[:241]}) == [-20 + k / 4 for k in range(241)]
    assert len(asked) == 241 + 2 * 60 + 3


def test_a_minimum_beyond_the_marks_is_at_their_end() -> None:
    assert _minimum(lambda above: (math.log(above) + 25) ** 2) == pytest.approx(25, rel=1e-9)
    assert _minimum(lambda above: (math.log(above) - 45) ** 2) == pytest.approx(25, rel=1e-9)


# ------------------------------------------------------------------------------------- zCDP


def least(value: Callable[[Decimal], Decimal]) -> Decimal:
    """The least over a - 1 > 0: a coarse look at its logarithm, then golden sections."""
    with localcontext(EXACT):
        marks = [Decimal(k) / 2 for k in range(-40, 41)]
        best = min(marks, key=lambda mark: value(mark.exp()))
        low, high = best - 1, best + 1
        golden = (Decimal(5).sqrt() - 1) / 2
        for _ in range(80):
            one, other = high - golden * (high - low), low + golden * (high - low)
            if value(one.exp()) < value(other.exp()):
                high = other
            else:
                low = one
        return value(low.exp())


def shape(above: Decimal) -> Decimal:
    return (1 + above) * (above / (1 + above)).ln() - above.ln()


@pytest.mark.parametrize(
    ("rho", "epsilon"), [(0.02, 1.0), (1.0, 8.0), (0.5, 0.75), (1e-4, 0.05), (100.0, 172.0)]
)
def test_a_delta_of_zcdp(rho: float, epsilon: float) -> None:
    """The infimum over the orders, and the slack of one in 10^12."""
    exact = least(lambda x: x * ((1 + x) * Decimal(rho) - Decimal(epsilon)) + shape(x)).exp()
    assert zcdp_delta(rho, epsilon) == pytest.approx(float(exact) * (1 + SLACK), rel=1e-13, abs=0)


@pytest.mark.parametrize(
    ("rho", "delta"), [(0.02, 1e-6), (1.0, 1e-9), (1e-4, 1e-5), (50.0, 1e-6), (0.5, 0.2)]
)
def test_an_epsilon_of_zcdp(rho: float, delta: float) -> None:
    exact = least(lambda x: (1 + x) * Decimal(rho) + (shape(x) - Decimal(delta).ln()) / x)
    expected = float(exact) * (1 + SLACK) + SLACK
    assert zcdp_epsilon(rho, delta) == pytest.approx(expected, rel=2e-13, abs=0)


def test_where_zcdp_needs_no_epsilon() -> None:
    assert zcdp_epsilon(1e-6, 0.9) == SLACK
    assert zcdp_epsilon(0, 0.5) == 0
    assert zcdp_delta(0, 0) == zcdp_delta(0, 1) == 0
    assert zcdp_delta(1e6, 0) == 1
    assert 0 < zcdp_delta(1, 0) <= 1


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.05, 1e-9), (8.0, 0.01)])
def test_a_rho_is_the_largest(epsilon: float, delta: float) -> None:
    rho = zcdp_rho(epsilon, delta)
    assert zcdp_delta(rho, epsilon) <= delta
    assert zcdp_delta(rho * (1 + 1e-10), epsilon) > delta
    sigma = zcdp_sigma(epsilon, delta, 3.0)
    assert (sigma * 2**20).denominator == 1
    exact = 3 / math.sqrt(2 * rho)
    assert 0 < float(sigma) - exact <= 2**-20 + 1e-9
    assert sigma == Fraction(math.ceil(exact * (1 + SLACK) * 2**20), 2**20)
    # The slack comes before the rounding: a deviation of 3 would be met exactly.
    assert zcdp_sigma(epsilon, delta, 3 * math.sqrt(2 * rho)) == 3 + Fraction(1, 2**20)


def test_figures_that_are_met_exactly_are_kept() -> None:
    """The searches ask about a rho of 1, an epsilon of 1/2 and a deviation of 2^30 / 10^9."""
    assert zcdp_rho(1.0, zcdp_delta(1.0, 1.0)) == 1
    at_half = gaussian_delta(0.5, 1.0, 1.0)
    assert gaussian_delta(1.0, 1.0, 1.0) < at_half
    assert gaussian_epsilon(1.0, at_half, 1.0) <= 0.5 * (1 + SLACK)
    rate = 1e9 / 2**30
    assert gaussian_sigma(4.0, gaussian_delta(4.0, 1 / rate, 1.0), 1.0) <= 1 / rate * (1 + SLACK)


def test_a_deviation_is_at_least_a_billionth_of_the_sensitivity() -> None:
    assert gaussian_sigma(1e18, 0.5, 3.0) == 3.0 / 1e9 * (1 + SLACK)


# ------------------------------------------------------------------------- the exact profile


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 4.0])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("sensitivity", [0.5, 1.0, 3.0])
def test_the_profile_is_the_theorem(epsilon: float, sigma: float, sensitivity: float) -> None:
    half, shift = sensitivity / (2 * sigma), epsilon * sigma / sensitivity
    whole = float(stats.norm.cdf(half - shift))
    expected = whole - math.exp(epsilon) * float(stats.norm.cdf(-half - shift))
    found = gaussian_delta(epsilon, sigma, sensitivity)
    # The terms cancel: what is left has the rounding of both.
    assert found == pytest.approx(expected, rel=1e-12, abs=4e-14 * whole)


def test_a_profile_that_cancels_is_0() -> None:
    assert gaussian_delta(100, 5, 1) == 0
    assert gaussian_delta(0, 1e300, 1e-300) == 0
    assert 0 < gaussian_delta(10, 5, math.sqrt(2)) < 1e-200


@pytest.mark.parametrize(("sigma", "delta"), [(1.0, 1e-6), (0.2, 1e-3), (4.0, 0.01), (0.05, 1e-9)])
def test_an_epsilon_of_the_profile_is_the_least(sigma: float, delta: float) -> None:
    found = gaussian_epsilon(sigma, delta, 1.5)
    assert gaussian_delta(found * (1 - 0.5 * SLACK), sigma, 1.5) <= delta
    assert gaussian_delta(found * (1 - 1.5 * SLACK), sigma, 1.5) > delta


def test_where_the_profile_needs_no_epsilon() -> None:
    at_zero = gaussian_delta(0.0, 2.0, 1.0)
    assert gaussian_epsilon(2.0, at_zero, 1.0) == 0
    assert gaussian_epsilon(2.0, at_zero * 1.5, 1.0) == 0
    assert 0 < gaussian_epsilon(2.0, at_zero * 0.999, 1.0) < 0.01


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-3), (4.0, 0.01), (1.0, 0.9), (0.5, 1e-8)]
)
def test_a_sigma_of_the_profile_is_the_least(epsilon: float, delta: float) -> None:
    found = gaussian_sigma(epsilon, delta, 1.5)
    assert gaussian_delta(epsilon, found * (1 - 0.5 * SLACK), 1.5) <= delta
    assert gaussian_delta(epsilon, found * (1 - 1.5 * SLACK), 1.5) > delta


# ------------------------------------------------------------------------------ the theorem


def test_the_theorem_and_its_inverse() -> None:
    for epsilon, delta, vertices in ((1.0, 1e-6, 1000), (0.5, 0.1, 2), (7.0, 1e-9, 10**6)):
        square = 10 * (epsilon - math.log(2 * delta)) * (math.log(vertices) - math.log(delta))
        sigma = projection_theorem_sigma(epsilon, delta, vertices)
        assert sigma == pytest.approx(math.sqrt(square) / epsilon, rel=1e-13, abs=0)
        found = projection_theorem_epsilon(sigma, delta, vertices)
        assert found == pytest.approx(epsilon, rel=1e-12, abs=0)


# -------------------------------------------------------------------------------- the range


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 1.5])
def test_deltas_that_are_refused(delta: float) -> None:
    calls: list[Callable[[], object]] = [
        lambda: zcdp_epsilon(1, delta),
        lambda: zcdp_rho(1, delta),
        lambda: gaussian_epsilon(1, delta, 1),
        lambda: gaussian_sigma(1, delta, 1),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="between 0 and 1"):
            call()


def test_amounts_that_are_refused() -> None:
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: zcdp_delta(-1e-9, 1), "negative"),
        (lambda: zcdp_delta(1, -1e-9), "negative"),
        (lambda: zcdp_epsilon(-1e-9, 0.5), "rho is not negative"),
        (lambda: zcdp_rho(0, 0.5), "above 0"),
        (lambda: gaussian_delta(-1e-9, 1, 1), "above 0"),
        (lambda: gaussian_delta(1, 0, 1), "above 0"),
        (lambda: gaussian_delta(1, 1, 0), "above 0"),
        (lambda: gaussian_sigma(0, 0.5, 1), "above 0"),
        (lambda: projection_theorem_sigma(0, 0.1, 10), "above 0"),
        (lambda: projection_theorem_epsilon(0, 0.1, 10), "above 0"),
        (lambda: projection_theorem_sigma(1, 0.5, 10), "below 1/2"),
        (lambda: projection_theorem_sigma(1, 0, 10), "below 1/2"),
        (lambda: projection_theorem_epsilon(1, 0.1, 1), "two vertices"),
    ]
    for call, message in calls:
        with pytest.raises(ValueError, match=message):
            call()
    assert zcdp_rho(0.5, 0.5) > 0
    assert gaussian_sigma(0.5, 0.999, 1) > 0
    assert projection_theorem_sigma(0.5, 0.499, 2) > 0
    assert projection_theorem_epsilon(0.5, 0.499, 2) > 0
