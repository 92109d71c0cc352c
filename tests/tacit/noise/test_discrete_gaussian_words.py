"""What every word of a discrete Gaussian draw decides; tables and limits at their edges."""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tacit.noise.discrete_gaussian import (
    DEVIATION_LIMIT,
    DISTANCE,
    CumulativeTable,
    DiscreteGaussian,
    _coins,
    _layers,
    _masses,
    _powers,
    _proposed,
    _split,
    gaussian_table,
    reach_of,
)
from tacit.randomness import SeededRandom
from tests.tacit.noise.words import Recording, Words

LAST = (1 << 64) - 1
COMPILED = "tacit.noise.discrete_gaussian_compiled"


def words_of(number: int) -> list[int]:
    """A number of 448 bits as seven words, the highest first."""
    return [number >> 64 * place & LAST for place in reversed(range(7))]


def test_the_stated_limits() -> None:
    assert DEVIATION_LIMIT == 1_073_741_824
    assert Fraction(1, 2**470) == DISTANCE


# ------------------------------------------------------------------------------------ the table


def test_a_table_by_its_weights() -> None:
    """Weights 1, 2, 1 and 4 of 8: every bound, rest and guide is exact."""
    table = CumulativeTable.from_law([Decimal(1), Decimal(2), Decimal(1), Decimal(4)])
    eighth = 1 << 61
    assert table.bounds.tolist() == [eighth, 3 * eighth, 4 * eighth, LAST]
    assert table.rests == (0, 0, 0, 1 << 448)
    assert table.weights() == (1 << 509, 1 << 510, 1 << 509, 1 << 511)
    assert table.guide.dtype == np.int32
    assert table.guide.tolist() == [0] * 513 + [1] * 1024 + [2] * 512 + [3] * 2047


def test_a_bound_is_the_leading_word_and_its_rest() -> None:
    """Thirds of 2^512: 0.0101... to the last bit."""
    table = CumulativeTable.from_law([Decimal(1)] * 3)
    third = (1 << 512) // 3
    for place, bound in enumerate((third, 2 * third + 1)):
        assert int(table.bounds[place]) == bound >> 448
        assert table.rests[place] == bound % (1 << 448)
    assert sum(table.weights()) == 1 << 512
    assert _split(Decimal(1 << 512)) == (LAST, (1 << 512) - (LAST << 448))
    assert _split(Decimal("2.5")) == (0, 2)


def test_words_find_their_entries() -> None:
    """Words on either side of each bound, with 300 entries of which many share a guide."""
    law = [Decimal(1 + place % 7) for place in range(300)]
    table = CumulativeTable.from_law(law)
    bounds = [int(bound) for bound in table.bounds[:-1]]
    words = np.array([word for bound in bounds for word in (bound - 1, bound + 1)], np.uint64)
    found = table.select(words, Words())  # type: ignore[arg-type]
    assert found.tolist() == [place for k in range(299) for place in (k, k + 1)]
    assert found.dtype == np.int64


def test_entries_closer_than_a_guide_are_found_too() -> None:
    """Sixteen entries within one 4,096th, before one that holds the rest."""
    law = [Decimal(1)] * 16 + [Decimal(1 << 20)]
    table = CumulativeTable.from_law(law)
    words = np.array([int(bound) - 1 for bound in table.bounds], np.uint64)
    assert table.select(words, Words()).tolist() == list(range(17))  # type: ignore[arg-type]


def test_a_tie_is_decided_by_the_rest() -> None:
    """Below the rest it is this entry, from the rest on the next."""
    table = CumulativeTable.from_law([Decimal(1)] * 3)
    tie = np.array([int(table.bounds[0]), 5, int(table.bounds[1])], np.uint64)
    rests = table.rests
    for first, second, places in (
        (rests[0] - 1, rests[1], [0, 0, 2]),
        (rests[0], rests[1] - 1, [1, 0, 1]),
    ):
        source = Words(*words_of(first), *words_of(second))
        assert table.select(tie, source).tolist() == places  # type: ignore[arg-type]
        assert source.left == []


