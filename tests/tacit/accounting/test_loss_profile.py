"""Which law a part of a query is handed to: every kind of layer, and each at its edge."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from tacit.accounting.loss.coins import mixture_delta
from tacit.accounting.loss.fractional import log_concave_delta, share_delta, share_pure_epsilon
from tacit.accounting.loss.profile import delta_at, pure_epsilon
from tacit.accounting.loss.rounding import Draws, decimal_up
from tacit.accounting.loss.whole import whole_delta

TEN, FIVE = Fraction(10), Fraction(5)
HALF = Fraction(1, 2)


def test_the_epsilon_of_whole_draws_is_that_of_the_widest() -> None:
    assert pure_epsilon(20, (Draws(TEN, 1),)) == 2
    assert pure_epsilon(20, (Draws(TEN, 1), Draws(FIVE, 1))) == 2
    assert pure_epsilon(20, (Draws(FIVE, 3), Draws(TEN, 1)), dimension=7) == 2
    assert pure_epsilon(20, (Draws(Fraction(3), 1),)) == Decimal("6.6666666666666667")


def test_shares_of_one_scale_are_added() -> None:
    halves = (Draws(TEN, 1, HALF), Draws(TEN, 1, HALF))
    assert pure_epsilon(20, halves, dimension=2) == 2
    assert delta_at(Fraction(2), 20, halves, dimension=2).value == 0
    assert pure_epsilon(20, (Draws(TEN, 1, HALF),), dimension=2) is None


def test_only_what_is_sure_counts_for_a_pure_epsilon() -> None:
    unsure = Draws(TEN, 1, probability=HALF)
    assert pure_epsilon(20, (unsure,)) is None
    assert pure_epsilon(20, (unsure, Draws(FIVE, 1))) == 4
    assert pure_epsilon(20, (Draws(TEN, 0), Draws(FIVE, 1))) == 4
    assert pure_epsilon(20, (Draws(TEN, 0),)) is None
    assert pure_epsilon(20, ()) is None


def test_the_epsilon_of_shares_is_the_least_of_theirs() -> None:
    expected = [share_pure_epsilon(20, scale, HALF) for scale in (TEN, FIVE)]
    assert expected[0] < expected[1]
    assert pure_epsilon(20, (Draws(TEN, 1, HALF),)) == expected[0]
    assert pure_epsilon(20, (Draws(FIVE, 1, HALF), Draws(TEN, 1, HALF))) == expected[0]


def test_a_whole_draw_beside_a_share_gives_the_epsilon() -> None:
    both = (Draws(TEN, 1, HALF), Draws(FIVE, 1))
    assert pure_epsilon(20, both) == 4
    assert delta_at(Fraction(4), 20, both).value == 0


@pytest.mark.parametrize("dimension", [1, 2])
def test_from_the_ratio_on_there_is_no_delta(dimension: int) -> None:
    for draws in ((Draws(TEN, 1),), (Draws(TEN, 3, HALF),), (Draws(FIVE, 1), Draws(TEN, 2))):
        assert delta_at(Fraction(2), 20, draws, dimension).value == 0
        assert delta_at(Fraction(5, 2), 20, draws, dimension).value == 0
        assert 0 < delta_at(Fraction(19, 10), 20, draws, dimension).value < 1
    # A weight below 1 has an epsilon of its own, above the ratio.
    assert delta_at(Fraction(2), 20, (Draws(TEN, 1, HALF),), dimension).value > 0


def test_every_law_is_asked_and_the_least_bound_taken() -> None:
    epsilon = Fraction(1, 2)
    for weight in (Fraction(1), Fraction(3, 2), Fraction(4)):
        expected = log_concave_delta(epsilon, 20, TEN, weight)
        assert delta_at(epsilon, 20, (Draws(TEN, 1, weight),), dimension=3).value == expected
    assert delta_at(epsilon, 20, (Draws(TEN, 1, HALF),)).value == share_delta(
        epsilon, 20, TEN, HALF
    )
    assert delta_at(epsilon, 20, (Draws(TEN, 1, HALF),), dimension=2).value == 1
    added = whole_delta(epsilon, 20, ((1, TEN), (2, FIVE)))
    alone = [
        log_concave_delta(epsilon, 20, scale, Fraction(n)) for n, scale in ((1, TEN), (2, FIVE))
    ]
    assert added < min(alone)
    assert delta_at(epsilon, 20, (Draws(TEN, 1), Draws(FIVE, 2)), dimension=4).value == added


def test_two_scales_of_shares_are_bounded_by_the_better_one() -> None:
    epsilon = Fraction(1, 2)
    shares = (Draws(FIVE, 1, HALF), Draws(TEN, 1, HALF))
    each = [share_delta(epsilon, 20, scale, HALF) for scale in (FIVE, TEN)]
    assert delta_at(epsilon, 20, shares).value == min(each) < max(each)
    beside = (Draws(TEN, 1, Fraction(3, 2)), Draws(FIVE, 1, HALF))
    expected = log_concave_delta(epsilon, 20, TEN, Fraction(3, 2))
    assert delta_at(epsilon, 20, beside, dimension=2).value == expected


def test_coins_are_for_the_mixture_unless_nobody_throws_them() -> None:
    epsilon = Fraction(1, 2)
    draws = (Draws(TEN, 2, probability=HALF),)
    found = delta_at(epsilon, 20, draws, dimension=2)
    assert found.certified
    assert found.value == mixture_delta(((epsilon, 20, draws, 2),))
    assert delta_at(epsilon, 20, draws).value == mixture_delta(((epsilon, 20, draws, 1),))
    nobody = (Draws(TEN, 0, probability=HALF), Draws(FIVE, 1, Fraction(3, 2)))
    expected = log_concave_delta(epsilon, 20, FIVE, Fraction(3, 2))
    assert delta_at(epsilon, 20, nobody).value == expected
    assert delta_at(epsilon, 20, ()).value == 1
    assert decimal_up(Fraction(1)) == pure_epsilon(10, (Draws(TEN, 0, HALF), Draws(TEN, 1)))
