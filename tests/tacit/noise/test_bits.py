"""Coins show true with the probability written down, to the last digit."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tacit.noise.bits import Bernoulli, exact_coin
from tacit.randomness import SeededRandom
from tests.tacit.noise.words import Words

ALARM = 1e-6


@pytest.mark.parametrize("comparison_bits", [64, 4, 1])
@pytest.mark.parametrize(
    "probability", [Fraction(1, 3), Fraction(1, 2), Fraction("0.0001"), Fraction("0.999")]
)
def test_frequencies(probability, comparison_bits):
    draws = 10**6 if comparison_bits == 64 else 20_000
    shown = Bernoulli(probability, comparison_bits).draw(SeededRandom(5), draws)
    assert shown.dtype == np.bool_
    assert stats.binomtest(int(shown.sum()), draws, float(probability)).pvalue > ALARM


@pytest.mark.parametrize("probability", [Fraction(0), Fraction(1)])
def test_certain_coins_are_constant_and_cost_the_same_words(probability):
    words = SeededRandom(1).words(1000).tolist()
    extremes = [0, (1 << 64) - 1]
    source = Words(*words, *extremes)
    shown = Bernoulli(probability).draw(source, 1002)
    assert shown.tolist() == [probability == 1] * 1002
    assert source.left == []


@given(st.fractions(0, 1).filter(lambda p: p < 1), st.integers(0, 2))
def test_the_decision_is_the_comparison_of_expansions(probability, agreeing):
    """Words that agree with p for some digits and then fall short by one, or exceed by one."""
    digits, rest = [], probability
    for _ in range(agreeing + 1):
        digit, rest = divmod(rest * (1 << 64), 1)
        digits.append(int(digit))
    last = digits.pop()
    if last > 0:
        assert Bernoulli(probability).draw(Words(*digits, last - 1), 1).tolist() == [True]
        assert exact_coin(probability, Words(*digits, last - 1))
    if last < (1 << 64) - 1:
        source = Words(*digits, last + 1)
        assert Bernoulli(probability).draw(source, 1).tolist() == [False]


def test_a_finite_expansion_ends():
    half = 1 << 63
    assert Bernoulli(Fraction(1, 2)).draw(Words(half - 1, half), 2).tolist() == [True, False]


def test_cut_comparison_continues_with_the_rest():
    """p = 1/3 = 0.0101..., 4 bits: 5 ties, and the rest is 1/3 again."""
    third = (1 << 64) // 3
    for second, expected in ((third - 1, True), (third + 1, False)):
        source = Words(5 << 60, second)
        assert Bernoulli(Fraction(1, 3), 4).draw(source, 1).tolist() == [expected]


@pytest.mark.parametrize("probability", [Fraction(-1, 10), Fraction(11, 10)])
def test_no_probability(probability):
    with pytest.raises(ValueError):
        Bernoulli(probability)


def test_floats_are_refused():
    with pytest.raises(TypeError):
        Bernoulli(0.1)
    for bits in (0, 65):
        with pytest.raises(ValueError, match="64 bits"):
            Bernoulli(Fraction(1, 2), bits)