def test_entries_that_share_a_leading_word_are_distinguished_by_their_rests() -> None:
    """Two entries of 2^-100 each: their bounds are 0."""
    law = [Decimal(1), Decimal(1), Decimal((1 << 100) - 2)]
    table = CumulativeTable.from_law(law)
    assert table.bounds.tolist() == [0, 0, LAST]
    first, second = table.rests[:2]
    for rest, place in ((first - 1, 0), (first, 1), (second - 1, 1), (second, 2)):
        word = np.array([0], np.uint64)
        found = table.select(word, Words(*words_of(rest)))  # type: ignore[arg-type]
        assert found.tolist() == [place]


def test_a_table_cannot_be_changed_and_is_its_own() -> None:
    table, other = (CumulativeTable.from_law([Decimal(1)] * 2) for _ in range(2))
    assert not table.bounds.flags.writeable
    assert not table.guide.flags.writeable
    assert len({table, other, table}) == 2
    first, second = _layers(Fraction(5000) ** 2), _layers(Fraction(5001) ** 2)
    assert len({first, second, first}) == 2


# --------------------------------------------------------------------------------- one table's law


@pytest.mark.parametrize(
    ("variance", "reach"),
    [(Fraction(1), 29), (Fraction(4), 55), (Fraction(1, 4), 16), (Fraction(1, 1000), 3)],
)
def test_a_table_holds_26_deviations_and_3(variance: Fraction, reach: int) -> None:
    assert reach_of(variance) == reach
    assert len(gaussian_table(variance).rests) == 2 * reach + 1


def test_masses_fall_with_the_square() -> None:
    masses = _masses(Fraction(4), 3)
    assert [float(mass) for mass in masses] == pytest.approx(
        [math.exp(-z * z / 8) for z in range(4)], rel=1e-15
    )
    powers = _powers(Fraction(4), 3, 4)
    assert [float(power) for power in powers] == pytest.approx(
        [math.exp(-3 * k / 8) for k in range(4)], rel=1e-15
    )
    assert len(_masses(Fraction(4), 0)) == len(_powers(Fraction(4), 3, 1)) == 1


def test_decimals_have_180_digits() -> None:
    """(e^(-1/8))^8 = e^-1 to 178 digits: the known ones of 1/e begin 0.36787944117144232159."""
    assert len(str(_masses(Fraction(4), 1)[1]).lstrip("0.")) == 180
    assert str(_powers(Fraction(1, 2), 1, 2)[1]).startswith("0.36787944117144232159552377016146086")


def test_a_table_draws_the_value_at_its_word() -> None:
    table = gaussian_table(Fraction(1))
    source = Words(*(int(table.bounds[place]) - 1 for place in (29, 30, 28)))
    drawn = DiscreteGaussian(Fraction(1)).draw(source, 3)  # type: ignore[arg-type]
    assert drawn.tolist() == [0, 1, -1]
    assert drawn.dtype == np.int64


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_draws_are_added_in_place(kind: type) -> None:
    table = gaussian_table(Fraction(1))
    values = np.array([100, 200], kind)
    source = Words(*(int(table.bounds[place]) - 1 for place in (30, 28)))
    DiscreteGaussian(Fraction(1)).add_to(values, source)  # type: ignore[arg-type]
    assert values.tolist() == [101, 199]
    assert values.dtype == kind


def test_up_to_1024_one_word_makes_a_draw() -> None:
    """Beyond, a proposal takes a word for its cell, one for its place and one for each coin."""
    for variance, asked in (
        (Fraction(1024) ** 2, [10]),
        (Fraction(1024) ** 2 + Fraction(1, 2), [10, 10, 10, 10, 10]),
    ):
        source = Recording(1 << 63 | 12345)
        DiscreteGaussian(variance).draw(source, 10)  # type: ignore[arg-type]
        assert source.asked == asked


def test_draws_are_made_by_the_chunk() -> None:
    source = Recording(1 << 63 | 12345)
    drawn = DiscreteGaussian(Fraction(1)).draw(source, 40_000)  # type: ignore[arg-type]
    assert source.asked == [16_384, 16_384, 7_232]
    assert drawn.shape == (40_000,)
    assert (drawn == drawn[0]).all()
    large = DiscreteGaussian(Fraction(5000) ** 2)
    seeded = SeededRandom(4)
    parts = [large.draw(seeded, size) for size in (16_384, 16_384, 100)]
    assert np.array_equal(large.draw(SeededRandom(4), 32_868), np.concatenate(parts))


