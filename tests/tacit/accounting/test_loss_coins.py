"""Noise drawn with a coin, against binomials of Fractions and mixtures summed by definition."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from tacit.accounting.loss.coins import (
    Piece,
    _mixture,
    binomial_masses,
    exact_mixture_delta,
    mixture_delta,
    revealed_delta,
)
from tacit.accounting.loss.rounding import Draws, capped, decimal_up
from tacit.accounting.loss.whole import reach_of, whole_delta, whole_law
from tests.tacit.accounting.examples import hockey_stick

UNIT = 2.0**-53
HALF, THIRD, ONE, TWO = Fraction(1, 2), Fraction(1, 3), Fraction(1), Fraction(2)


def binomial(parties: int, probability: Fraction) -> list[Fraction]:
    """P(K = 0..parties)."""
    return [
        math.comb(parties, k) * probability**k * (1 - probability) ** (parties - k)
        for k in range(parties + 1)
    ]


@cache
def laplace(scale: Fraction) -> np.ndarray:
    """P(-W..W) of one discrete Laplace, a = e^(-1/b)."""
    a = math.exp(-1 / scale)
    z = np.abs(np.arange(-math.ceil(45 * scale), math.ceil(45 * scale) + 1))
    return (1 - a) / (1 + a) * np.exp(-z / float(scale))


@cache
def added(draws: int, scale: Fraction) -> np.ndarray:
    """P of a sum of discrete Laplaces; one point without any."""
    return np.convolve(added(draws - 1, scale), laplace(scale)) if draws else np.ones(1)


@cache
def mixed(draws: Draws) -> np.ndarray:
    """P of one layer: each party draws with its coin, or adds nothing."""
    law = np.zeros(added(draws.parties, draws.scale).size)
    for k, chance in enumerate(binomial(draws.parties, draws.probability)):
        one = added(k, draws.scale)
        start = (law.size - one.size) // 2
        law[start : start + one.size] += float(chance) * one
    return law


# ------------------------------------------------------------------------------ who draws


@pytest.mark.parametrize("probability", [THIRD, HALF, Fraction(9, 10)], ids=str)
@pytest.mark.parametrize(("parties", "most"), [(1, 1), (1, 5), (4, 5), (4, 4), (7, 3), (40, 32)])
def test_masses_are_rounded_up_and_the_last_is_a_tail(
    parties: int, most: int, probability: Fraction
) -> None:
    exact = binomial(parties, probability)
    found = binomial_masses(parties, probability, most)
    assert len(found) == min(parties, most) + 1
    assert list(found[:most]) == [decimal_up(mass) for mass in exact[:most]]
    if parties == most:
        assert found[most] == decimal_up(exact[most])
    elif parties > most:
        tail = sum(exact[most:])
        assert (
            tail < Fraction(found[most]) <= tail * (1 + Fraction(1, 10**16)) + Fraction(2, 10**40)
        )


def test_what_is_certain_is_one_mass() -> None:
    assert binomial_masses(3, Fraction(1), 8) == (0, 0, 0, 1)
    assert binomial_masses(9, Fraction(1), 2) == (0, 0, 1)
    assert binomial_masses(1, Fraction(1), 8) == (0, 1)
    assert binomial_masses(0, THIRD, 8) == binomial_masses(3, Fraction(0), 8) == (1,)


# -------------------------------------------------------------------------- who drew revealed


def patterns(piece: Piece) -> list[tuple[Fraction, Decimal]]:
    """Chance and delta of each pattern of who drew, of at most two layers."""
    epsilon, sensitivity, draws, _ = piece
    found: list[tuple[Fraction, tuple[tuple[int, Fraction], ...]]] = [(Fraction(1), ())]
    for layer in draws:
        found = [
            (chance * mass, (*laws, (k, layer.scale)))
            for chance, laws in found
            for k, mass in enumerate(binomial(layer.parties, layer.probability))
        ]
    return [(chance, whole_delta(epsilon, sensitivity, laws)) for chance, laws in found if chance]


ONE_LAYER = (Draws(TWO, 3, probability=THIRD),)
TWO_LAYERS = (Draws(ONE, 2, probability=HALF), Draws(TWO, 3, probability=THIRD))
COIN_THEN_SURE = (Draws(TWO, 3, probability=THIRD), Draws(ONE, 10))
SURE_THEN_COIN = (Draws(ONE, 10), Draws(TWO, 3, probability=Fraction(9, 10)))


@pytest.mark.parametrize("draws", [ONE_LAYER, TWO_LAYERS, COIN_THEN_SURE, SURE_THEN_COIN])
@pytest.mark.parametrize("epsilon", ["0", "2/3", "9/4"])
def test_revealed_is_the_sum_over_the_patterns(draws: tuple[Draws, ...], epsilon: str) -> None:
    piece = (Fraction(epsilon), 3, draws, 4)
    exact = sum(chance * Fraction(delta) for chance, delta in patterns(piece))
    found = Fraction(revealed_delta((piece,)))
    assert exact <= found <= exact * (1 + Fraction(1, 10**14))
    assert mixture_delta((piece,)) == found


def test_many_draws_count_as_8_behind_a_coin_and_as_32_where_they_are_sure() -> None:
    """Fewer draws than there are can only raise delta."""
    scale, epsilon = Fraction(1, 4), Fraction(0)
    chances = binomial(10, HALF)
    deltas = [Fraction(whole_delta(epsilon, 1, ((k, scale),))) for k in range(9)]
    expected = sum(chance * deltas[min(k, 8)] for k, chance in enumerate(chances))
    found = Fraction(revealed_delta(((epsilon, 1, (Draws(scale, 10, probability=HALF),), 2),)))
    assert expected <= found <= expected * (1 + Fraction(1, 10**14))
    sure = revealed_delta(((epsilon, 1, (Draws(scale, 40),), 2),))
    assert sure == whole_delta(epsilon, 1, ((32, scale),)) < whole_delta(epsilon, 1, ((8, scale),))


def test_patterns_rarer_than_1e_20_count_whole() -> None:
    """Beside a sure draw whose own delta is 1e-6: a fraction of 1e-20 is seen in its 17 digits."""
    epsilon, sure = Fraction(3) - Fraction(1, 10**6), Draws(ONE, 1)
    for chance, whole in ((Fraction(1, 10**10), False), (Fraction(99, 10**12), True)):
        draws = (sure, Draws(ONE, 2, probability=chance))
        deltas = [Fraction(whole_delta(epsilon, 3, ((1 + k, ONE),))) for k in range(3)]
        assert deltas[2] < HALF * deltas[0] < Fraction(1, 10**6)
        rare = chance**2 * (1 if whole else deltas[2])
        expected = (1 - chance) ** 2 * deltas[0] + 2 * chance * (1 - chance) * deltas[1] + rare
        found = Fraction(revealed_delta(((epsilon, 3, draws, 2),)))
        assert expected <= found <= expected * (1 + Fraction(1, 10**15))


def test_a_rare_silence_is_not_the_last_pattern() -> None:
    """Of eight parties with 1/1000 of silence each, the first patterns are the rare ones."""
    draws = (Draws(ONE, 1), Draws(TWO, 8, probability=Fraction(999, 1000)))
    piece = (Fraction(1), 3, draws, 2)
    exact = sum(chance * Fraction(delta) for chance, delta in patterns(piece))
    assert exact <= Fraction(revealed_delta((piece,))) <= exact * (1 + Fraction(1, 10**14))


def test_parts_share_their_coins() -> None:
    """1 - (1 - d1)(1 - d2) given who drew; each part has its own scales."""
    one, other = Draws(ONE, 2, probability=THIRD), Draws(TWO, 2, probability=THIRD)
    pieces = ((HALF, 2, (one,), 1), (Fraction(1, 4), 3, (other,), 1))
    expected = Fraction(0)
    for k, chance in enumerate(binomial(2, THIRD)):
        first = Fraction(whole_delta(HALF, 2, ((k, ONE),)))
        second = Fraction(whole_delta(Fraction(1, 4), 3, ((k, TWO),)))
        expected += chance * (1 - (1 - first) * (1 - second))
    found = Fraction(mixture_delta(pieces))
    assert expected <= found <= expected * (1 + Fraction(1, 10**14))


def test_three_layers_are_too_many() -> None:
    coin = Draws(ONE, 1, probability=HALF)
    with pytest.raises(ValueError, match="at most two"):
        revealed_delta(((ONE, 1, (coin, coin, coin), 2),))


# ------------------------------------------------------------------------ the law of a mixture


def test_a_mixture_states_its_reach_its_tail_and_its_error() -> None:
    """Each layer: the widest of its laws, and a rounding for each of them and four more."""
    chances = binomial(3, THIRD)
    laws = [whole_law(k, TWO) for k in (1, 2, 3)]
    alone = _mixture(ONE_LAYER)
    assert alone.reach == max(law.reach for law in laws)
    tail = sum(float(p) * law.tail for p, law in zip(chances[1:], laws, strict=True)) * (1 + 1e-9)
    assert alone.tail == pytest.approx(tail, rel=1e-12, abs=0)
    error = max(law.error for law in laws) + 7 * UNIT
    assert alone.error == pytest.approx(error, rel=1e-12, abs=0)
    other, both = _mixture(TWO_LAYERS[:1]), _mixture(TWO_LAYERS)
    assert both.reach == alone.reach + other.reach
    assert both.tail == pytest.approx(alone.tail + other.tail, rel=1e-12, abs=0)
    # One rounding for each product of the shorter.
    error = alone.error + other.error + other.mass.size * UNIT
    assert other.mass.size < alone.mass.size
    assert both.error == pytest.approx(error, rel=1e-12, abs=0)


def test_a_count_of_draws_as_rare_as_1e_18_is_left_to_the_tail() -> None:
    for chance, kept in ((Fraction(1, 10**9), False), (Fraction(11, 10**10), True)):
        law = _mixture((Draws(HALF, 2, probability=chance),))
        tail = [float(chance**k) * whole_law(k, HALF).tail for k in (1, 2)]
        expected = 2 * tail[0] + (tail[1] if kept else float(chance**2))
        assert law.tail == pytest.approx(expected, rel=1e-8, abs=0)
        assert law.error == whole_law(1 + kept, HALF).error + (5 + kept) * UNIT


SELDOM = Fraction(58, 1000)
"""Of 100 parties more than 31 draw with a chance of 8e-16; exactly 31 with one of 5e-15."""


def test_more_than_31_draws_behind_a_coin_are_cut_where_they_are_rare() -> None:
    chances = binomial(100, SELDOM)
    cut = float(sum(chances[32:]))
    assert cut < 1e-15 < chances[31]
    law = _mixture((Draws(HALF, 100, probability=SELDOM),))
    assert law.tail == pytest.approx(cut, rel=1e-6, abs=0)
    # 31 laws: none of the chances of 1 to 31 draws is below 1e-18.
    assert law.error == pytest.approx(whole_law(31, HALF).error + 35 * UNIT, rel=1e-12, abs=0)
    both = _mixture((Draws(HALF, 1), Draws(HALF, 100, probability=SELDOM)))
    assert both.tail == pytest.approx(cut, rel=1e-6, abs=0)


def test_a_cut_of_1e_15_is_still_made() -> None:
    low, high = SELDOM, SELDOM + Fraction(1, 1000)
    for _ in range(80):
        middle = (low + high) / 2
        rare = binomial_masses(100, middle, 32)[-1] <= Decimal("1e-15")
        low, high = (middle, high) if rare else (low, middle)
    assert binomial_masses(100, low, 32)[-1] == Decimal("1e-15")
    assert _mixture((Draws(HALF, 100, probability=low),)) is not None
    assert _mixture((Draws(HALF, 100, probability=high),)) is None


def test_more_than_31_likely_draws_are_not_convolved() -> None:
    assert _mixture((Draws(HALF, 33, probability=HALF),)) is None
    assert _mixture((Draws(HALF, 100, probability=SELDOM + Fraction(1, 1000)),)) is None
    for kept in (Draws(HALF, 32, probability=HALF), Draws(HALF, 33), Draws(HALF, 1000)):
        assert _mixture((kept,)) is not None
    assert exact_mixture_delta(ONE, 1, (Draws(HALF, 33, probability=HALF),)) is None


def test_mixtures_of_more_than_60_million_products_are_not_convolved() -> None:
    """(120 b + 40) (120 c + 40); a layer without draws is a point and costs nothing."""
    coin = Draws(Fraction(59), 1, probability=HALF)
    most = (Fraction(60_000_000, 120 * 59 + 40) - 40) / 120
    assert _mixture((coin, Draws(most, 1, probability=HALF))) is not None
    half_a_product = HALF / (120 * 59 + 40) / 120
    assert _mixture((coin, Draws(most + half_a_product, 1, probability=HALF))) is None
    assert _mixture((Draws(Fraction(499_999), 0), coin)) is not None
    assert _mixture((Draws(Fraction(500_000), 1, probability=HALF),)) is None


# ------------------------------------------------------------------------- delta of a mixture


@pytest.mark.parametrize("draws", [ONE_LAYER, TWO_LAYERS, (Draws(TWO, 1, probability=HALF),)])
@pytest.mark.parametrize("sensitivity", [1, 4])
@pytest.mark.parametrize("epsilon", ["0", "1/2", "7/4"])
def test_delta_is_the_sum_over_all_values(
    draws: tuple[Draws, ...], sensitivity: int, epsilon: str
) -> None:
    """The largest over all shifts."""
    law, level = np.ones(1), Fraction(epsilon)
    for layer in draws:
        law = np.convolve(law, mixed(layer))
    exact = max(hockey_stick(law, level, s) for s in range(1, sensitivity + 1))
    found = exact_mixture_delta(level, sensitivity, draws)
    assert exact - 1e-15 <= float(found) <= exact + 1e-12
    assert mixture_delta(((level, sensitivity, draws, 1),)) == found
    revealed = revealed_delta(((level, sensitivity, draws, 1),))
    assert float(revealed) >= exact - 1e-15
    assert mixture_delta(((level, sensitivity, draws, 2),)) == revealed


def test_errors_are_all_that_is_lost_between_equal_values() -> None:
    """P (1 + e) - P (1 - 2 e), e with 4 roundings of its own and the tail."""
    silent = (Draws(TWO, 0, probability=HALF),)
    assert exact_mixture_delta(Fraction(0), 0, silent) == capped(24 * UNIT)
    draws = (Draws(HALF, 100, probability=SELDOM),)
    law = _mixture(draws)
    expected = 3 * (law.error + 4 * UNIT) + law.tail
    assert law.tail > expected / 1000
    found = exact_mixture_delta(Fraction(0), 0, draws)
    assert found == pytest.approx(Decimal(expected), rel=Decimal("1e-4"))


def test_errors_grow_with_epsilon_and_with_the_window() -> None:
    """P(0) = 1 and e^epsilon P(-1) = 1/2 at a scale of 1/512 and an epsilon of 512."""
    scale, epsilon = Fraction(1, 512), Fraction(512)
    law = _mixture((Draws(scale, 1, probability=HALF),))
    error = law.error + (4 + 512) * UNIT
    expected = ((1 + error) - (1 - 2 * error) / 2) * (1 + law.mass.size * UNIT)
    found = exact_mixture_delta(epsilon, 1, (Draws(scale, 1, probability=HALF),))
    assert float(found) == pytest.approx(expected, rel=0, abs=2e-15)


def test_each_point_of_the_window_adds_a_rounding() -> None:
    draws = (Draws(Fraction(64), 1, probability=HALF),)
    law = _mixture(draws)
    assert law.mass.size == 2 * reach_of(1, 64.0) + 1
    error = law.error + 4 * UNIT
    # At epsilon 0 and a shift of 1 only z = 0 counts: the half-line z <= 0 telescopes to P(0).
    above = 0.5 + float(mixed(draws[0])[mixed(draws[0]).size // 2]) / 2
    below = above - float(mixed(draws[0])[mixed(draws[0]).size // 2])
    expected = (above * (1 + error) - below * (1 - 2 * error)) * (1 + law.mass.size * UNIT)
    found = exact_mixture_delta(Fraction(0), 1, draws)
    assert float(found) == pytest.approx(expected, rel=0, abs=5e-14)


def test_beyond_the_largest_exponent_nothing_is_convolved() -> None:
    draws = (Draws(HALF, 1, probability=HALF),)
    assert exact_mixture_delta(Fraction(600), 1, draws) is not None
    assert exact_mixture_delta(Fraction(601), 1, draws) is None
    assert mixture_delta(((Fraction(601), 1, draws, 1),)) == HALF


# ------------------------------------------------------------------------------ sure draws


def test_a_sure_draw_that_covers_each_part_needs_no_delta() -> None:
    """From the ratio of the widest of them on."""
    coin, sure, wide = Draws(ONE, 2, probability=HALF), Draws(ONE, 1), Draws(TWO, 3)
    for dimension in (1, 5):
        for draws in ((coin, wide), (wide, coin), (sure, wide), (wide, sure)):
            assert mixture_delta(((Fraction(3, 2), 3, draws, dimension),)) == 0
            assert mixture_delta(((Fraction(149, 100), 3, draws, dimension),)) > 0
    assert mixture_delta(((Fraction(3), 3, (Draws(ONE, 0), coin), 2),)) > 0
    assert mixture_delta(((Fraction(3), 3, (coin,), 2),)) > 0
    covered, short = (Fraction(3), 3, (coin, sure), 2), (Fraction(2), 3, (coin, sure), 2)
    assert mixture_delta((covered, covered)) == 0
    assert mixture_delta((covered, short)) == mixture_delta((short, covered)) > 0
