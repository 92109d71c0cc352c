"""Limits in zCDP against the formula that they are made of. Spec: profiles, section 4."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting.amounts import FEMTO, MOST_RHO, NANO, SMALLEST_DELTA
from tacit.accounting.composition import LARGEST_EPSILON, ZcdpLimit, stated_epsilon
from tacit.noise.gaussian_privacy import zcdp_delta
from tests.property_examples import examples

MILLIONTH = Fraction(1, 10**6)
YEAR = ZcdpLimit(Fraction(8), MILLIONTH)
DAY = ZcdpLimit(Fraction(1), MILLIONTH)
LEAST = Fraction(SMALLEST_DELTA) / (1 - Fraction(1, 10**9))


def kept(limit: ZcdpLimit, rho: int, delta: int) -> bool:
    """As the specification writes it; any rho takes some delta, also where floats write 0."""
    taken = Fraction(
        max(zcdp_delta(rho / NANO, float(limit.epsilon)), SMALLEST_DELTA) if rho else 0
    )
    return taken + Fraction(delta, FEMTO) <= limit.delta * (1 - Fraction(1, 10**9))


def test_the_figures_of_the_specification() -> None:
    assert YEAR.most_rho() // 10**3 == 1_052_358
    assert DAY.most_rho() // 10**3 == 24_355
    assert 365 * 2_883_172 <= YEAR.most_rho() < 366 * 2_883_172


@examples(80)
@given(
    st.fractions(Fraction(1, 1000), 40, max_denominator=1000),
    st.integers(1, 12),
    st.sampled_from((0, 1, 10**6, 5 * 10**8, 10**9 - 2, 10**9 - 1, 10**9)),
)
def test_the_largest_rho_holds_and_one_more_does_not(
    epsilon: Fraction, digits: int, spent: int
) -> None:
    limit = ZcdpLimit(epsilon, Fraction(1, 10**digits))
    most = limit.most_rho(spent)
    if most < 0:
        assert not kept(limit, 0, spent)
        return
    assert kept(limit, most, spent)
    # Of large figures a little more than one more: the minimum over orders is found to 12 digits.
    assert not kept(limit, most + 1 + most // 10**11, spent)


def test_deltas_that_are_spent_leave_less_and_all_of_it_leaves_nothing() -> None:
    most = [YEAR.most_rho(spent) for spent in (0, 1, 10**3, 10**8, 10**9 - 2, 10**9 - 1, 10**9)]
    assert most == sorted(most, reverse=True)
    assert most[-2:] == [0, -1]
    few = ZcdpLimit(Fraction(8), Fraction(2, 10**15))
    assert few.most_rho() == few.most_rho(0) > few.most_rho(1)
    tiny = ZcdpLimit(Fraction(8), Fraction(1, 10**400))
    assert tiny.most_rho() == 0  # floats know no such delta
    assert ZcdpLimit(Fraction(8), LEAST).most_rho() > 0


def test_the_bounds_of_a_limit() -> None:
    assert ZcdpLimit(Fraction(0), MILLIONTH).most_rho() <= 1
    most = ZcdpLimit(Fraction(LARGEST_EPSILON), Fraction(999, 1000)).most_rho()
    assert 10**4 * NANO == LARGEST_EPSILON * NANO < most < MOST_RHO
    assert ZcdpLimit(Fraction(LARGEST_EPSILON), 1 - Fraction(1, 10**8)).most_rho() < MOST_RHO


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 1), st.integers(0, 12)), max_size=30))
def test_many_sums_are_compared_as_each_alone(sums: list[tuple[int, int, int]]) -> None:
    """Each rho is the largest for one of the deltas, or one more."""
    deltas = [*range(0, 6 * 10**8, 10**8 // 2), 10**9]
    rho = np.array([YEAR.most_rho(deltas[at]) + more for at, more, _ in sums], np.int64)
    delta = np.array([deltas[step] for *_, step in sums], np.int64)
    over = YEAR.exceeded(rho, delta)
    assert over.tolist() == [
        one > YEAR.most_rho(other) for one, other in zip(rho.tolist(), delta.tolist(), strict=True)
    ]


@pytest.mark.parametrize(("rho", "delta"), [(2_883_172 * 365, 0), (24_355_000, 10**8), (1, 0)])
def test_a_rho_is_stated_as_the_least_limit_that_admits_it(rho: int, delta: int) -> None:
    stated = stated_epsilon(rho, delta)
    assert rho <= ZcdpLimit(stated, MILLIONTH).most_rho(delta)
    assert rho > ZcdpLimit(stated - Fraction(2, 10**6), MILLIONTH).most_rho(delta)


def test_nothing_is_stated_of_what_no_epsilon_covers() -> None:
    assert stated_epsilon(MOST_RHO, 0) is None
    assert stated_epsilon(1, 10**9 - 1) is None
    assert stated_epsilon(1, 0, Fraction(0)) is None
    assert stated_epsilon(1, 0, LEAST) is not None