def test_nothing_compiled_is_needed_unless_it_is_asked_for(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, COMPILED, None)
    law = DiscreteGaussian(Fraction(1))
    values = np.zeros(5, np.int64)
    law.add_to(values, SeededRandom(1))
    assert law.draw(SeededRandom(1), 5).tolist() == values.tolist()
    with pytest.raises(ImportError):
        law.draw(SeededRandom(1), 5, compiled=True)


@pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
def test_the_compiled_twin_decides_ties_alike(monkeypatch: Any) -> None:
    """Its source, run as it is: five words of which two tie."""
    from tacit.noise.discrete_gaussian_compiled import add_looked_up

    monkeypatch.setitem(sys.modules, COMPILED, SimpleNamespace(add_looked_up=add_looked_up.py_func))
    law, table = DiscreteGaussian(Fraction(1)), gaussian_table(Fraction(1))
    tie, rest = int(table.bounds[29]), table.rests[29]
    words = [tie, 5 << 60, int(table.bounds[20]) + 1, tie, LAST - 1]
    further = [*words_of(rest - 1), *words_of(rest)]
    drawn = []
    for compiled in (False, True):
        source = Words(*words, *further)
        drawn.append(law.draw(source, 5, compiled=compiled).tolist())  # type: ignore[arg-type]
        assert source.left == []
    assert drawn[0] == drawn[1]
    assert (drawn[0][0], drawn[0][3]) == (0, 1)


@pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
def test_the_compiled_twin_finds_every_tie() -> None:
    from tacit.noise.discrete_gaussian_compiled import add_looked_up

    table = CumulativeTable.from_law([Decimal(1)] * 16 + [Decimal(1 << 20)])
    bounds = [int(bound) for bound in table.bounds]
    words = np.array([bounds[place % 16] - (place % 3 == 0) for place in range(40)], np.uint64)
    values = np.full(40, 1000, np.int64)
    ties = add_looked_up.py_func(values, words, table.bounds, table.guide, 7)
    assert ties.tolist() == [place for place in range(40) if place % 3]
    assert values.tolist() == [1000 - 7 + place % 16 for place in range(40)]


@pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
def test_nothing_compiled_is_kept_on_disk(monkeypatch: Any, tmp_path: Path) -> None:
    """Nobody can replace machine code between two starts, and a read-only package imports."""
    import numba

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.delitem(sys.modules, COMPILED, raising=False)
    assert import_module(COMPILED).add_looked_up.py_func
    assert list(tmp_path.rglob("*")) == []


# ------------------------------------------------------------------------------- large deviations


LARGE = Fraction(5000) ** 2


@pytest.mark.parametrize(
    ("deviation", "shift"),
    [(128 * 16, 4), (128 * 16 - 1, 3), (Fraction("127.5") * 16, 3), (256 * 16 - 1, 4),
     (256 * 16, 5), (1 << 30, 23)],
    ids=str,
)  # fmt: skip
def test_cells_are_at_least_128_to_a_deviation(deviation: Fraction, shift: int) -> None:
    assert _layers(Fraction(deviation) ** 2).shift == shift


