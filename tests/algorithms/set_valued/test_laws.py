"""The noise of both stances: thresholds, chances, draws, and the baseline's histogram."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms.contract import SequentialContext
from algorithms.set_valued.records import clipped, noisy_histogram, rows_of, superset_sums
from algorithms.set_valued.settings import PaperLaw, SoundLaw, floating_test, integer_test
from tacit.randomness import SecureRandom, SeededRandom
from tests.property_examples import examples

HALF = Fraction(1, 2)


@pytest.mark.parametrize(
    ("cells", "alpha", "tau", "chance"),
    [
        (3, Fraction(1, 6), 8, 0.142756),
        (1023, Fraction(1, 6), 43, 0.000418034),
        (3, Fraction(1, 230), 254, 0.166074),
        (1023, HALF, 15, 0.000344273),
        (3, Fraction(5, 6), 2, 0.131657),
    ],
)
def test_sound_thresholds(cells: int, alpha: Fraction, tau: int, chance: float) -> None:
    """Spec: set-valued, section 8, check 4."""
    test = integer_test(cells, alpha, HALF)
    assert test.threshold == tau
    assert float(test.chance) == pytest.approx(chance, rel=1e-5)
    assert SoundLaw(HALF, HALF).partition(cells, alpha, 3) is test


@given(
    st.integers(3, 65_535),
    st.fractions(Fraction(1, 50_000), 20),
    st.fractions(Fraction(1, 1000), Fraction(999, 1000)),
)
def test_the_threshold_is_the_smallest(cells: int, rate: Fraction, eta: Fraction) -> None:
    test = integer_test(cells, rate, eta)
    a = math.exp(-float(rate))
    expected = [cells * a**tau / (1 + a) for tau in (test.threshold, test.threshold - 1)]
    assert expected[0] <= float(eta) * (1 + 1e-9)
    assert test.threshold == 1 or expected[1] > float(eta) * (1 - 1e-9)
    assert float(test.chance) == pytest.approx(expected[0] / cells, rel=1e-9)


def test_a_count_of_four_passes_as_stated() -> None:
    """Spec: set-valued, section 8, checks 3 and 4.

    400,000 draws, six standard errors are 0.0043 and 0.0017.
    """
    counts = np.full(400_000, 4)
    sound = integer_test(3, Fraction(1, 6), HALF)
    passed = sound.noisy(counts, SeededRandom(1)) >= sound.threshold
    assert abs(passed.mean() - 0.278052) < 0.0043
    paper = PaperLaw(1.0, 1.2).partition(3, Fraction(1, 6), 2)
    assert paper.threshold == pytest.approx(20.3647, abs=1e-4)
    assert float(paper.chance) == pytest.approx(0.016785, abs=1e-6)
    passed = paper.noisy(counts, SeededRandom(1)) >= paper.threshold
    assert abs(passed.mean() - 0.032693) < 0.0017


def _limit(cells: int) -> float:
    """What Pearson's statistic exceeds with a chance below 1e-6 (Laurent and Massart)."""
    x = math.log(1e6)
    return (cells - 1) + 2 * math.sqrt((cells - 1) * x) + 2 * x


def test_sound_noise_follows_its_law() -> None:
    """Spec: set-valued, section 8, check 9: alpha 1/6, -20..20 and two tails, 300,000 draws."""
    test = integer_test(3, Fraction(1, 6), HALF)
    drawn = test.noisy(np.zeros(300_000, np.int64), SecureRandom.from_secret_seed(bytes(32), "a"))
    inner = test.law.pmf(np.arange(-20, 21))
    law = np.concatenate(([(1 - inner.sum()) / 2], inner, [(1 - inner.sum()) / 2]))
    counts = np.bincount(np.clip(drawn, -21, 21) + 21, minlength=43)
    expected = law * drawn.size
    assert ((counts - expected) ** 2 / expected).sum() < _limit(43)


def test_passing_counts_follow_the_conditional_law() -> None:
    test = integer_test(3, Fraction(1, 6), HALF)
    drawn = test.passing(200_000, SeededRandom(3)) - test.threshold
    assert drawn.min() == 0
    a = math.exp(-1 / 6)
    law = np.append((1 - a) * a ** np.arange(30), a**30)
    counts = np.bincount(np.minimum(drawn, 30), minlength=31)
    expected = law * drawn.size
    assert ((counts - expected) ** 2 / expected).sum() < _limit(31)


def test_floating_noise_takes_no_secret_stream() -> None:
    secret = SecureRandom()
    test = floating_test(HALF, 3.0)
    with pytest.raises(TypeError):
        test.noisy(np.zeros(1, np.int64), secret)
    assert isinstance(PaperLaw(1, 2).source(secret), SeededRandom)
    assert SoundLaw(HALF, HALF).source(secret) is secret


@examples(30)
@given(st.lists(st.integers(-3, 5), min_size=32, max_size=32))
def test_rows_and_sums_as_by_hand(values: list[int]) -> None:
    cells = np.array([0, *values[1:]])
    by_hand = {
        tuple(bit for bit in range(5) if mask >> bit & 1): values[mask]
        for mask in range(1, 32)
        if values[mask] > 0
    }
    rows = rows_of(cells)
    assert dict(rows) == by_hand
    assert list(rows) == sorted(rows, key=lambda row: (len(row[0]), row[0]))
    sums = superset_sums(cells)
    for mask in range(32):
        assert sums[mask] == sum(int(cells[m]) for m in range(32) if m & mask == mask)


def test_clipping_leaves_counts() -> None:
    assert clipped(np.array([-2.0, -0.4, 0.5, 1.49])).tolist() == [0, 0, 1, 1]
    noisy = noisy_histogram(np.zeros(8, np.int64), HALF, "paper", SequentialContext())
    assert noisy.dtype == np.float64
    assert noisy[0] == 0
