"""What every word of a discrete Laplace draw decides, and the law's tables entry by entry."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from tacit.noise.alias import AliasTable
from tacit.noise.discrete_laplace import (
    SCALE_LIMIT,
    DiscreteLaplace,
    check_scale,
    fill_laplace,
    laplace_tables,
)
from tacit.randomness import SeededRandom
from tests.tacit.noise.words import Recording, Words

ANY = 1 << 40
"""A word that ties with no entry of the tables below."""


def even(size: int) -> AliasTable:
    """A table that draws the low bits of its word."""
    return AliasTable.from_law([Decimal(1)] * size)


def test_digits_are_put_together_and_the_sign_turns_every_bit() -> None:
    """Two draws of three digits and a sign; rows of words, the lowest digit first."""
    drawn = np.empty(2, np.int64)
    rows = [[3, 255], [1, 2], [0, 7], [0, 1]]
    source = Words(*(ANY | word for row in rows for word in row))
    tables = [even(256), even(16), even(8)]
    fill_laplace(drawn, tables, even(2), source)  # type: ignore[arg-type]
    assert drawn.tolist() == [3 + 256, -1 - (255 + 2 * 256 + 7 * 65536)]
    assert source.left == []


def test_one_digit_needs_one_word_and_one_for_the_sign() -> None:
    drawn = np.empty(3, np.int64)
    source = Words(*(ANY | word for word in (0, 0, 9, 0, 1, 0)))
    fill_laplace(drawn, [even(16)], even(2), source)  # type: ignore[arg-type]
    assert drawn.tolist() == [0, -1, 9]
    assert source.left == []


@pytest.mark.parametrize(
    ("scale", "places"),
    [
        ("0.01", 1),
        (Fraction(25_600, 8942), 1),
        (Fraction(25_601, 8942), 2),
        (Fraction(6_553_600, 8942), 2),
        (Fraction(6_553_601, 8942), 3),
        (SCALE_LIMIT, 4),
    ],
    ids=str,
)
def test_digits_reach_89_scales(scale: str | Fraction | int, places: int) -> None:
    """256^places >= 89.42 b, and no place more."""
    digits, sign = laplace_tables(Fraction(scale))
    assert len(digits) == places
    assert [table.size for table in digits] == [256] * places
    assert sign.size == 2


def test_weights_of_digits_and_sign() -> None:
    digits, sign = laplace_tables(Fraction(100))
    for place, table in enumerate(digits):
        weights = table.weights()
        for digit in (1, 2, 3):
            ratio = weights[digit] / weights[0]
            assert ratio == pytest.approx(math.exp(-digit * 256**place / 100), rel=1e-14)
    positive, negative = sign.weights()
    assert negative / positive == pytest.approx(math.exp(-1 / 100), rel=1e-14)


def test_ties_come_with_fewer_bits_of_comparison() -> None:
    digits, sign = laplace_tables(Fraction(100), 4)
    assert [table.comparison_bits for table in (*digits, sign)] == [4, 4, 4]


def test_draws_are_made_by_the_block() -> None:
    source = Recording(ANY)
    drawn = DiscreteLaplace(Fraction(100)).draw(source, 20_000)  # type: ignore[arg-type]
    assert source.asked == [3 * 8192, 3 * 8192, 3 * 3616]
    assert drawn.shape == (20_000,)
    assert drawn.dtype == np.int64
    assert (drawn == drawn[0]).all()


def test_every_block_is_filled() -> None:
    noise = DiscreteLaplace(Fraction(100))
    source = SeededRandom(3)
    parts = [noise.draw(source, size) for size in (8192, 8192, 100)]
    assert np.array_equal(noise.draw(SeededRandom(3), 16_484), np.concatenate(parts))


def test_the_mass_of_a_value() -> None:
    """(1 - a) / (1 + a) a^|z| with a = e^(-2/7)."""
    a = math.exp(-2 / 7)
    law = DiscreteLaplace(Fraction(7, 2)).pmf([0, 3, -3])
    assert law.dtype == np.float64
    assert law == pytest.approx([(1 - a) / (1 + a) * a**k for k in (0, 3, 3)], rel=1e-14)


def test_scales_that_are_served() -> None:
    for scale in (Fraction(1, 10**12), Fraction(SCALE_LIMIT), 1):
        check_scale(scale)  # type: ignore[arg-type]
    for wrong in (Fraction(0), Fraction(-1), SCALE_LIMIT + Fraction(1, 10**9)):
        for refuses in (check_scale, DiscreteLaplace):
            with pytest.raises(ValueError, match="scale"):
                refuses(wrong)
    with pytest.raises(TypeError, match="rational"):
        check_scale(0.5)  # type: ignore[arg-type]
    assert SCALE_LIMIT == 20_000_000