def test_cells_hold_the_largest_of_their_masses() -> None:
    """Width 32: above zero from 32 c, below from 32 c + 1."""
    layers = _layers(LARGE)
    weights = layers.cells.weights()
    assert layers.shift == 5
    assert len(weights) == 2 * ((26 * 5000 + 3) // 32 + 1)
    for cell in (0, 1, 2, 150, 700):
        for sign in (0, 1):
            mass = math.exp(-((32 * cell + sign) ** 2) / 5e7)
            assert weights[2 * cell + sign] / weights[0] == pytest.approx(mass, rel=1e-12)


def test_coins_of_a_digit() -> None:
    """Three digits hold 31 (2 130,003 + 31); each is kept with e^(-digit 256^place / (2 s^2))."""
    coins = _layers(LARGE).coins
    assert len(coins) == 3
    for place, (bounds, rests) in enumerate(coins):
        assert len(bounds) == len(rests) == 256
        assert (int(bounds[0]), rests[0]) == (LAST, 1 << 448)
        for digit in (1, 2, 255):
            kept = math.exp(-digit * 256**place / 5e7)
            assert (int(bounds[digit]) + 1) / 2**64 == pytest.approx(kept, rel=1e-14)


@pytest.mark.parametrize(
    ("deviation", "digits"), [(1025, 3), (2047, 3), (8160, 3), (8192, 4), (1 << 30, 8)]
)
def test_digits_hold_the_largest_exponent(deviation: int, digits: int) -> None:
    assert len(_layers(Fraction(deviation) ** 2).coins) == digits


def proposed(cell: int, sign: int, inside: int, *coins: int) -> list[int]:
    """What is kept of one proposal of this cell, with these three words for its coins."""
    layers = _layers(LARGE)
    word = int(layers.cells.bounds[2 * cell + sign]) - 1
    source = Words(word, inside, *coins)
    found = _proposed(layers, source, 1).tolist()  # type: ignore[arg-type]
    assert source.left == []
    return found


def test_a_proposal_is_its_cell_and_its_place() -> None:
    assert proposed(0, 0, 0, 0, 0, 0) == [0]
    assert proposed(0, 1, 0, 0, 0, 0) == [-1]
    assert proposed(3, 0, 7, 0, 0, 0) == [103]
    assert proposed(3, 1, 7, 0, 0, 0) == [-104]
    assert proposed(3, 0, 32 + 7, 0, 0, 0) == [103]  # five bits of the word


def test_a_proposal_is_kept_by_a_coin_for_each_digit_of_its_exponent() -> None:
    """L (2 b + L) with L = 31: for b = 32,000 it is 1,984,961 = 0x1E49C1; below zero b + 1."""
    coins = _layers(LARGE).coins
    for sign, value in ((0, 32_031), (1, -32_032)):
        exponent = 31 * (2 * (32_000 + sign) + 31)
        digits = [exponent >> 8 * place & 255 for place in range(3)]
        for place, digit in enumerate(digits):
            bound = int(coins[place][0][digit])
            row = [0, 0, 0]
            row[place] = bound - 1
            assert proposed(1000, sign, 31, *row) == [value]
            row[place] = bound + 1
            assert proposed(1000, sign, 31, *row) == []


def test_what_is_not_kept_is_proposed_again() -> None:
    """Three draws; the second proposal fails its first coin, and one more is made."""
    layers = _layers(LARGE)
    word = int(layers.cells.bounds[2 * 1000]) - 1
    bound = int(layers.coins[2][0][31 * (64_000 + 31) >> 16])
    first = [word] * 3 + [31] * 3 + [0] * 6 + [0, bound + 1, 0]
    second = [word, 30, 0, 0, 0]
    source = Words(*first, *second)
    drawn = DiscreteGaussian(LARGE).draw(source, 3)  # type: ignore[arg-type]
    assert drawn.tolist() == [32_031, 32_031, 32_030]
    assert source.left == []


def test_a_coin_that_ties_compares_the_rest() -> None:
    bounds, rests = _layers(LARGE).coins[0]
    tie, rest = int(bounds[100]), rests[100]
    digits = np.array([100, 0, 100])
    for more, shown in ((rest - 1, True), (rest, False)):
        source = Words(tie - 1, 7, tie, *words_of(more))
        found = _coins(digits, bounds, rests, source)  # type: ignore[arg-type]
        assert found.tolist() == [True, True, shown]
        assert source.left == []


# ------------------------------------------------------------------------------------ the law


def test_variances_that_are_served() -> None:
    for variance in (Fraction(DEVIATION_LIMIT) ** 2, Fraction(1, 10**9)):
        assert DiscreteGaussian(variance).variance == variance
    for wrong in (Fraction(0), Fraction(-1), Fraction(DEVIATION_LIMIT) ** 2 + Fraction(1, 9)):
        with pytest.raises(ValueError, match="deviation"):
            DiscreteGaussian(wrong)
    with pytest.raises(TypeError, match="rational"):
        DiscreteGaussian(0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("variance", ["0.8", "1", "30"])
def test_the_mass_of_a_value(variance: str) -> None:
    exact = float(variance)
    whole = math.fsum(math.exp(-(z**2) / (2 * exact)) for z in range(-200, 201))
    found = DiscreteGaussian(Fraction(variance)).pmf([0, 1, -2])
    expected = [math.exp(-(z**2) / (2 * exact)) / whole for z in (0, 1, 2)]
    assert found == pytest.approx(expected, rel=3e-15, abs=0)
    assert found.dtype == np.float64
