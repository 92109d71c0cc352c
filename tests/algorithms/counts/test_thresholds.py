"""Thresholds by the noise that a sum holds. Spec: federated-counting, section 3."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from algorithms.counts.contract import tail, threshold
from algorithms.sequential_ngram.settings import empty_threshold
from algorithms.sequential_prefix_tree.parameters import count_test, item_multiple
from algorithms.set_valued.settings import integer_test

DRAWS = (Fraction(1), Fraction(3, 2), Fraction(3))


def test_the_table_of_n_grams() -> None:
    """18 cells, L = 17, scale 100."""
    found = [empty_threshold(20, 17, paper=False, draws=draws)(Fraction(1, 5)) for draws in DRAWS]
    assert found == [221, 272, 387]


def test_the_table_of_the_prefix_tree() -> None:
    """L = 17, 12 levels, epsilon 1: scale 12."""
    multiple = item_multiple(17, "sound", None)
    tests = [count_test(Fraction(1, 12), multiple, "sound", draws) for draws in DRAWS]
    assert [test.threshold for test in tests] == [34, 42, 57]
    assert float(tests[0].chance) == pytest.approx(0.03063, abs=5e-6)


@pytest.mark.parametrize(("cells", "expected"), [(3, [8, 11, 16]), (1023, [43, 49, 61])])
def test_the_table_of_diffpart(cells: int, expected: list[int]) -> None:
    tests = [integer_test(cells, Fraction(1, 6), Fraction(1, 2), draws) for draws in DRAWS]
    assert [test.threshold for test in tests] == expected


def test_one_draw_has_the_closed_form() -> None:
    for scale, chance in ((Fraction(7, 2), 0.2), (Fraction(100), 1 / 18), (Fraction(6), 1e-6)):
        a = math.exp(-1 / scale)
        assert tail(Fraction(1), scale, 5) == pytest.approx(a**5 / (1 + a), rel=1e-9)
        closed = max(1, math.ceil(math.log(1 / (chance * (1 + a))) * scale))
        assert threshold(Fraction(1), scale, chance) == closed


def test_the_tail_is_that_of_drawn_sums() -> None:
    """Three draws of scale 12 together, 400,000 times: five deviations, false alarm below 1e-6."""
    generator = np.random.default_rng(5)
    a, size = math.exp(-1 / 12), 400_000
    drawn = sum(generator.geometric(1 - a, size) - generator.geometric(1 - a, size) for _ in "abc")
    for least in (1, 30, 57, 90):
        exact = tail(Fraction(3), Fraction(12), least)
        assert abs((drawn >= least).mean() - exact) < 5 * math.sqrt(exact / size)


def test_wide_scales_are_rounded_upwards_only_a_little() -> None:
    narrow = threshold(Fraction(3), Fraction(4096), 1 / 18)
    wide = threshold(Fraction(3), Fraction(40_960), 1 / 18)
    assert 10 * (narrow - 1) <= wide <= 10 * narrow
